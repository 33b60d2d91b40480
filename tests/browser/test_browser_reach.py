"""The page at `/` by keyboard, by screen reader, on narrow screens and in both colours."""

import re

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from app.http.middleware import at_ops_port
from tests.browser.pages import DESK, KNOWN, MADE_UP, PHONE, visiting
from tests.chaos.redis_server import free_port
from tests.conftest import serving
from tests.worker_servers import listening

pytestmark = pytest.mark.anyio

SCHEMA = "cocoa-serve - Swagger UI"


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
        assert re.search(r"the model gave it a chance of [\d<> ]+ % · surprise [\d.<]+", told)
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
    # A smooth scroll would still be under way.
    async with visiting(browser, url, size=PHONE, reduced_motion="reduce") as visit:
        await visit.is_ready()
        await visit.ask(MADE_UP, seed=7)
        await expect(visit(".tokens")).to_be_in_viewport()
        assert (await visit(".tokens").bounding_box())["y"] < 200


async def test_a_finger_is_told_to_tap(browser, url):
    async with visiting(browser, url, size=PHONE, has_touch=True, is_mobile=True) as visit:
        await visit.is_ready()
        await visit.ask(KNOWN)
        await expect(visit(".detail")).to_contain_text("Tap a token")
        await visit(".token").first.tap()
        await expect(visit(".detail")).to_contain_text("a chance of")


async def test_options_and_key_are_in_view_on_a_desk(browser, url):
    async with visiting(browser, url) as visit:
        await expect(visit("#options summary")).to_be_in_viewport(ratio=1)
        await expect(visit("#key-options summary")).to_be_in_viewport(ratio=1)


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
        await visit.page.click(".rating button:has-text('Copy a link')")
        await visit.unfold()
        await visit(".token").first.focus()
        await has_no_faults(visit)
        await visit.page.click("#theme")
        await has_no_faults(visit)
        await visit.ask("")
        await has_no_faults(visit)
        await visit.ask(KNOWN, schema="{")
        await has_no_faults(visit)
        await visit.page.fill("#schema", "")
        await visit.page.select_option("#input", "messages")
        await visit.ask(KNOWN)
        await expect(visit("text=Go on with this chat")).to_have_count(0)  # it takes one message
        await has_no_faults(visit)


async def has_no_faults(visit):
    found = await Axe().run(visit.page)
    assert found.violations_count == 0, found.generate_report()


async def test_the_schema_of_the_api_is_at_the_page_or_where_operation_has_its_port(browser, url):
    async with visiting(browser, url) as visit:
        await visit("#api").click()
        await expect(visit.page).to_have_title(SCHEMA)
        assert visit.page.url == f"{url}/docs"
    ops_port = free_port()
    async with (
        serving(access={"ops_port": ops_port}) as service,
        listening(at_ops_port(service.app), port=ops_port),
        listening(service.app) as port,
        visiting(browser, f"http://127.0.0.1:{port}") as visit,
    ):
        await expect(visit("#api")).to_have_text(f"API, at port {ops_port}")
        await visit("#api").click()
        await expect(visit.page).to_have_title(SCHEMA)
        assert visit.page.url == f"http://127.0.0.1:{ops_port}/docs"
