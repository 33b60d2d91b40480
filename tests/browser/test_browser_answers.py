"""What an answer's card says and can be saved as, and answers under a JSON schema."""

import json

import pytest
from playwright.async_api import expect

from app.settings import Settings
from tests.browser.pages import KNOWN, MADE_UP, embedded_service, visiting
from tests.conftest import GENERATE
from workers.config import GeneratorConfig

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "big": {"type": "boolean"}},
    "required": ["city", "big"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
async def long_url(anyio_backend, browser):
    """URL of the service over the model of long answers."""
    async with embedded_service(Settings(generation=GeneratorConfig(model="embedded-long"))) as url:
        yield url


async def saved(visit, words):
    """What a button saves: the name of the file, and its text."""
    async with visit.page.expect_download() as downloading:
        await visit.page.click(f"button:visible:has-text('{words}') >> nth=0")
    download = await downloading.value
    path = await download.path()
    return download.suggested_filename, path.read_bytes().decode()


async def test_the_question_stands_on_the_card_with_how_many_samples_agree(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(MADE_UP, seed=7)
        await expect(visit("#runs .question")).to_have_text(MADE_UP)
        await expect(visit("#runs .gauge")).to_contain_text("of the samples mean the same")


async def test_an_answer_and_the_questions_are_saved_as_files(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(KNOWN, seed=7)
        await visit.ask("=1+1", seed=7)
        name, text = await saved(visit, "Save as JSON")
        told = json.loads(text)
        assert name == f"{told['response']['id']}.json"
        assert "=1+1" in json.dumps(told["request"])
        await visit.unfold()
        name, text = await saved(visit, "Save as CSV")
        lines = text.split("\r\n")
        assert (name, lines[0]) == ("questions.csv", '"prompt","answer"')
        assert lines[1].startswith('"\'=1+1"'), "no formula of a spreadsheet"
        assert lines[2].startswith(f'"{KNOWN}"')


async def test_an_answer_under_a_schema_has_a_verdict_for_each_field(browser, url):
    async with visiting(browser, url) as visit:
        sent = []
        visit.page.on("request", lambda one: sent.append(one) if GENERATE in one.url else None)
        await visit.is_ready()
        await visit.ask(KNOWN, schema=json.dumps(SCHEMA), seed=7)
        held_to = json.loads(sent[-1].post_data)["response_format"]["json_schema"]["schema"]
        assert held_to == SCHEMA
        assert sorted(await visit.texts(".fields dt code")) == ["/big", "/city"]
        await visit.ask(KNOWN, schema="{no JSON")
        await expect(visit("#schema")).to_be_focused()
        await expect(visit("#schema")).to_have_attribute("aria-invalid", "true")


async def test_where_whole_answers_are_not_calibrated_their_verdict_does_not_deny_that_of_parts(
    browser, long_url
):
    async with visiting(browser, long_url) as visit:
        await visit.is_ready()
        await visit.unfold()
        await visit.page.select_option("#units", "sentences")
        await visit.page.select_option("#target_error", "0.2", force=True)
        await visit.ask("Tell me about Lima.", seed=1, num_samples=5)
        whole = visit(".judged .verdict")
        await expect(whole).to_contain_text("None can be given of the whole answer")
        await expect(whole).to_contain_text("Its parts have verdicts of their own, below.")
        await expect(whole).not_to_contain_text("No answer passes here")
        await expect(visit(".part .verdict h5")).to_contain_text("sentences may pass")


async def test_scores_say_from_where_to_where_they_run(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(MADE_UP, seed=7)
        for name, extent in {"consistency": "from 0 to 1", "sp": "from 0 without an end"}.items():
            row = visit(f".part tr:has(th code:text-is('{name}'))")
            await expect(row).to_contain_text(f"It runs {extent}.")


async def test_line_breaks_before_an_answer_are_left_out(browser, url):
    tokens = [
        {"text": text, "logprob": -0.1, "entropy": 0.1} for text in ("\n\n", "\n", "Pa", "ris", "")
    ]

    async def answer(route):
        served = await (await route.fetch()).text()
        result = json.loads(served.rpartition("event: result\ndata: ")[2])
        result |= {"text": "\n\n\nParis", "tokens": tokens}
        event = f"event: result\ndata: {json.dumps(result)}\n\n"
        await route.fulfill(content_type="text/event-stream", body=event)

    async with visiting(browser, url, route=(f"**{GENERATE}", answer)) as visit:
        await visit.is_ready()
        await visit.ask(KNOWN)
        assert await visit.texts("#runs .tokens .token") == ["Pa", "ris", "end"]
        assert await visit(".tokens br").count() == 0
