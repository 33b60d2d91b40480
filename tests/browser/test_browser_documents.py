"""Documents on the page at `/`: how far they say each sentence, where, and what stands in none."""

import json
import os

import pytest
from playwright.async_api import expect

from tests.browser.pages import DESK, PHONE, visiting
from tests.browser.test_browser_reach import has_no_faults

pytestmark = pytest.mark.anyio

PERU = "Lima is the capital of Peru. \U0001f600 Francisco Pizarro founded it in 1535."
RIVERS = "It has rivers.\n" * 9
DOCUMENTS = f"Bogota is in Colombia.\n ---\n{PERU}\n\n{RIVERS}\n----\n\n---\n"
SAID = [
    "Lima was founded by Francisco Pizarro.",
    "It was founded in 1975, not in 1535, by Diego Ruiz.",
    "It rains.",
]
# The first character takes two units of UTF-16, which shifts whatever counts those.
TEXT = f"# \U0001f600 Lima\n\n{SAID[0]} {SAID[1]}\n- {SAID[2]}\n"


async def ask_over_documents(visit, answer=TEXT, documents=DOCUMENTS):
    """The request that the page sends with these documents."""
    await visit.is_ready()
    await visit.unfold()
    await visit.page.fill("#answer", answer)
    async with visit.page.expect_request("**/score") as sent:
        await visit.ask("Tell me about it.", documents=documents)
    return json.loads((await sent.value).post_data)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
async def test_each_sentence_is_coloured_and_shows_what_it_stands_on(browser, url, size):
    async with visiting(browser, url, size=size) as visit:
        asked = await ask_over_documents(visit)
        assert asked["documents"] == ["Bogota is in Colombia.", f"{PERU}\n\n{RIVERS.strip()}"]

        assert await visit(".grounds").evaluate("one => one.textContent") == TEXT
        assert await visit(".ground").all_text_contents() == SAID
        shares = await visit(".ground").evaluate_all(
            "all => all.map(one => Number(one.style.getPropertyValue('--g')))"
        )
        assert shares[0] == 1
        assert 0 < shares[1] < 0.25
        assert shares[2] == 0
        assert await visit("mark.missing").all_text_contents() == ["1975", "Diego", "Ruiz"]
        places = await visit(".ground").evaluate_all("all => all.map(one => one.dataset.place)")
        assert places == ["2", "2", "none"]

        part, source = visit(".part:has(.grounds)"), visit(".source")
        await expect(part).to_contain_text("no measure of truth")
        await visit(".ground").nth(0).click()
        await expect(part).to_contain_text("Document 2 says 100 % of it.")
        mark = "\U0001f600 Francisco Pizarro founded it in 1535."
        await expect(source.locator("mark")).to_have_text(mark)
        assert (await source.inner_text()).startswith(PERU)
        await visit.page.keyboard.press("ArrowRight")
        await expect(part).to_contain_text("in none: 1975, Diego, Ruiz.")
        await visit.page.keyboard.press("ArrowRight")
        await expect(part).to_contain_text("No document says any of it.")
        await expect(source).to_have_count(0)
        await visit.page.keyboard.press("Home")
        await visit.page.keyboard.press("Tab")
        await expect(source).to_be_focused()
        assert visit.complaints == []
        if folder := os.environ.get("COCOA_TEST_PICTURES"):
            await visit.page.screenshot(path=f"{folder}/documents-{size[0]}.png", full_page=True)


async def test_documents_that_deny_a_sentence_are_named(browser, url):
    async def denied(route):
        response = await route.fetch()
        told = await response.json()
        if response.ok:  # the page asks again for what is not calibrated
            told["units"][1]["documents"]["contradicted_by"] = ["0", "1"]
        await route.fulfill(response=response, json=told)

    async with visiting(browser, url, route=("**/score", denied)) as visit:
        await ask_over_documents(visit)
        await visit(".ground").nth(0).click()
        part = visit(".part:has(.grounds)")
        await expect(part).to_contain_text("says 100 % of it · denied by document 1, 2.")


@pytest.mark.parametrize("colours", ["light", "dark"])
async def test_the_documents_and_what_stands_in_them_are_accessible(browser, url, colours):
    async with visiting(browser, url, colours=colours) as visit:
        await ask_over_documents(visit)
        await visit(".ground").nth(1).click()
        await has_no_faults(visit)


async def test_the_place_of_a_long_document_is_scrolled_to(browser, url):
    async with visiting(browser, url) as visit:
        await ask_over_documents(visit, documents=RIVERS * 4 + PERU)
        await visit(".ground").nth(0).click()
        await expect(visit(".source mark")).to_be_in_viewport(ratio=1)
        assert await visit(".source").evaluate("one => one.scrollTop") > 0


async def test_documents_are_kept_with_their_question_and_stay_where_nothing_is_known(browser, url):
    async with visiting(browser, url) as visit:
        await ask_over_documents(visit, answer="```\ncode\n```")
        told = visit(".part:has-text('In the documents')")
        await expect(told).to_contain_text("Not known: the answer has no sentences.")
        await visit.page.fill("#documents", "")
        await visit("#earlier-list button").first.click()
        await expect(visit("#documents")).to_have_value(DOCUMENTS)

        await visit.ask("What is 2 + 3?", documents="", answer="Five.")
        await expect(told).to_have_count(0)


async def test_too_many_documents_lead_to_their_box(browser, url):
    async with visiting(browser, url) as visit:
        await ask_over_documents(visit, documents="So.\n---\n" * 65)
        await visit.is_refused("#documents")
        await expect(visit("#error-message")).to_contain_text("at most 64")


async def test_a_sentence_that_the_model_wrote_is_held_to_them_and_told_of(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.unfold()
        await visit.ask("Which country is Pirot in?", documents="Pirot is in Serbia.", seed=7)
        await expect(visit(".ground")).to_have_count(1)
        await expect(visit("#live")).to_contain_text("Documents say")
