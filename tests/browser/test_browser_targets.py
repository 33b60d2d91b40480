"""The slider for wrong answers that may pass, on the page at `/`."""

import httpx
import pytest
from playwright.async_api import expect

from tests.browser.pages import DESK, MADE_UP, PHONE, visiting
from tests.browser.test_browser_chat import posts

pytestmark = pytest.mark.anyio


async def promised(url, estimator):
    """What the service says passes, by target error."""
    async with httpx.AsyncClient(base_url=url) as client:
        told = (await client.get("/version")).json()["calibrator"]
    return {one["target_error"]: one["share_accepted"] for one in told["thresholds"][estimator]}


def as_shown(shares):
    return [f"{round(100 * share)} %" for share in shares.values()] + ["100 %"]


@pytest.mark.parametrize("size", [DESK, PHONE], ids=str)
async def test_each_step_says_how_many_answers_pass_in_the_chosen_mode(browser, url, size):
    full, light = await promised(url, "rb_cocoa_root_sp"), await promised(url, "cocoa_sp_light")
    assert full != light
    async with visiting(browser, url, size=size) as visit:
        await visit.is_ready()
        tops = visit(".step small:first-child")
        assert await visit.texts(".step small:first-child") == as_shown(full)
        assert await visit.texts(".step small:last-child") == [
            *(f"{round(100 * target)} %" for target in full),
            "any",
        ]
        await expect(visit("#target-said")).to_contain_text(
            f"At most 10 % wrong: {round(100 * full[0.1])} % of answers"
        )
        await visit.page.check("input[name=mode][value=light]")
        await expect(tops).to_have_text(as_shown(light))
        assert visit.complaints == []


async def test_what_cannot_be_promised_is_grey_and_says_how_many_labels_are_missing(browser, url):
    async def few(route):
        response = await route.fetch()
        told = await response.json()
        strict, *_ = told["calibrator"]["thresholds"]["rb_cocoa_root_sp"]
        strict |= {"uncertainty": None, "share_accepted": 0.0, "labels_missing": 4321}
        await route.fulfill(json=told)

    async with visiting(browser, url, route=("**/version", few)) as visit:
        await visit.is_ready()
        first, second = visit(".step").first, visit(".step").nth(3)
        await expect(first).to_have_class("step vain")
        title = await first.get_attribute("title")
        assert title.startswith("At most 1 % wrong: no answer passes")
        assert "about 4321 more are needed" in title
        await expect(second).not_to_have_class("step vain")
        await visit("#target-step").press("Home")
        await expect(visit("#target-said")).to_have_text(title)


async def test_the_arrow_keys_choose_what_is_asked_for(browser, url):
    async with visiting(browser, url) as visit:
        sent = posts(visit)
        await visit.is_ready()
        await visit.choose(prompt=MADE_UP)
        slider = visit("#target-step")
        await slider.focus()
        await slider.press("ArrowLeft")
        told = await slider.get_attribute("aria-valuetext")
        assert told.startswith("At most 5 % wrong: 50 % of answers")
        await visit.page.click("#ask")
        await visit.is_over()
        assert sent[-1][1]["target_error"] == 0.05
        await expect(visit(".verdict")).to_contain_text("at most 5 % wrong")

        await slider.press("Home")
        await expect(visit("#target-said")).to_contain_text("no answer passes")
        await slider.press("End")
        await expect(visit("#target-said")).to_contain_text("No verdict")
        await visit.page.click("#ask")
        await visit.is_over()
        assert "target_error" not in sent[-1][1]
