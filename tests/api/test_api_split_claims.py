"""`units: "claims"`: the model is asked once more, to split its answer into claims."""

import json
from functools import partial

import pytest

from models.engines.protocol import EngineInfo
from models.errors import EngineError
from tests.api.keyed import generate, metric, with_keys
from tests.api.openai_calls import CHAT, answered, uncertainty_of
from tests.api.scored import scored
from tests.api.test_api_servers import generated, serving_over
from tests.conftest import serving
from tests.fakes import engine
from workers import trials

pytestmark = pytest.mark.anyio

ANSWER = 'Lima is big. "It lies in Peru."'
CLAIMS = [
    {"text": "Lima is big.", "quotes": ["Lima", "big"]},
    {"text": "Lima lies in Peru.", "quotes": ["lies in Peru"]},
]


async def passes(self, source):
    return trials.Verdict()


def split_into(*claims):
    return json.dumps({"claims": claims})


@pytest.fixture(params=["embedded", "remote"])
def placement(request):
    return request.param


@pytest.fixture
def asked(monkeypatch):
    """What the fake engine, which follows grammars here, is asked under one; and what it replies.

    The last one of `asked.replies` is the reply.
    """

    class Asked(list):
        replies = [split_into(*CLAIMS)]  # noqa: RUF012 - of one test

    asked = Asked()

    def answers(request):
        if request.grammar is None:
            return (ANSWER,)
        asked.append(request)
        return (asked.replies[-1],)

    monkeypatch.setattr(engine, "_answers", answers)
    monkeypatch.setattr(engine, "EngineInfo", partial(EngineInfo, no_grammar=""))
    monkeypatch.setattr(engine.FakeEngine, "compile", lambda self, grammar: None, raising=False)
    monkeypatch.setattr(engine.FakeEngine, "vocabulary", str, raising=False)
    monkeypatch.setattr(engine.FakeEngine, "grammar_source", lambda *_: "", raising=False)
    monkeypatch.setattr(trials.Trials, "start", lambda self: None)
    monkeypatch.setattr(trials.Trials, "check", passes)
    return asked


async def test_the_model_splits_its_answer_under_a_schema(asked, service):
    body = (await service.generate(units="claims", explain=True, return_tokens=True)).json()

    _, first, second = body["units"]
    assert asked[0].sampling.max_reasoning_tokens == 0
    assert [one["kind"] for one in (first, second)] == ["claim"] * 2
    assert [one["text"] for one in (first, second)] == [one["text"] for one in CLAIMS]
    assert first["spans"] == [[0, 4], [8, 11]]
    # The samples, which all say the same, have the first word for word; of the second the fake
    # entails the share of their words that it has.
    assert (first["support"], second["support"]) == (1, pytest.approx(3 / 7))
    logprobs = [token["logprob"] for token in body["tokens"]]
    assert first["scores"]["sp"] == pytest.approx(-logprobs[0] - logprobs[2])
    assert first["confidence"] is None
    assert "of 2 claims" in body["explanation"]
    assert body["usage"]["split_tokens"] > len(json.dumps(CLAIMS).split())
    assert json.dumps(ANSWER) in asked[0].prompt
    assert (asked[0].num_samples, asked[0].sampling.max_new_tokens) == (0, 256)
    assert not body["warnings"]


async def test_an_answer_is_split_once_by_a_chat_as_by_a_text(asked, service):
    body = {"messages": [{"role": "user", "content": "Which?"}], "seed": 1, "units": "claims"}
    first = (await service.generate(**body)).json()
    again = (await service.generate(**body)).json()
    anew = (await service.generate(**body, cache=False)).json()

    assert again["cached"]
    assert first["units"] == again["units"] == anew["units"]
    # The fake's answer is written twice: where it is told, and where it is counted.
    num_calls = len({id(one) for one in asked})
    assert num_calls == 2
    [message] = asked[0].messages
    assert message["role"] == "user"
    assert "Which?" in message["content"]


async def test_openais_endpoint_splits_answers_too(asked, service):
    body = await answered(service, CHAT, uncertainty={"units": "claims"})

    told = uncertainty_of(body)
    assert [one["kind"] for one in told["units"]] == ["answer", "claim", "claim"]
    assert told["split_tokens"] > 0


async def test_a_given_answer_is_split_too(asked, service):
    body = await scored(service, prompt="Which?", answer=ANSWER, units="claims", num_samples=2)

    assert [one["text"] for one in body["units"][1:]] == [one["text"] for one in CLAIMS]


INVALID = {
    "cut": '{"claims": [{"text": "Lima is',
    "no JSON": "Lima is big.",
    "another shape": '{"claims": ["Lima is big."]}',
    "other types": '{"claims": [{"text": 1, "quotes": []}]}',
    "half a pair": '{"claims": [{"text": "\\ud83d", "quotes": []}]}',
    "nothing": "",
}


@pytest.mark.parametrize("reply", INVALID.values(), ids=INVALID)
async def test_of_a_reply_that_is_no_list_of_claims_sentences_are_told(asked, service, reply):
    asked.replies.append(reply)
    body = (await service.generate(units="claims")).json()

    assert [one["kind"] for one in body["units"]] == ["answer", "sentence", "sentence"]
    assert body["warnings"] == ["claims_not_split"]
    assert body["usage"]["split_tokens"] > 0


async def test_where_the_model_fails_or_has_no_room_sentences_are_told(asked):
    def fails(self, grammar):
        raise EngineError("no JSON")

    async with serving() as service:
        service.engine.compile = partial(fails, service.engine)
        failed = (await service.generate(units="claims")).json()
    async with serving() as service:
        too_long = (await service.generate(prompt="word " * 440, units="claims")).json()

    for body in (failed, too_long):
        assert body["warnings"] == ["claims_not_split"]
        assert {one["kind"] for one in body["units"][1:]} == {"sentence"}
        assert body["usage"]["split_tokens"] == 0


async def test_without_grammars_sentences_are_told(service):
    body = (await service.generate(units="claims")).json()

    assert {one["kind"] for one in body["units"][1:]} == {"sentence"}
    assert body["warnings"] == ["claims_unsupported"]
    assert body["usage"]["split_tokens"] == 0


@pytest.mark.parametrize(
    ("reply", "num_claims", "warnings"),
    [
        (split_into(), 0, ["no_claims"]),
        (split_into({"text": " ", "quotes": []}), 0, ["no_claims"]),
        (split_into(CLAIMS[0], CLAIMS[0]), 1, []),
        (split_into({"text": "So.", "quotes": ["", "Lima"]}), 1, []),
        (split_into({"text": "So.", "quotes": ["Rome"]}), 1, ["quotes_not_found"]),
    ],
    ids=["none", "white space", "twice", "an empty quote", "misquoted"],
)
async def test_what_is_odd_about_claims_is_told(asked, service, reply, num_claims, warnings):
    asked.replies.append(reply)
    body = (await service.generate(units="claims", num_samples=1)).json()

    assert len(body["units"]) == 1 + num_claims
    assert body["warnings"] == warnings


@pytest.mark.parametrize("text", ["", "```\nx = 1\n```"], ids=["nothing", "code"])
async def test_what_says_nothing_is_not_split(asked, service, text):
    body = await scored(service, prompt="Which?", answer=text, units="claims", num_samples=2)

    assert "no_claims" in body["warnings"]
    assert not asked


@pytest.mark.parametrize(
    ("path", "body", "field", "said"),
    [
        ("/score", {"answer": ANSWER, "samples": [{"text": "x"}]}, "units", "send a prompt"),
        (
            "/generate-with-uncertainty",
            {"prompt": "x", "target_error": 0.1, "on_unit_reject": "remove"},
            "on_unit_reject",
            "keep or abstain",
        ),
        ("/generate-with-uncertainty", {"prompt": "x", "target_error": 0.1}, "target_error", ""),
        ("/generate-with-uncertainty", {"prompt": "x", "claims": []}, "claims", ""),
    ],
    ids=["no prompt", "remove", "no calibrator", "own claims"],
)
async def test_what_cannot_be_had_is_refused_before_any_work(
    asked, service, path, body, field, said
):
    num_calls = service.engine.num_calls
    response = await service.client.post(path, json={"units": "claims"} | body)

    error = response.json()["error"]
    assert (response.status_code, error["field"]) == (422, field)
    assert said in error["message"]
    assert service.engine.num_calls == num_calls


@pytest.mark.parametrize("units", ["sentences", "claims"])
async def test_a_split_and_pairs_are_charged_once(asked, tmp_path, units):
    async with with_keys(tmp_path, one={}) as service:
        usage = (await generate(service, "one", seed=1, units=units)).json()["usage"]
        # The fake's tokens are words. All samples are equal, and have all but the second claim word
        # for word, which is read beside one of them.
        read = {"sentences": 0, "claims": len(CLAIMS[1]["text"].split()) + 7}[units]
        line = f'cocoa_key_tokens_total{{key="one"}} {float(sum(usage.values()) + read)}'
        assert await metric(service, line)
        await generate(service, "one", seed=1, units=units)
        assert await metric(service, line)


async def test_what_an_estimator_has_the_nli_model_read_is_charged_as_that_of_units_is(tmp_path):
    asked = {"estimators": ["semantic_density"], "return_samples": True}
    async with with_keys(tmp_path, one={}) as service:
        body = (await generate(service, "one", seed=1, **asked)).json()
        answer, usage = body["text"].strip(), body["usage"]
        others = {one["text"].strip() for one in body["samples"]} - {answer, ""}
        assert others
        # Beside each other sample, in both directions.
        read = 2 * sum(len(f"{answer} {one}".split()) for one in others)
        charged = float(sum(usage.values()) + read)
        assert await metric(service, f'cocoa_key_tokens_total{{key="one"}} {charged}')


async def test_a_server_that_follows_schemas_is_asked_for_claims():
    claims = [{"text": "So it is.", "quotes": []}, {"text": "So.", "quotes": ["never said"]}]
    async with serving_over(claims=split_into(*claims), context=4096) as (client, _):
        body = await generated(client, units="claims")

    assert [one.get("text") for one in body["units"][1:]] == ["So it is.", "So."]
    assert "quotes_not_found" in body["warnings"]


@pytest.mark.parametrize("formats", ["refused", "ignored"])
async def test_of_a_server_that_follows_none_sentences_are_told(formats):
    async with serving_over(formats=formats) as (client, _):
        body = await generated(client, units="claims")

    assert "claims_unsupported" in body["warnings"]
    assert "claim" not in {one["kind"] for one in body["units"]}
