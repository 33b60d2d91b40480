"""Earlier questions, links to questions and the recorded example of the page at `/`."""

import json
from pathlib import Path

import pytest
from playwright.async_api import expect

import app.plugins.page
from models.estimators import ESTIMATORS
from tests.browser.pages import KNOWN, MADE_UP, answered, taking_chats, visiting
from tests.browser.test_browser_chat import posts

pytestmark = pytest.mark.anyio

ADDRESS = "location.href"


async def test_a_link_holds_the_question_and_asks_nothing_by_itself(browser, url):
    route = await taking_chats(url, mode="light")
    async with visiting(browser, url, route=route) as visit:
        await visit.is_ready()
        await visit.page.select_option("#target_error", "0.05")
        await visit.choose("light", prompt=MADE_UP, system="Be brief.", max_new_tokens=9)
        await visit.page.check("#all")
        await visit("#key-options summary").click()
        await visit.page.fill("#key", "secret-of-mine")
        await visit.page.click("#ask")
        await visit.is_over()
        await visit.page.click("text=Go on with this chat")
        await visit.ask(KNOWN, "light")
        turns = await visit.texts("#turns li")
        await visit.page.click("text=Copy a link")
        link = await visit.page.evaluate(ADDRESS)
        assert "secret-of-mine" not in link
        assert not any("#" in one or "Pirot" in one for one in visit.urls)

    async with visiting(browser, link) as visit:
        sent = posts(visit)
        await visit.is_ready()
        for name, value in {
            "prompt": KNOWN,
            "system": "Be brief.",
            "max_new_tokens": "9",
            "target_error": "0.05",
        }.items():
            await expect(visit(f"#{name}")).to_have_value(value)
        await expect(visit("#all")).to_be_checked()
        await expect(visit("[name=mode][value=light]")).to_be_checked()
        assert await visit.texts("#turns li") == turns
        assert sent == []


@pytest.mark.parametrize(
    "fragment",
    [
        "prompt=Hi&mode=robot&input=x&target_error=7&turns=[1,null,{}]",
        "prompt=Hi&turns={&seed=%E0%A4",
        "prompt=Hi&turns={}",
        'prompt=Hi&turns=[{"role":"system","content":"x"},{"role":"user","content":["x"]}]',
    ],
)
async def test_a_link_that_lies_fills_in_what_is_true(browser, url, fragment):
    async with visiting(browser, f"{url}/#{fragment}") as visit:
        await visit.is_ready()
        await expect(visit("#prompt")).to_have_value("Hi")
        await expect(visit("[name=mode][value=full]")).to_be_checked()
        await expect(visit("#input")).to_have_value("auto")
        await expect(visit("#target_error")).to_have_value("0.1")
        await expect(visit("#turns")).to_be_empty()
        assert visit.complaints == []


async def test_earlier_questions_are_kept_until_forgotten(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await expect(visit("#earlier")).to_be_hidden()
        for prompt in (KNOWN, MADE_UP, KNOWN):
            await visit.ask(prompt, seed=7)
        await visit.page.reload()
        await visit.is_ready()
        await visit("#earlier summary").click()
        assert await visit.texts("#earlier-list button") == [KNOWN, MADE_UP]
        await expect(visit("#earlier-list .note").first).to_have_text("Paris (97 % sure)")
        await visit("#earlier-list button").last.click()
        await expect(visit("#prompt")).to_have_value(MADE_UP)
        await expect(visit("#seed")).to_have_value("7")

        await visit.page.click("#forget")
        await expect(visit("#earlier")).to_be_hidden()
        assert "Pirot" not in await visit.page.evaluate("JSON.stringify({...localStorage})")


async def test_recorded_examples_one_sure_and_one_not_stand_there_until_there_is_an_answer(
    browser, url
):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        sure, unsure = visit("#intro .run").nth(0), visit("#intro .run").nth(1)
        for example, prompt, accept in ((sure, KNOWN, "true"), (unsure, MADE_UP, "false")):
            await expect(example).to_contain_text("A recorded example")
            await expect(example.locator(".question")).to_have_text(prompt)
            await expect(example.locator(".verdict")).to_have_attribute("data-accept", accept)
            await expect(example.locator(".rating, .code, .times")).to_have_count(0)
            known = ESTIMATORS["inconsistency"].title  # what a score is called comes later
            await expect(example.locator("table.stacked")).to_contain_text(known)
        await visit.ask(KNOWN)
        await expect(visit("#intro")).to_have_count(0)
        assert visit.complaints == []


async def test_the_recorded_examples_are_what_the_service_says_today(url):
    file = Path(app.plugins.page.__file__).parent / "files" / "examples.json"
    for example in json.loads(file.read_text(encoding="utf-8")):
        recorded, today = example["response"], await answered(url, **example["request"])
        assert recorded.keys() == today.keys()
        assert recorded["text"] == today["text"]
        assert recorded["confidence"] == pytest.approx(today["confidence"], abs=0.05)
        assert recorded["decision"]["accept"] == today["decision"]["accept"]
