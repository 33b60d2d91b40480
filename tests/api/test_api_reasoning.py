"""A model that reasons, at every endpoint: its answer is scored, its reasoning stands beside it."""

from pathlib import Path

import pytest

from tests.conftest import GENERATE, serving
from tests.events import events_of, named
from tests.reasons import score_reasons

pytestmark = pytest.mark.anyio

MODEL = str(Path(__file__).parents[1] / "data" / "reasoning_model")
CHAT = {"messages": [{"role": "user", "content": "What is 12 + 5 + 7?"}]}
BODY = CHAT | {"max_new_tokens": 120, "num_samples": 4, "seed": 1}
ALL = ["cocoa_sp", "rb_cocoa_sp", "sp", "ppl", "mte", "inconsistency", "semantic_entropy", "mcse"]
# What weighs answers by a probability that nobody knows behind a reasoning.
WITHOUT_MEANING = {"rb_cocoa_sp", "semantic_entropy", "mcse"}


@pytest.fixture(scope="module", params=["embedded"])
async def service(request, anyio_backend):
    """The reasoning model, in the service's process or behind HTTP."""
    options = {"engine": "transformers", "model": MODEL, "dtype": "float32"}
    async with serving(placement=request.param, **options) as running:
        yield running


# What the wire carries, and says of the model.
both_placements = pytest.mark.parametrize(
    "service", ["embedded", "remote"], indirect=True, scope="module"
)


async def answered(service, path=GENERATE, **body):
    response = await service.client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


@both_placements
async def test_scores_are_those_of_the_answer_and_the_reasoning_stands_apart(service):
    body = await answered(service, **BODY, estimators=ALL, return_tokens=True, return_samples=True)

    assert body["text"].strip().isdecimal()
    assert "=" in body["reasoning"]
    assert "<think>" not in body["reasoning"] + body["text"]
    logprobs = [token["logprob"] for token in body["tokens"]]
    assert body["scores"]["sp"] == pytest.approx(-sum(logprobs))
    assert "".join(token["text"] for token in body["tokens"]) == body["text"]
    usage = body["usage"]
    assert usage["completion_tokens"] == usage["reasoning_tokens"] + len(logprobs)
    assert usage["reasoning_tokens"] > 10
    assert all(sample["text"].strip().isdecimal() for sample in body["samples"])
    assert usage["sample_tokens"] > 4 * 10
    assert body["warnings"] == ["reasoning_excluded"]


async def test_what_weighs_answers_by_probability_is_null_with_its_reason(service):
    body = await answered(service, **BODY, estimators=ALL)

    assert {name for name, value in body["scores"].items() if value is None} == WITHOUT_MEANING
    assert score_reasons(body).keys() == WITHOUT_MEANING
    assert all("its own reasoning" in reason for reason in score_reasons(body).values())


async def test_groups_have_shares_and_no_probability(service):
    body = await answered(service, **BODY, explain=True)
    assert sum(group["share"] for group in body["groups"]) == pytest.approx(1)
    assert {group["mass"] for group in body["groups"]} == {None}


async def test_the_uncertainty_that_nobody_names_has_a_meaning(service):
    body = await answered(service, **BODY)
    assert body["estimator"] == "inconsistency"
    assert body["uncertainty"] == body["scores"]["inconsistency"] is not None


@pytest.mark.parametrize(
    ("estimators", "primary"),
    [(["mte", "sp"], "mte"), (["rb_cocoa_sp", "sp"], "sp"), (["rb_cocoa_sp"], "rb_cocoa_sp")],
    ids=["one with a meaning", "one without beside one with", "only one without"],
)
async def test_estimators_that_are_named_are_kept_to_while_they_have_a_meaning(
    service, estimators, primary
):
    body = await answered(service, **BODY, estimators=estimators)
    assert body["estimator"] == primary
    assert (body["uncertainty"] is None) == (primary == "rb_cocoa_sp")


async def test_the_cache_serves_the_same(service):
    body = BODY | {"seed": 7}
    first, again = [await answered(service, **body) for _ in range(2)]
    for one in (first, again):
        del one["id"], one["timing_ms"]
    assert again == first | {"cached": True}


@both_placements
async def test_a_reasoning_that_is_cut_off_has_no_score_at_all(service):
    body = BODY | {"max_new_tokens": 12, "seed": 9}
    for is_cached in (False, True):
        cut = await answered(service, **body, estimators=ALL, return_tokens=True)
        assert (cut["text"], cut["tokens"], cut["finish_reason"]) == ("", [], "length")
        assert set(cut["scores"].values()) == {None}
        reasons = score_reasons(cut).values()
        assert all(why.startswith("reasoning_unfinished") for why in reasons)
        assert all(why.count("reasoning_unfinished") == 1 for why in reasons)
        assert "reasoning_unfinished" in cut["warnings"]
        assert cut["usage"]["completion_tokens"] == cut["usage"]["reasoning_tokens"] == 12
        assert cut["cached"] is is_cached


@both_placements
async def test_a_stream_tells_the_reasoning_before_the_answer(service):
    whole = await answered(service, **BODY, cache=False)
    response = await service.client.post(GENERATE, json=BODY | {"cache": False, "stream": True})
    events = events_of(response.text)

    kinds = [event.name for event in events]
    assert kinds == sorted(kinds, key=["reasoning", "token", "result"].index)
    thoughts = "".join(event["text"] for event in named(events, "reasoning"))
    assert thoughts.strip() == whole["reasoning"]
    assert "".join(event["text"] for event in named(events, "token")) == whole["text"]
    assert events[-1].data["scores"] == whole["scores"]


async def test_a_stream_from_the_cache_tells_both_at_once(service):
    whole = await answered(service, **BODY)
    response = await service.client.post(GENERATE, json=BODY | {"stream": True})
    events = events_of(response.text)
    assert [event.name for event in events] == ["reasoning", "token", "result"]
    assert events[0].data == {"text": whole["reasoning"]}


OPENAI = CHAT | {"model": "cocoa", "max_tokens": 120, "seed": 1, "uncertainty": {"num_samples": 2}}


async def test_openais_chats_have_it_by_both_names(service):
    body = await answered(service, "/v1/chat/completions", **OPENAI)
    message, usage = body["choices"][0]["message"], body["usage"]

    assert message["content"].strip().isdecimal()
    assert message["reasoning"] == message["reasoning_content"]
    assert "=" in message["reasoning"]
    assert usage["completion_tokens_details"]["reasoning_tokens"] > 10
    assert usage["completion_tokens"] > usage["completion_tokens_details"]["reasoning_tokens"]


async def test_openais_streams_have_deltas_of_both(service):
    whole = await answered(service, "/v1/chat/completions", **OPENAI)
    body = OPENAI | {"stream": True, "seed": 2}
    response = await service.client.post("/v1/chat/completions", json=body)
    deltas = []
    for event in events_of(response.text):
        if event.data != "[DONE]" and event.data["choices"]:
            deltas.append(event.data["choices"][0].get("delta", {}))

    message = whole["choices"][0]["message"]
    for name in ("reasoning", "reasoning_content", "content"):
        told = "".join(delta.get(name) or "" for delta in deltas)
        assert told.strip() == message[name].strip()  # the greedy answer is one for all seeds


async def test_a_strategy_that_weighs_by_probability_is_refused(service):
    response = await service.client.post(GENERATE, json=BODY | {"strategy": "most_probable"})
    assert response.status_code == 422
    assert response.json()["error"]["field"] == "strategy"


@both_placements
async def test_given_answers_are_parted_alike(service):
    given = {
        "answer": "<think>12 + 5 is 17</think>24",
        "samples": [{"text": "<think>hm</think>24"}, {"text": "25"}, {"text": "<think>cut"}],
        "estimators": ["inconsistency"],
        "return_samples": True,
    }
    body = await answered(service, "/score", **given)
    assert (body["text"], body["reasoning"]) == ("24", "12 + 5 is 17")
    assert [sample["text"] for sample in body["samples"]] == ["24", "25", ""]
    assert [body["samples"][i]["similarity"] for i in (0, 2)] == [1.0, 0.0]
    read = await answered(service, "/score", **CHAT, answer="24", estimators=["sp"])
    assert read["scores"]["sp"] > 0
    assert "reasoning" not in read
    drawn = await answered(service, "/score", **CHAT, answer="24", seed=1, max_new_tokens=120)
    assert drawn["estimator"] == "inconsistency", "its samples reason"
    assert drawn["uncertainty"] == drawn["scores"]["inconsistency"]


@both_placements
async def test_a_bounded_reasoning_is_shorter_and_answered(service):
    bounds = {"max_reasoning_tokens": 6, "max_sample_reasoning_tokens": 3}
    body = await answered(service, **BODY, **bounds, return_samples=True)

    assert body["usage"]["reasoning_tokens"] == 6 + 2
    assert body["finish_reason"] == "stop"
    assert body["scores"]["sp"] is not None
    assert body["usage"]["sample_tokens"] < 4 * (3 + 2 + 10)
    free = await answered(service, **BODY)
    assert free["usage"]["reasoning_tokens"] > 20
    chat = {**CHAT, "model": "cocoa", "max_tokens": 120, "uncertainty": {"num_samples": 4} | bounds}
    told = await answered(service, "/v1/chat/completions", **chat)
    assert told["usage"]["completion_tokens_details"]["reasoning_tokens"] == 6 + 2


@pytest.mark.parametrize(
    ("path", "bounds", "field"),
    [
        (GENERATE, {"max_reasoning_tokens": 0}, "max_reasoning_tokens"),
        (GENERATE, {"max_reasoning_tokens": 8193}, "max_reasoning_tokens"),
        (GENERATE, {"max_reasoning_tokens": 120}, "max_reasoning_tokens"),
        (GENERATE, {"max_sample_reasoning_tokens": 500}, "max_sample_reasoning_tokens"),
        ("/score", {"answer": "22", "max_reasoning_tokens": 5}, "max_reasoning_tokens"),
    ],
)
async def test_a_bound_that_cannot_be_heeded_is_refused_with_its_field(
    service, path, bounds, field
):
    response = await service.client.post(path, json=BODY | bounds)
    assert response.status_code == 422
    assert response.json()["error"]["field"] == field


async def test_openais_clients_are_told_where_the_bound_stands(service):
    chat = {**CHAT, "model": "cocoa", "uncertainty": {"max_reasoning_tokens": 500}}
    response = await service.client.post("/v1/chat/completions", json=chat)
    assert response.json()["error"]["param"] == "uncertainty.max_reasoning_tokens"
    assert "which is 256" in response.json()["error"]["message"]


NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}


@both_placements
@pytest.mark.parametrize("path", [GENERATE, "/v1/chat/completions"])
async def test_thinking_that_is_switched_off_leaves_an_answer_without_a_reasoning(service, path):
    chat = OPENAI | {"uncertainty": {"num_samples": 4, "estimators": ALL}}
    if path == GENERATE:
        chat = BODY | {"estimators": ALL, "num_samples": 4}
    body = await answered(service, path, **chat, **NO_THINKING)
    thought = await answered(service, path, **chat)

    told = body
    if path != GENERATE:
        told = body["choices"][0]["uncertainty"]
        message = body["choices"][0]["message"]
        assert message.get("reasoning") is None
        assert message["content"].strip().isdecimal()
    assert told.get("reasoning") is None
    assert None not in told["scores"].values()
    assert "reasoning_excluded" not in told["warnings"]
    assert body["usage"]["completion_tokens"] < thought["usage"]["completion_tokens"]


@both_placements
@pytest.mark.parametrize("path", [GENERATE, "/v1/chat/completions"])
@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"reasoning_effort": "low"}, "reasoning_effort", "does not read reasoning_effort"),
        ({"chat_template_kwargs": {"thinking": False}}, "chat_template_kwargs", "enable_thinking"),
        ({"chat_template_kwargs": {"tokenize": True}}, "chat_template_kwargs", "reserved names"),
        (
            {"chat_template_kwargs": {"reasoning_effort": "low"}, "reasoning_effort": "high"},
            "reasoning_effort",
            "is among chat_template_kwargs, too",
        ),
    ],
    ids=["effort", "an unread variable", "a reserved one", "effort twice"],
)
async def test_what_the_template_would_pass_over_is_refused_by_name(
    service, path, fields, field, words
):
    body = BODY if path == GENERATE else OPENAI
    response = await service.client.post(path, json=body | fields)
    error = response.json()["error"]
    assert response.status_code == 422
    assert error.get("field", error.get("param")) == field
    assert words in error["message"]


async def test_a_raw_prompt_has_no_template_that_could_read_an_effort(service):
    body = {"prompt": "What is 12 + 5?", "reasoning_effort": "low"}
    response = await service.client.post(GENERATE, json=body)
    assert response.status_code == 422
    assert response.json()["error"]["field"] == "reasoning_effort"
    assert "needs messages" in response.json()["error"]["message"]


async def test_the_length_of_a_reasoning_is_a_score_that_takes_no_samples(service):
    body = await answered(service, **BODY, estimators=["reasoning_length"])
    again = await answered(service, **BODY, estimators=["reasoning_length"])

    assert body["uncertainty"] == body["scores"]["reasoning_length"]
    assert body["uncertainty"] == body["usage"]["reasoning_tokens"] > 10
    assert body["usage"].get("sample_tokens", 0) == 0
    assert (again["scores"], again["cached"]) == (body["scores"], True)


async def test_without_a_reasoning_its_length_is_null_with_the_reason(service):
    wanted = {"estimators": ["reasoning_length", "sp"]}
    none = await answered(service, **BODY, **wanted, **NO_THINKING)
    cut = await answered(service, **BODY | {"max_new_tokens": 12}, **wanted)

    for body, reason in ((none, "no reasoning before it"), (cut, "reasoning_unfinished")):
        assert body["scores"]["reasoning_length"] is None
        assert reason in body["reasons"]["reasoning_length"]
    assert none["scores"]["sp"] is not None


@both_placements
async def test_a_reasoning_that_nobody_has_counted_has_no_length(service):
    given = {"answer": "<think>hm</think>24", "estimators": ["reasoning_length"]}
    read = await answered(service, "/score", **CHAT, **given)
    unread = await answered(service, "/score", **given, samples=[{"text": "24"}])

    assert read["scores"]["reasoning_length"] >= 3
    assert unread["scores"]["reasoning_length"] is None
    assert "reasoning_length" in unread["reasons"]
