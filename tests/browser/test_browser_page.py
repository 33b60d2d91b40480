"""The page at `/` in a real Chromium, over the embedded models."""

import asyncio
import re
import subprocess
import sys

import httpx
import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from tests.browser.pages import DESK, PHONE, embedded_service, visiting
from tests.conftest import GENERATE

pytestmark = pytest.mark.anyio

MADE_UP = "Which country is Pirot in?"
KNOWN = "What is the capital of France?"


@pytest.fixture(scope="module")
async def url(anyio_backend, browser):
    async with embedded_service() as running:
        yield running


async def answered(url, prompt, **body):
    """What the service says to the request that the page makes."""
    body = {"prompt": prompt, "seed": 7, "target_error": 0.1} | body
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        response = await client.post(GENERATE, json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_full_answer_has_tokens_gauge_verdict_groups_scores_and_times(browser, url):
    told = {"explain": True, "return_samples": True, "return_tokens": True}
    api = await answered(url, MADE_UP, **told)
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.choose()
        await visit.page.uncheck("#cache")
        await visit.ask(MADE_UP, seed=7)

        assert await visit(".tokens").text_content() == f"{api['text'].strip()}end"
        shades = await visit(".tokens .token").evaluate_all(
            "all => all.map(one => Number(one.style.getPropertyValue('--s')))"
        )
        surprises = [-token["logprob"] for token in api["tokens"]]
        assert shades.index(max(shades)) == surprises.index(max(surprises))

        confidence = str(int(100 * api["confidence"] + 0.5))
        await expect(visit("[role=meter]")).to_have_attribute("aria-valuenow", confidence)
        verdict = visit(".verdict")
        await expect(verdict).to_have_attribute("data-accept", "false")
        await expect(verdict).to_contain_text("above the threshold 0.363")
        await expect(verdict).to_contain_text(api["decision"]["guarantee"])

        shares = await visit.texts(".groups .share")
        assert shares == [f"{100 * group['share']:.0f} %" for group in api["groups"]]
        assert await visit.texts(".groups q") == [one["text"] for one in api["groups"]]
        notes = await visit.texts(".groups .note")
        for note, group in zip(notes, api["groups"], strict=True):
            assert f"similarity to the answer {group['similarity']:.2f}" in note
        names = await visit.texts("table.stacked tbody th")
        assert names[0] == api["estimator"]
        assert set(names) == set(api["scores"])
        assert all(await visit.texts("table.stacked .meaning")), "a score says what it is"
        await expect(visit(".times")).to_contain_text("comparing")
        assert visit.complaints == []
        assert all(one.startswith(url) for one in visit.urls), "it asks no other host"


async def test_a_light_answer_says_what_the_probe_predicts(browser, url):
    api = await answered(url, KNOWN, mode="light")
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(KNOWN, "light")

        await expect(visit(".run h3")).to_have_text("Light")
        await expect(visit(".verdict")).to_have_attribute("data-accept", "true")
        await expect(visit(".run")).to_contain_text("No samples were drawn")
        await expect(visit(".groups")).to_have_count(0)
        assert set(await visit.texts("table.stacked tbody th")) == set(api["scores"])
        assert visit.complaints == []


async def test_light_stands_beside_full_with_their_times(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(MADE_UP, "both", seed=7)

        full, light = await visit("article.run").all()
        boxes = [await one.bounding_box() for one in (full, light)]
        assert boxes[0]["y"] == boxes[1]["y"]
        assert boxes[0]["x"] < boxes[1]["x"]
        assert await visit.texts("#comparison thead th") == ["Full", "Light"]
        rows = dict.fromkeys(await visit.texts("#comparison tbody th"))
        assert {"Answer", "Confidence", "Verdict", "First token", "Everything"} <= rows.keys()
        assert visit.complaints == []


async def test_every_available_score_can_be_had_in_both_modes(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.choose("both", prompt=KNOWN)
        await visit.page.check("#all")
        await visit.page.click("#ask")
        await visit.is_over()

        full, light = await visit("article.run").all()
        assert await full.locator("table.stacked tbody tr").count() > 30
        names = await light.locator("table.stacked tbody th").all_inner_texts()
        assert "high_semantic_entropy_light" in names
        assert "consistency" not in names


async def test_a_request_that_is_not_calibrated_is_answered_without_a_verdict(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(MADE_UP, num_samples=5)

        await expect(visit(".verdict")).to_contain_text("calibrated for num_samples 10")
        await expect(visit(".gauge.plain")).to_contain_text("rb_cocoa_sp")
        await expect(visit("#notice")).to_be_empty()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"prompt": ""}, "prompt"),
        ({"prompt": KNOWN, "max_new_tokens": 0}, "max_new_tokens"),
        ({"prompt": KNOWN, "num_samples": "many"}, "num_samples"),
        ({"prompt": KNOWN, "seed": "-1"}, "seed"),
    ],
)
async def test_an_error_names_code_and_field_and_leads_to_it(browser, url, fields, field):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(**fields)

        alert = visit("[role=alert]")
        await expect(alert).to_contain_text("invalid_request")
        assert field in await alert.locator("dd code").all_inner_texts()
        await expect(visit(f"#{field}")).to_be_focused()
        await expect(visit(f"#{field}")).to_have_attribute("aria-invalid", "true")
        await expect(visit("article.run")).to_have_count(0)

        await visit.ask(KNOWN, max_new_tokens="", num_samples=10, seed=7)
        await expect(alert).to_have_count(0)
        await expect(visit("[aria-invalid]")).to_have_count(0)


async def test_the_keyboard_alone_asks_reads_the_surprise_and_copies(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        press = visit.page.keyboard.press

        async def tab_to(selector):
            for _ in range(60):
                await press("Tab")
                if await visit(f"{selector}:focus").count():
                    return
            pytest.fail(f"Tab does not reach {selector}")

        await press("Tab")
        await expect(visit(".skip")).to_be_focused()
        await tab_to("#prompt")
        await visit.page.keyboard.type(MADE_UP)
        await press("Control+Enter")
        await visit.is_over()

        await tab_to(".token")
        told = await visit(".detail").inner_text()
        assert re.search(r"surprise [\d.<]+ ?[\d.]* nats · the model gave it", told)
        await press("ArrowRight")
        assert await visit(".detail").inner_text() != told
        await press("End")
        await expect(visit(".detail")).to_contain_text("end of the answer")
        await tab_to(".code summary")
        await press("Enter")
        await press("Tab")
        await press("ArrowRight")
        await expect(visit("[role=tab][aria-selected=true]")).to_have_text("Python")
        await expect(visit(".code pre")).to_contain_text("import httpx")


async def test_a_screen_reader_is_told_of_the_answer(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(KNOWN, seed=7)
        told = visit("[role=status]#live")
        await expect(told).to_have_text("Answer, full: Paris. Confidence 97 %. May pass.")


async def test_an_example_is_one_press_away(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit(".example").first.click()
        await visit.is_over()
        assert await visit("#prompt").input_value() == KNOWN
        await expect(visit("article.run")).to_have_count(1)


async def test_the_code_of_a_request_runs_as_it_stands(browser, url, tmp_path):
    prompt = 'Say "it\'s" — in German\nor \\ not: $HOME `id`'
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(prompt, seed=7, max_new_tokens=8)
        await visit(".code summary").click()
        code = {}
        for tab in await visit("[role=tab]").all():
            await tab.click()
            code[await tab.inner_text()] = await visit(".code pre").inner_text()
        api = await answered(url, prompt, max_new_tokens=8, target_error=None)

        curled = await asyncio.to_thread(run, ["bash", "-c", code["curl"]])
        assert f'"uncertainty":{api["uncertainty"]}' in curled
        script = tmp_path / "request.py"
        script.write_text(code["Python"], encoding="utf-8")
        assert str(api["uncertainty"]) in await asyncio.to_thread(run, [sys.executable, script])
        async with visit.page.expect_console_message() as said:
            await visit.page.evaluate(f"async () => {{ {code['JavaScript']} }}")
        assert str(api["uncertainty"]) in (await said.value).text


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_code_is_copied(browser, url):
    permissions = ["clipboard-read", "clipboard-write"]
    async with visiting(browser, url, permissions=permissions) as visit:
        await visit.is_ready()
        await visit.ask(KNOWN)
        await visit(".code summary").click()
        await visit(".code button:has-text('Copy')").click()
        await expect(visit(".code [role=status]")).to_have_text("Copied.")
        copied = await visit.page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith(f"curl -s '{url}{GENERATE}'")


async def test_no_width_scrolls_sideways(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await scrolls_sideways_nowhere(visit)
        await visit.ask(MADE_UP, "both", seed=7)
        await visit.unfold()
        await scrolls_sideways_nowhere(visit)
        await visit.ask("")
        await scrolls_sideways_nowhere(visit)


async def scrolls_sideways_nowhere(visit):
    for width in (320, 375, 768, 1024, 1440):
        await visit.page.set_viewport_size({"width": width, "height": 800})
        inside, outside = await visit.page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert inside <= outside, width


async def test_on_a_phone_the_answer_comes_into_view(browser, url):
    async with visiting(browser, url, size=PHONE) as visit:
        await visit.is_ready()
        await visit.ask(MADE_UP, seed=7)
        await expect(visit(".tokens")).to_be_in_viewport()


@pytest.mark.parametrize("colours", ["light", "dark"])
async def test_colours_follow_the_system_until_chosen_and_stay_chosen(browser, url, colours):
    ground = "getComputedStyle(document.body).backgroundColor"
    other = {"light": "dark", "dark": "light"}[colours]
    async with visiting(browser, url, colours=colours) as visit:
        root = visit("html")
        await expect(root).to_have_attribute("data-theme", colours)
        before = await visit.page.evaluate(ground)
        await visit.page.emulate_media(color_scheme=other)
        await expect(root).to_have_attribute("data-theme", other)
        await visit.page.emulate_media(color_scheme=colours)
        await visit.page.click("#theme")
        await expect(root).to_have_attribute("data-theme", other)
        assert await visit.page.evaluate(ground) != before
        await visit.page.reload()
        await expect(root).to_have_attribute("data-theme", other)


@pytest.mark.parametrize(("size", "colours"), [(DESK, "dark"), (PHONE, "light")])
async def test_axe_finds_nothing(browser, url, size, colours):
    async with visiting(browser, url, size=size, colours=colours) as visit:
        await visit.is_ready()
        await has_no_faults(visit)
        await visit.ask(MADE_UP, "both", seed=7)
        await visit.unfold()
        await visit(".token").first.focus()
        await has_no_faults(visit)
        await visit.page.click("#theme")
        await has_no_faults(visit)
        await visit.ask("")
        await has_no_faults(visit)


async def has_no_faults(visit):
    found = await Axe().run(visit.page)
    assert found.violations_count == 0, found.generate_report()


async def test_the_interactive_documentation_works_without_any_other_host(browser, url):
    async with visiting(browser, f"{url}/docs") as visit:
        await expect(visit(".opblock").first).to_be_visible()
        assert all(one.startswith((url, "data:")) for one in visit.urls)
        assert visit.complaints == []
