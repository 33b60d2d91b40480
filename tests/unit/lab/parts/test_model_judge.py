"""A model labels sentences and claims, once each, and is held against labels by rule."""

import json
from contextlib import closing

import httpx
import pytest

from app.settings import Settings
from cocoa_lab.examples import Example
from cocoa_lab.judge import JudgeModel
from cocoa_lab.judges import Verdict
from cocoa_lab.parts.examples import read_parts
from cocoa_lab.parts.measured import measure
from cocoa_lab.parts.model_judge import Judgements, ModelJudge, label_of
from cocoa_lab.parts.running import PartsSpec, evaluate_parts
from tests.openai_server import openai_server
from tests.unit.lab.commands.test_evaluate import FAKE

pytestmark = pytest.mark.anyio
LIMA = "Lima is in Peru. It is a port. It is fun."
LABELS = {"Lima is in Peru.": "true", "It is a port.": "false", "It is fun.": "unverifiable"}


def completion(text):
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    return {"choices": [{"message": {"content": text}}], "usage": usage}


class Scripted:
    """A server that says these labels of these statements, and counts what it is asked."""

    def __init__(self, labels=LABELS):
        self.labels, self.bodies = labels, []
        self.model = JudgeModel("http://judge", "m", transport=httpx.MockTransport(self.answer))

    def answer(self, request):
        self.bodies.append(json.loads(request.content))
        content = self.bodies[-1]["messages"][-1]["content"]
        label = self.labels[content.split("Statement:\n")[1].split("\n")[0]]
        if isinstance(label, int):
            return httpx.Response(label)
        return httpx.Response(200, json=completion(json.dumps({"label": label})))


def example(context=None):
    return Example("a", "t", "Tell me of Lima.", (), context=context)


async def asked_of(scripted, path, one, statements=tuple(LABELS)):
    async with scripted.model.connected() as asked:
        with closing(ModelJudge(asked, "m", path)) as judge:
            return await judge.of(one)(LIMA, statements), judge.told()


@pytest.mark.parametrize(
    ("context", "said_of_the_last"),
    [(None, None), ("Lima is a city in Peru.", Verdict(False, "unverifiable"))],
    ids=["by knowledge", "by reference"],
)
async def test_what_a_reference_does_not_say_is_wrong_and_what_a_model_does_not_know_has_no_label(
    tmp_path, context, said_of_the_last
):
    scripted = Scripted()
    said, told = await asked_of(scripted, tmp_path / "j.jsonl", example(context))

    assert said == [Verdict(is_right=True), Verdict(False, "false"), said_of_the_last]
    assert told == Judgements("m", {"false": 1, "true": 1, "unverifiable": 1}, 21, 6)
    content = scripted.bodies[0]["messages"][-1]["content"]
    assert LIMA in content
    assert "Tell me of Lima." in content
    assert ("Reference:\nLima is a city in Peru." in content) is (context is not None)
    assert scripted.bodies[0]["temperature"] == 0


async def test_nothing_is_asked_twice_but_what_the_server_refused(tmp_path):
    scripted, path = Scripted({**LABELS, "It is a port.": 400, "It is fun.": "perhaps"}), tmp_path
    said, told = await asked_of(scripted, path / "j.jsonl", example())
    again, still = await asked_of(scripted, path / "j.jsonl", example())

    assert said == again == [Verdict(is_right=True), None, None]
    assert told == still
    assert told.labels == {"no label": 1, "refused with 400": 1, "true": 1}
    assert len(scripted.bodies) == 4
    await asked_of(scripted, path / "j.jsonl", example("Another reference."))
    assert len(scripted.bodies) == 7, "another reference is another question"


async def test_an_error_that_is_no_word_on_one_statement_ends_the_run(tmp_path):
    scripted = Scripted({**LABELS, "It is a port.": 401})
    with pytest.raises(httpx.HTTPStatusError, match="401"):
        await asked_of(scripted, tmp_path / "j.jsonl", example())
    scripted.labels = LABELS
    said, _ = await asked_of(scripted, tmp_path / "j.jsonl", example())

    assert said[1] == Verdict(False, "false")
    assert len(scripted.bodies) == 4, "what was said before is kept"


@pytest.mark.parametrize(
    "reply",
    [completion("true"), completion('{"label": "yes"}'), completion("[]"), completion(None), {}],
    ids=str,
)
def test_a_reply_without_a_label_is_told_as_such(reply):
    assert label_of(reply) == "no label"


async def test_a_server_that_holds_replies_to_schemas_says_labels(tmp_path):
    async with openai_server() as server:
        async with JudgeModel(server.url, "tiny").connected() as asked:
            with closing(ModelJudge(asked, "tiny", tmp_path / "j.jsonl")) as judge:
                await judge.of(example())(LIMA, [f"It is {i}." for i in range(12)])
                told = judge.told()
        [body, *_] = server.sent("/v1/chat/completions")

    assert sum(told.labels.values()) == 12
    assert set(told.labels) <= {"true", "false", "unverifiable"}
    assert told.prompt_tokens > 100
    assert body["response_format"]["type"] == "json_schema"


def spec_of(tmp_path, units, scripted, *lines):
    dataset = tmp_path / "mine.jsonl"
    dataset.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return PartsSpec(
        dataset=str(dataset),
        units=units,
        examples=read_parts(dataset, units, judged=True),
        generations=tmp_path / "generations.jsonl",
        draws=[2, 1],
        seed=0,
        estimators=["sp"],
        similarity=None,
        judge=scripted.model,
    )


@pytest.fixture
def settings(monkeypatch):
    for name, value in FAKE.items():
        monkeypatch.setenv(name, value)
    return Settings()


async def test_labels_by_rule_count_and_the_judge_is_held_against_them(tmp_path, settings):
    said = {f"S{i} is.": ["true", "false", "unverifiable"][i % 3] for i in range(30)}
    scripted = Scripted({**said, "T is.": "false"})
    lines = [{"prompt": "?", "output": "T is."}]
    for i, text in enumerate(said):
        unit = {"text": text, "label": i % 2 == 0}
        lines.append({"prompt": "?", "output": f"{text} U is.", "units": [unit]})
    spec = spec_of(tmp_path, "sentences", scripted, *lines)
    run = await evaluate_parts(spec, settings, lambda: None)
    found = measure(run, num_resamples=20, seed=0)

    assert found.num_parts == 31, "what has no label beside labels is left out"
    assert found.num_right == 15
    assert found.judge.counts == ((5, 5, 5), (5, 5, 5))
    assert found.judge.agreement.value == 0.5
    assert found.judge.kappa.value == 0.0
    assert run.judgements.labels == {"false": 11, "true": 10, "unverifiable": 10}
    assert len(scripted.bodies) == 31, "one request a part, whatever the number of draws"


async def test_claims_without_labels_are_judged(tmp_path, settings):
    units = [{"text": text, "quotes": [text]} for text in LABELS]
    spec = spec_of(tmp_path, "claims", Scripted(), {"prompt": "?", "output": LIMA, "units": units})
    run = await evaluate_parts(spec, settings, lambda: None)
    found = measure(run, num_resamples=20, seed=0)

    assert (found.num_parts, found.num_right, found.judge) == (2, 1, None)
    assert found.errors.keys() == {"false"}
