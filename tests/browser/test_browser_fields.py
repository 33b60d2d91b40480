"""The fields of a JSON answer on the page at `/`."""

import json

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


async def with_units(route):
    """The service's answer, with units in place of its own."""
    response = await route.fetch()
    body = await response.json()
    await route.fulfill(response=response, json={**body, "units": UNITS})


@pytest.mark.parametrize("size", [None, PHONE], ids=["desk", "phone"])
async def test_fields_are_shown_least_sure_first_with_what_others_say(browser, url, size):
    options = {"size": size} if size else {}
    async with visiting(browser, url, route=("**/score", with_units), **options) as visit:
        await visit.is_ready()
        await visit.unfold()
        await visit.page.check("#fields")
        await visit.page.fill("#answer", '{"number": "A-117", "total": 118.5}')
        async with visit.page.expect_request("**/score") as sent:
            await visit.ask("Which invoice?")
        asked = json.loads((await sent.value).post_data)

        assert asked["units"] == "fields"
        rows = visit(".part:has(h4:text('Its fields')) tbody tr")
        await expect(rows).to_have_count(2)
        await expect(rows.nth(0)).to_contain_text("/total")
        await expect(rows.nth(0)).to_contain_text("<b>18.5</b> (50 %)")
        await expect(rows.nth(1)).to_contain_text("nothing (25 %)")
        await expect(visit(".part:has(h4:text('Its fields')) .note")).to_have_text(
            "Only samples have /vat (25 %)."
        )


async def test_an_answer_that_is_no_json_says_that_it_has_no_fields(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.unfold()
        await visit.page.check("#fields")
        await visit.ask("Which country is Pirot in?")

        await expect(visit(".warnings")).to_contain_text("The answer is no JSON")
        await expect(visit("h4:text('Its fields')")).to_have_count(0)
