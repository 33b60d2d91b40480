"""The fields of a JSON answer on the page at `/`."""

import json
import os

import pytest
from playwright.async_api import expect

from tests.browser.pages import PHONE, visiting

pytestmark = pytest.mark.anyio

UNITS = [
    {"kind": "answer", "text": "{}", "missing": [{"path": "/vat", "share": 0.25}]},
    {
        "kind": "field",
        "path": "/number",
        "text": '"A-117"',
        "support": 0.75,
        "uncertainty": 0.25,
        "alternatives": [{"value": '"A-117"', "share": 0.75}, {"value": None, "share": 0.25}],
    },
    {
        "kind": "field",
        "path": "/total",
        "text": "118.5",
        "support": 0.5,
        "uncertainty": 0.75,
        "alternatives": [{"value": "118.5", "share": 0.5}, {"value": "<b>18.5</b>", "share": 0.5}],
    },
]


REASON = "its uncertainty is above the threshold"
DECIDED = [
    UNITS[0],
    {**UNITS[1], "confidence": 0.9, "decision": {"accept": True}},
    {
        **UNITS[2],
        "confidence": 0.25,
        "decision": {"accept": False, "removed": True, "reason": REASON},
    },
]
UNITS_DECISION = {
    "accept": False,
    "threshold": 0.5,
    "target_error": 0.1,
    "guarantee": "on average over answers at most 10 % of the parts that pass are wrong",
}


def answering(**units):
    """A route: the service's answer, with these units in place of its own."""

    async def answer(route):
        sent = json.loads(route.request.post_data)
        sent.pop("target_error", None)
        response = await route.fetch(post_data=json.dumps(sent))
        body = await response.json()
        await route.fulfill(response=response, json={**body, **units})

    return "**/score", answer


async def ask_of_fields(visit):
    """The request that the page sends with fields wanted."""
    await visit.is_ready()
    await visit.unfold()
    await visit.page.select_option("#units", "fields")
    await visit.page.fill("#answer", '{"number": "A-117", "total": 118.5}')
    async with visit.page.expect_request("**/score") as sent:
        await visit.ask("Which invoice?")
    return json.loads((await sent.value).post_data)


@pytest.mark.parametrize("size", [None, PHONE], ids=["desk", "phone"])
async def test_fields_are_a_form_least_sure_first_with_what_others_say(browser, url, size):
    options = {"size": size} if size else {}
    async with visiting(browser, url, route=answering(units=UNITS), **options) as visit:
        asked = await ask_of_fields(visit)

        assert asked["units"] == "fields"
        rows = visit(".field")
        await expect(rows).to_have_count(2)
        await expect(rows.nth(0)).to_contain_text("/total")
        await expect(rows.nth(0)).to_contain_text("<b>18.5</b> (50 %)")
        await expect(rows.nth(0)).to_contain_text("samples agree by 50 %")
        await expect(rows.nth(1)).to_contain_text("nothing (25 %)")
        await expect(visit(".part:has(h4:text('Its fields')) > .note").last).to_have_text(
            "Only samples have /vat (25 %)."
        )
        shades = [await shade_of(rows.nth(i)) for i in range(2)]
        assert shades == pytest.approx([0.75 / 4, 0.25 / 4], abs=0.001)


async def shade_of(row):
    value = row.locator(".value")
    return float(await value.evaluate("one => one.style.getPropertyValue('--s')"))


async def test_fields_that_do_not_pass_are_struck_out_and_say_why(browser, url):
    decided = answering(units=DECIDED, units_decision=UNITS_DECISION)
    async with visiting(browser, url, route=decided) as visit:
        await ask_of_fields(visit)

        total, number = visit(".field").nth(0), visit(".field").nth(1)
        await expect(total.locator("del.value")).to_have_text("118.5")
        await expect(total).to_contain_text(f"Held back: {REASON}.")
        await expect(total).to_contain_text("right with 25 %")
        assert await shade_of(total) == 0.75
        await expect(number.locator("del")).to_have_count(0)
        await expect(number).not_to_contain_text("Held back")
        await expect(number.locator(".passed")).to_have_text("✓ May pass")
        verdict = visit(".part:has(h4:text('Its fields')) .verdict")
        await expect(verdict).to_contain_text("1 of 2 fields may pass with at most 10 % wrong")
        await expect(verdict).to_contain_text("on average over answers")
        if folder := os.environ.get("COCOA_TEST_PICTURES"):
            await visit.page.screenshot(path=f"{folder}/fields.png", full_page=True)


async def test_the_slider_says_that_fields_are_not_calibrated(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.unfold()
        await expect(visit("#target-said")).to_contain_text("of answers like the")
        await visit.page.select_option("#units", "fields")

        await expect(visit("#target-said")).to_have_text(
            "The calibrator says nothing of fields: there is no verdict."
        )


async def with_fields_calibrated(route):
    """What the service tells of itself, with a calibration of fields."""
    response = await route.fetch()
    body = await response.json()
    one = {"target_error": 0.1, "uncertainty": 1.0, "share_accepted": 0.4, "labels_missing": None}
    body["calibrator"]["units"] = {"field": [one]}
    await route.fulfill(response=response, json=body)


async def test_the_slider_says_how_many_fields_pass(browser, url):
    async with visiting(browser, url, route=("**/version", with_fields_calibrated)) as visit:
        await visit.is_ready()
        await visit.unfold()
        await visit.page.select_option("#units", "fields")

        await expect(visit("#target-said")).to_contain_text("wrong: 40 % of fields like the")


async def test_an_answer_that_is_no_json_says_that_it_has_no_fields(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.unfold()
        await visit.page.select_option("#units", "fields")
        await visit.ask("Which country is Pirot in?")

        await expect(visit(".warnings")).to_contain_text("The answer is no JSON")
        await expect(visit("h4:text('Its fields')")).to_have_count(0)
