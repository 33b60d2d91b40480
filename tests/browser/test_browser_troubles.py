"""The page at `/` in a real Chromium where things go wrong, over the fake models."""

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import expect

from models.errors import EngineError, Overloaded
from tests.browser.pages import visiting
from tests.conftest import serving, until
from tests.made_keys import key_of, keys_in
from tests.worker_servers import listening

pytestmark = pytest.mark.anyio

PROMPT = "What is the capital of Spain?"  # to which the fake engine says more than a word


@asynccontextmanager
async def visited(browser, **options):
    """The service over fake models, and a visit of its page."""
    route = options.pop("route", None)
    async with (
        serving(**options) as service,
        listening(service.app) as port,
        visiting(browser, f"http://127.0.0.1:{port}", route=route) as visit,
    ):
        yield service, visit


def tells_a_token_and_waits(service):
    """Have each generation tell its first token; returns what lets it go on, and who was cut."""
    generate, released, cancelled = service.generator.generate, asyncio.Event(), []

    async def slow(request, on_token=None):
        told = []
        generation = await generate(request, told.append)
        on_token(told[0])
        try:
            await released.wait()
        except asyncio.CancelledError:
            cancelled.append(request)
            raise
        for token in told[1:]:
            on_token(token)
        return generation

    service.generator.generate = slow
    return released, cancelled


async def begin(visit, prompt=PROMPT):
    await visit.is_ready()
    await visit.choose(prompt=prompt, max_new_tokens=64)
    await visit.page.click("#ask")


@pytest.mark.parametrize("how", ["button", "Escape"])
async def test_a_slow_stream_shows_its_progress_and_can_be_cancelled(browser, how):
    async with visited(browser) as (service, visit):
        _, cancelled = tells_a_token_and_waits(service)
        await begin(visit)

        await expect(visit(".token:not(.step)")).to_have_count(1)
        await expect(visit("progress")).to_be_visible()
        await expect(visit(".progress p")).to_contain_text("no more for a moment")
        before = await visit(".clock").inner_text()
        await expect(visit(".clock")).not_to_have_text(before)
        assert service.admission.num_admitted == 1
        if how == "button":
            await visit(".run button:has-text('Cancel')").click()
        else:
            await visit.page.keyboard.press("Escape")

        await visit.is_over()
        await expect(visit(".stopped")).to_contain_text("Cancelled")
        await expect(visit(".token:not(.step)")).to_have_count(1)
        await expect(visit("#live")).to_have_text("Cancelled.")
        await until(lambda: cancelled and not service.admission.num_admitted)


async def test_a_slow_stream_that_goes_on_is_shown_whole(browser):
    async with visited(browser) as (service, visit):
        released, _ = tells_a_token_and_waits(service)
        await visit("details#options").evaluate("folded => { folded.open = true; }")
        await visit.page.select_option("#input", "prompt")
        await begin(visit)
        await expect(visit(".token:not(.step)")).to_have_count(1)
        released.set()
        await visit.is_over()

        whole = (await service.generate(prompt=PROMPT)).json()
        await expect(visit(".tokens")).to_have_text(f"{whole['text'].strip()}end")
        assert visit.complaints == []


async def test_another_question_takes_the_place_of_the_one_under_way(browser):
    async with visited(browser) as (service, visit):
        released, cancelled = tells_a_token_and_waits(service)
        await begin(visit)
        await expect(visit(".token:not(.step)")).to_have_count(1)
        await visit.page.fill("#prompt", "What is the capital of Chad?")  # the same would join it
        await visit.page.click("#ask")
        await until(lambda: cancelled)
        await expect(visit(".token:not(.step)")).to_have_count(1)
        released.set()
        await visit.is_over()
        await expect(visit(".gauge")).to_have_count(1)


async def test_without_a_calibrator_there_is_the_plain_score_and_its_reason(browser):
    async with visited(browser) as (_, visit):
        await begin(visit)
        await visit.is_over()
        await expect(visit(".gauge.plain")).to_contain_text(
            "No confidence: no calibrator is loaded: see COCOA_CALIBRATOR"
        )
        await expect(visit(".verdict")).to_contain_text(
            "None can be given: no calibrator is loaded: see COCOA_CALIBRATOR"
        )
        await expect(visit("#target-hint")).to_contain_text("no calibrator")


async def test_an_error_before_the_first_byte_says_when_to_come_back(browser):
    async with visited(browser) as (service, visit):
        service.generation_raises(Overloaded("the admission limit is reached", retry_after_s=7))
        await begin(visit)
        alert = visit("[role=alert]")
        await expect(alert).to_contain_text("overloaded")
        await expect(alert).to_contain_text("It may work again in 7 s.")
        await expect(alert).to_contain_text("429")


async def test_an_error_in_the_middle_keeps_what_had_come(browser):
    async with visited(browser) as (service, visit):
        generate = service.generator.generate

        async def failing(request, on_token=None):
            await generate(request, on_token)
            await asyncio.sleep(0.2)
            raise EngineError("a step failed")

        service.generator.generate = failing
        await begin(visit)
        await visit.is_over()
        await expect(visit("[role=alert]")).to_contain_text("engine_error")
        await expect(visit(".stopped")).to_have_text("The answer ended in an error.")
        assert await visit(".token:not(.step)").count() > 1


async def test_a_connection_that_breaks_is_told(browser):
    async def broken(route):
        if route.request.method == "POST":
            await route.abort("connectionreset")
        else:
            await route.continue_()

    async with visited(browser, route=("**/*", broken)) as (_, visit):
        await begin(visit)
        await expect(visit("[role=alert]")).to_contain_text("no_connection")


async def test_a_service_that_loads_is_explained_and_awaited(browser):
    async with visited(browser, ready=False) as (service, visit):
        await expect(visit("#state")).to_have_text("Models are loading …")
        await visit.ask(PROMPT)
        await expect(visit("[role=alert]")).to_contain_text("not_ready")
        await expect(visit("[role=alert]")).to_contain_text("The models are loading")
        async with service.app.router.lifespan_context(service.app):
            await visit.is_ready()
            await expect(visit("[role=alert]")).to_have_count(0)
            await visit.ask(PROMPT, max_new_tokens=64)
            await expect(visit(".gauge")).to_have_count(1)


async def test_a_key_is_asked_for_sent_and_kept_nowhere(browser, tmp_path):
    access = {"keys": keys_in(tmp_path, one={})}
    async with visited(browser, access=access) as (_, visit):
        await expect(visit("#state")).to_have_text("Wants an API key")
        await expect(visit("#key")).to_be_visible()
        await visit.ask(PROMPT, max_new_tokens=64)
        await expect(visit("[role=alert]")).to_contain_text("unauthorized")
        await visit.is_refused("#key")

        await visit.page.fill("#key", key_of("one"))
        await visit("#key").blur()
        await visit.is_ready()
        await visit.page.click("#ask")
        await visit.is_over()
        await expect(visit(".gauge")).to_have_count(1)
        code = await visit(".code pre").text_content()
        assert "$COCOA_API_KEY" in code
        assert key_of("one") not in await visit.page.content()
        stored = await visit.page.evaluate("JSON.stringify([{...localStorage}, document.cookie])")
        assert key_of("one") not in stored
        await visit.page.reload()
        await expect(visit("#key")).to_have_value("")


async def test_a_key_that_is_typed_and_used_at_once_brings_its_verdict(browser, url):
    asked = []

    async def handle(route):
        """Ask for a key as the service would, and answer slowly what calibrator there is."""
        request = route.request
        if request.url.endswith(("/estimators", "/version")):
            if not request.headers.get("authorization"):
                error = {"code": "unauthorized", "message": "a key is needed", "field": None}
                await route.fulfill(status=401, json={"error": error})
                return
            await asyncio.sleep(0.3)
        if request.method == "POST":
            asked.append(json.loads(request.post_data))
        await route.continue_()

    async with visiting(browser, url, route=("**/*", handle)) as visit:
        await expect(visit("#state")).to_have_text("Wants an API key")
        await visit.page.fill("#prompt", PROMPT)
        await visit.page.fill("#key", "k")
        await visit.page.click("#ask")
        await visit.is_over()
        assert asked[0]["target_error"] == 0.1
        await expect(visit(".verdict h4")).to_contain_text("with at most 10 % wrong")


RECHUNKED = """
const asked = window.fetch;
window.fetch = async (...request) => {
  const response = await asked(...request);
  if (!response.headers.get("content-type").startsWith("text/event-stream")) return response;
  const bytes = new Uint8Array(await response.arrayBuffer());
  const slow = new ReadableStream({
    async start(controller) {
      for (let i = 0; i < bytes.length; i += 1) controller.enqueue(bytes.slice(i, i + 1));
      controller.close();
    },
  });
  return new Response(slow, { status: 200, headers: response.headers });
};
"""


async def answers(tokens, ending="\n", pieces=(), **changed):
    """A handler that tells these tokens in place of those of the service, and its result."""

    async def handle(route):
        if route.request.method != "POST":
            await route.continue_()
            return
        response = await route.fetch()
        events = (await response.text()).split("\n\n")
        result = json.loads(events[-2].partition("data: ")[2])
        told = [{"text": text, "logprob": -0.5, "entropy": 0.25} for text in tokens]
        result |= {"text": "".join(tokens), "tokens": told} | changed
        lines = [": a comment", ""]
        for text in pieces:
            lines += ["event: reasoning", f"data: {json.dumps({'text': text})}", ""]
        for token in told:
            lines += ["event: token", f"data: {json.dumps(token, ensure_ascii=False)}", ""]
        lines += ["event: result", f"data: {json.dumps(result, ensure_ascii=False)}", "", ""]
        await route.fulfill(
            body=ending.join(lines), content_type="text/event-stream; charset=utf-8"
        )

    return ("**/*", handle)


@pytest.mark.parametrize("ending", ["\n", "\r\n"], ids=["LF", "CRLF"])
async def test_events_that_come_byte_by_byte_are_whole(browser, ending):
    route = await answers([" Zażółć", " 日本", "\U0001f98a", ""], ending)
    async with visited(browser, route=route) as (_, visit):
        await visit.page.evaluate(RECHUNKED)
        await begin(visit)
        await visit.is_over()
        assert await visit.texts(".tokens .token") == ["Zażółć", "日本", "\U0001f98a", "end"]


async def test_an_answer_is_text_whatever_it_says(browser):
    markup = " <img src=x onerror=alert(1)><b>bold</b>"
    route = await answers([markup, "\n", " second", " line", ""])
    async with visited(browser, route=route) as (_, visit):
        await begin(visit)
        await visit.is_over()
        tokens = await visit.texts(".tokens .token")
        assert tokens == [markup.strip(), "⏎", "second", "line", "end"]
        first, second = visit(".token").first, visit(".token:has-text('second')")
        assert (await first.bounding_box())["y"] < (await second.bounding_box())["y"]
        assert visit.complaints == []


async def test_reasoning_is_folded_above_the_answer(browser):
    pieces = ["Spain is a kingdom. ", "<b>Madrid</b> it is."]
    route = await answers(
        [" Madrid"], pieces=pieces, reasoning="".join(pieces), warnings=["reasoning_unfinished"]
    )
    async with visited(browser, route=route) as (_, visit):
        await begin(visit)
        await visit.is_over()
        await expect(visit(".thought")).to_be_hidden()
        await visit(".reasoning summary").click()
        await expect(visit(".thought")).to_have_text("".join(pieces))
        thought, answer = visit(".thought"), visit(".tokens")
        assert (await thought.bounding_box())["y"] < (await answer.bounding_box())["y"]
        await expect(visit(".warnings")).to_contain_text("still reasoning at its limit")


async def test_a_model_that_reasons_shows_its_reasoning_and_scores_its_answer(browser):
    model = str(Path(__file__).parents[1] / "data" / "reasoning_model")
    async with visited(browser, engine="transformers", model=model, dtype="float32") as (_, visit):
        await visit.is_ready()
        await visit.ask("What is 12 + 5 + 7?", max_new_tokens=120, num_samples=4, seed=1)
        await visit(".reasoning summary").click()
        await expect(visit(".thought")).to_contain_text("=")
        assert (await visit(".tokens").text_content()).strip("⏎ end").isdecimal()
        await expect(visit(".tokens br")).to_have_count(0)
        await expect(visit(".warnings")).to_contain_text("reasoning_excluded")
        await expect(visit(".run")).to_contain_text("of them reasoning")

        await visit.ask("What is 12 + 5 + 7?", max_new_tokens=6, num_samples=4, seed=1)
        await expect(visit(".thought")).not_to_be_empty()
        await expect(visit(".tokens")).to_be_hidden()
        await expect(visit(".warnings")).to_contain_text("there is no answer yet")
        assert visit.complaints == []


async def test_without_reasoning_there_is_no_block_of_it(browser):
    async with visited(browser) as (_, visit):
        await begin(visit)
        await visit.is_over()
        await expect(visit(".reasoning")).to_be_hidden()
