"""What an answer's card says and can be saved as, and answers under a JSON schema."""

import json

import pytest
from playwright.async_api import expect

from app.settings import Settings
from tests.browser.pages import KNOWN, MADE_UP, answered, embedded_service, visiting
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
        await visit.ask(KNOWN, schema='{"type": "colour"}')
        await visit.is_refused("#schema")


BROKEN = {
    "no quotes": ('{\n  type: "object"}', 4, "line 2, column 3 is “t”", "a name in double quotes"),
    "a comma too many": ('{"type": "object",}', 18, "line 1, column 19 is “}”", "a name"),
    "no comma": ('{"enum": [1 2]}', 12, "line 1, column 13 is “2”", "a comma or ]"),
    "no colon": ('{"type" "object"}', 8, 'line 1, column 9 is “"”', "a colon"),
    "not ended": ('{"type": "object"', 17, "it ends at line 1, column 18", "a comma or }"),
    "a text not ended": ('{"type": "obj', 13, "it ends at line 1, column 14", "a text should end"),
    "a line break": ('{"type": "obj\nect"}', 13, "column 14 is a line break", "a text should end"),
    "a backslash": (r'{"pattern": "\d"}', 13, "column 14 is “\\”", "a backslash should be"),
    "Python": ('{"const": True}', 10, "line 1, column 11 is “T”", "a value should be"),
    "two": ("{}\n{}", 3, "line 2, column 1 is “{”", "the JSON has ended"),
    "a blank that is none": ("\u00a0{}", 0, "is the character U+00A0", "a value should be"),
    "beside an emoji": ('{"const": "🦊" 1}', 15, "line 1, column 15 is “1”", "a comma or }"),
}


@pytest.mark.parametrize(("box", "title"), [("schema", "JSON schema"), ("tools", "Tools")])
async def test_broken_json_is_called_so_with_its_place_and_nothing_is_asked(
    browser, url, box, title
):
    async with visiting(browser, url) as visit:
        sent = sent_by(visit)
        await visit.is_ready()
        for text, at, place, where in BROKEN.values():
            await visit.ask(KNOWN, **{box: text})
            alert = visit("[role=alert]")
            await expect(alert).to_contain_text(f"Broken JSON in “{title}”: ")
            await expect(alert).to_contain_text(f"{place}, where {where}")
            await visit.is_refused(f"#{box}")
            assert await visit(f"#{box}").evaluate("box => box.selectionStart") == at
        assert sent == []
        assert visit.complaints == []


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


TOOL = {
    "name": "get_weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"enum": ["Lima", "Paris"]}},
        "required": ["city"],
    },
}


def sent_by(visit):
    """Bodies of the requests that the page makes."""
    sent = []

    def hear(request):
        if GENERATE in request.url:
            sent.append(json.loads(request.post_data))

    visit.page.on("request", hear)
    return sent


async def test_the_arguments_of_a_call_are_fields(browser, long_url):
    whole = [{"type": "function", "function": TOOL}]
    async with visiting(browser, long_url) as visit:
        sent = sent_by(visit)
        await visit.is_ready()
        await visit.choose()
        await visit.page.check("#must_call")
        for written in (TOOL, [TOOL], whole):
            tools = json.dumps(written)
            await visit.ask("The weather in Lima?", tools=tools, num_samples=2, seed=1)
            assert (sent[-1]["tools"], sent[-1]["tool_choice"]) == (whole, "required")
        paths = await visit.texts(".fields dt code")
        assert sorted(paths) == ["/0/function/arguments/city", "/0/function/name"]
        assert await visit("button:has-text('Go on with this chat')").count() == 0


async def test_tools_that_cannot_be_had_lead_to_their_box(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        for written in ("3", json.dumps([TOOL])):  # the model has no template for any
            await visit.ask(KNOWN, tools=written)
            await visit.is_refused("#tools")


async def test_two_settings_stand_side_by_side(browser, url):
    async with visiting(browser, url) as visit:
        sent = sent_by(visit)
        await visit.is_ready()
        await expect(visit("#against")).to_be_hidden()
        await visit.choose("two", other_temperature="0.5", other_estimator="inconsistency")
        await visit.ask(MADE_UP, "two", seed=7, num_samples=4)
        drawn = [(one["num_samples"], one["temperature"], one.get("estimator")) for one in sent]
        # Some are sent again without what cannot be had: as text, or without a target error.
        assert list(dict.fromkeys(drawn)) == [(4, 1, None), (3, 0.5, "inconsistency")]
        assert {one["seed"] for one in sent} == {7}
        assert await visit.texts("#comparison thead th") == ["Full", "Other settings"]
        rows = visit("#comparison tbody tr")
        await expect(rows.filter(has_text="Samples drawn")).to_contain_text(
            "4\t3", use_inner_text=True
        )
        await expect(rows.filter(has_text="Uncertainty")).to_contain_text("(inconsistency)")
        link = await visit.page.evaluate("localStorage['cocoa-questions']")
        assert "other_temperature=0.5" in link


async def test_a_verdict_says_that_the_slider_has_moved_since(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(KNOWN, seed=7)
        moved = visit(".judged .note:has-text('The slider has moved since')")
        await expect(moved).to_be_hidden()
        await visit("#target-step").press("ArrowLeft")
        await expect(moved).to_be_visible()
        await visit("#target-step").press("ArrowRight")
        await expect(moved).to_be_hidden()


async def test_the_verdict_on_the_whole_says_that_parts_are_of_another_promise(browser, url):
    accepted = {"accept": True, "threshold": 9.0, "target_error": 0.1, "guarantee": "so it is"}
    parts = [
        {"kind": "field", "path": f"/{name}", "text": "1", "uncertainty": 0.1, "decision": decision}
        for name, decision in {
            "a": {"accept": True},
            "b": {"accept": False, "reason": "no"},
        }.items()
    ]

    async def answer(route):
        served = await (await route.fetch()).text()
        result = json.loads(served.rpartition("event: result\ndata: ")[2])
        units = [{"kind": "answer", "text": "{}"}, *parts]
        result |= {"decision": accepted, "units": units}
        event = f"event: result\ndata: {json.dumps(result)}\n\n"
        await route.fulfill(content_type="text/event-stream", body=event)

    async with visiting(browser, url, route=(f"**{GENERATE}", answer)) as visit:
        await visit.is_ready()
        await visit.ask(KNOWN)
        whole = visit(".judged .verdict")
        await expect(whole).to_contain_text("May pass")
        await expect(whole).to_contain_text("Of its 2 parts 1 may pass by a promise about parts")


async def test_the_examples_fit_the_model_which_says_that_it_is_a_toy(browser, url, long_url):
    for served, example, known in (
        (url, "What is 17 + 25?", "small sums"),
        (long_url, "Tell me about Lima.", "a little of cities and countries"),
    ):
        async with visiting(browser, served) as visit:
            await visit.is_ready()
            await expect(visit(f".example:text-is('{example}')")).to_have_count(1)
            await expect(visit("#toy")).to_contain_text("is a toy that ships with the service")
            await expect(visit("#toy")).to_contain_text(known)
            await expect(visit("#state")).to_contain_text(", a toy")


@pytest.mark.parametrize("name", ["embedded-in-a-car", "not-embedded"])
async def test_another_model_is_no_toy(browser, url, name):
    async def renamed(route):
        told = await (await route.fetch()).json()
        told["model"]["id"] = name
        await route.fulfill(json=told)

    async with visiting(browser, url, route=("**/version", renamed)) as visit:
        await visit.is_ready()
        await expect(visit("#state")).to_have_text(f"Ready: {name}")
        await expect(visit("#toy")).to_be_hidden()


async def test_the_examples_are_answered_rightly_and_pass_but_for_one_that_the_model_does_not_know(
    browser, url
):
    right = ["Paris", "42", "37", "dreiundzwanzig", "In French: quarante"]
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        examples = await visit.texts(".example")
    answers = {prompt: await answered(url, prompt) for prompt in examples}
    doubtful = answers.pop(MADE_UP)
    assert doubtful["confidence"] < 0.25
    assert not doubtful["decision"]["accept"]
    assert [one["text"].strip() for one in answers.values()] == right
    for prompt, one in answers.items():
        assert one["confidence"] > 0.9, prompt
        assert one["decision"]["accept"], prompt


async def test_where_no_answer_can_pass_the_verdict_says_so_and_names_no_threshold(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit("#target-step").press("Home")
        await visit.ask(KNOWN, seed=7)
        verdict = visit(".judged .verdict")
        await expect(verdict).to_contain_text("Does not pass with at most 1 % wrong")
        await expect(verdict).to_contain_text("No answer can pass at this share, however sure")
        await expect(verdict).not_to_contain_text("threshold")


async def test_where_no_field_can_pass_the_verdict_says_so_and_names_no_threshold(browser, url):
    no = "no threshold is sure to keep"
    ours = {"accept": False, "threshold": None, "target_error": 0.01, "guarantee": f"{no} 1 %"}
    field = {"kind": "field", "path": "/a", "text": "1", "uncertainty": 0.1}
    field["decision"] = {"accept": False, "reason": f"{no} the target error"}

    async def answer(route):
        served = await (await route.fetch()).text()
        result = json.loads(served.rpartition("event: result\ndata: ")[2])
        units = [{"kind": "answer", "text": "{}"}, field]
        result |= {"decision": ours, "units": units, "units_decision": ours}
        event = f"event: result\ndata: {json.dumps(result)}\n\n"
        await route.fulfill(content_type="text/event-stream", body=event)

    async with visiting(browser, url, route=(f"**{GENERATE}", answer)) as visit:
        await visit.is_ready()
        await visit.ask(KNOWN)
        fields = visit(".part:has(.fields)")
        await expect(fields).to_contain_text("0 of 1 fields may pass with at most 1 % wrong")
        await expect(fields).to_contain_text("No field can pass at this share, however sure")
        await expect(fields.locator(".reason")).to_have_text("✕ Does not pass")
        await expect(visit("#runs")).not_to_contain_text("threshold")


async def test_scores_say_from_where_to_where_they_run(browser, url):
    async with visiting(browser, url) as visit:
        await visit.is_ready()
        await visit.ask(MADE_UP, seed=7)
        for name, extent in {
            "inconsistency": "from 0 to 1",
            "sp": "from 0 without an end, in nats",
        }.items():
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
