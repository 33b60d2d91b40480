"""How a server of others says that a text ended: refused, filtered, or in a word of its own."""

from contextlib import asynccontextmanager

import pytest

from app.http.openai.schemas import ChatCompletion, Completion
from app.http.schemas import GenerateResponse
from cocoa_lab.calibration.calibrating import to_json
from tests.api.test_api_servers import QUESTION, serving_over
from tests.events import events_of, named
from tests.made_calibrators import calibration, calibrator

pytestmark = pytest.mark.anyio

CHATS = {"tokenizes": False, "completes": False}
NUM_TOKENS = 8
DEFAULTS = {"max_new_tokens": NUM_TOKENS, "seed": 3, "num_samples": 4}
NATIVE, CHAT, TEXT = "/generate-with-uncertainty", "/v1/chat/completions", "/v1/completions"
ENDPOINTS = [(path, stream) for path in (NATIVE, CHAT, TEXT) for stream in (False, True)]


def said_in(choice):
    return choice.get("message", choice.get("delta"))


def ends(reason, *, text=None, refusal=None):
    """Makes a choice, or each of its pieces, end so; None leaves its text."""

    def change(choice):
        said, is_last = said_in(choice), choice["finish_reason"] is not None
        if text is not None:
            said["content"] = text if is_last and text else None
            choice["logprobs"] = None
        if is_last:
            said["refusal"], choice["finish_reason"] = refusal, reason

    return change


REFUSED = ends("stop", text="", refusal="No.")
FILTERED = ends("content_filter", text="")
CUT = ends("content_filter", text="It ")
STRANGE = ends("server_tired")


@asynccontextmanager
async def service_that(answer=None, samples=None, **others):
    """A client of the service over a server whose answers and samples end so."""

    def alter(choice, body):
        change = samples if body["temperature"] == 1.0 else answer
        is_trial = body["max_tokens"] != NUM_TOKENS or body["temperature"] == 2.0
        if change is not None and not is_trial:
            change(choice)

    async with serving_over(others=others, **CHATS) as (client, server):
        server.alter = alter
        client.app = app_of(client)
        yield client


def app_of(client):
    return client._transport.app


async def asked(client, path=NATIVE, **fields):
    body = DEFAULTS | {"prompt": QUESTION} | fields
    if path != NATIVE:
        told = {name: body.pop(name) for name in ("max_new_tokens", "num_samples")}
        body |= {"model": "tiny", "max_tokens": told["max_new_tokens"]}
        body["uncertainty"] = {"num_samples": told["num_samples"]} | body.pop("of_uncertainty", {})
    if path == CHAT:
        body["messages"] = [{"role": "user", "content": body.pop("prompt")}]
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response


async def result_at(client, path, *, stream, **fields):
    """What an endpoint says in the end: text, refusal, finish reason, and what stands behind."""
    response = await asked(client, path, stream=stream, **fields)
    if path == NATIVE:
        body = response.json() if not stream else named(events_of(response.text), "result")[0]
        GenerateResponse.model_validate(body)
        return body["text"], body.get("refusal"), body["finish_reason"], body
    if not stream:
        body = response.json()
        {CHAT: ChatCompletion, TEXT: Completion}[path].model_validate(body)
        [choice] = body["choices"]
        said = choice.get("message", choice)
        text = said.get("content", said.get("text"))
        return text, said.get("refusal"), choice["finish_reason"], choice["uncertainty"]
    text, refusal = "", None
    for event in events_of(response.text)[:-1]:
        [choice] = event.data["choices"]
        said = choice.get("delta", choice)
        text += said.get("content") or said.get("text") or ""
        refusal = said.get("refusal", refusal)
    return text or None, refusal, choice["finish_reason"], choice["uncertainty"]


def value_of(told):
    return told["uncertainty"] if "uncertainty" in told else told["value"]


@pytest.mark.parametrize(("path", "stream"), ENDPOINTS)
async def test_a_refusal_reaches_the_client_at_every_endpoint_and_has_no_scores(path, stream):
    async with service_that(answer=REFUSED, samples=REFUSED) as client:
        text, refusal, finish_reason, told = await result_at(client, path, stream=stream)
    assert (text or None, refusal, finish_reason) == (None, "No.", "stop")
    assert value_of(told) is None
    assert set(told["scores"].values()) == {None}
    reason = "answer_refused: the model's server refused to answer"
    assert told["reasons"][told["estimator"]] == reason
    assert {"answer_refused", "samples_left_out"} <= set(told["warnings"])
    assert told["provenance"]["samples_left_out"] == 4
    assert "empty_answer" not in told["warnings"]


@pytest.mark.parametrize(("path", "stream"), ENDPOINTS)
async def test_a_filtered_answer_says_so_at_every_endpoint(path, stream):
    async with service_that(answer=CUT) as client:
        text, refusal, finish_reason, told = await result_at(client, path, stream=stream)
        assert (text.strip(), refusal, finish_reason) == ("It", None, "content_filter")
        assert "answer_filtered" in told["warnings"]
        assert told["scores"]["inconsistency"] is not None
    async with service_that(answer=FILTERED) as client:
        text, refusal, finish_reason, told = await result_at(client, path, stream=stream)
    assert (text or None, refusal, finish_reason) == (None, None, "content_filter")
    assert value_of(told) is None
    reason = "answer_filtered: the filter of the model's server left nothing of the answer"
    assert told["reasons"][told["estimator"]] == reason
    assert "answer_filtered" in told["warnings"]


@pytest.mark.parametrize(("path", "stream"), ENDPOINTS)
async def test_an_end_that_nobody_knows_is_told_in_the_servers_word(path, stream):
    async with service_that(answer=STRANGE) as client:
        text, _, finish_reason, told = await result_at(client, path, stream=stream)
    assert (bool(text), finish_reason) == (True, "server_tired")
    assert "finish_reason_unknown" in told["warnings"]
    assert value_of(told) is not None


@pytest.mark.parametrize("samples", [REFUSED, FILTERED, CUT], ids=["refused", "nothing", "cut"])
async def test_samples_that_are_no_draws_of_the_model_are_left_out_and_counted(samples):
    num = 0

    def every_other(choice):
        nonlocal num
        num += 1
        if num % 2:
            samples(choice)

    async with service_that(samples=every_other) as client:
        first = (await asked(client, return_samples=True)).json()
        again = (await asked(client, return_samples=True)).json()
    for told, is_cached in ((first, False), (again, True)):
        assert told["cached"] == is_cached
        assert told["warnings"].count("samples_left_out") == 1
        provenance = told["provenance"]
        assert (provenance["num_samples"], provenance["samples_left_out"]) == (2, 2)
        assert len(told["samples"]) == 2
        assert {one["finish_reason"] for one in told["samples"]} <= {"stop", "length"}
        assert told["uncertainty"] is not None
    assert first["scores"] == again["scores"]
    assert first["usage"]["sample_tokens"] == again["usage"]["sample_tokens"]


@pytest.mark.parametrize("strategy", ["greedy", "mbr"])
async def test_without_any_sample_what_reads_them_is_null_with_that_reason(strategy):
    async with service_that(samples=CUT) as client:
        told = [(await asked(client, strategy=strategy)).json() for _ in range(2)]
    for one in told:
        assert "samples_left_out" in one["warnings"]
        assert one["scores"]["inconsistency"] is None
        reason = "samples_left_out: the model's server refused or filtered every sample"
        assert one["reasons"]["inconsistency"] == reason
        assert one["provenance"]["samples_left_out"] == 4
        assert "num_samples" not in one["provenance"]
        assert (one["text"].strip() == "It") == (strategy != "greedy")


async def test_further_choices_say_how_each_ended():
    num = 0

    def refuse_two(choice):
        nonlocal num
        num += 1
        if num in (2, 3):  # of the four samples, behind the answer
            REFUSED(choice)

    async with service_that(samples=refuse_two) as client:
        whole = (await asked(client, CHAT, n=4, temperature=1)).json()["choices"]
        streamed = await asked(client, CHAT, n=4, temperature=1, stream=True)
    assert [one["message"]["refusal"] for one in whole] == [None, None, None, "No."]
    assert whole[3]["message"]["content"] is None
    told = [event.data["choices"][0] for event in events_of(streamed.text)[:-1]]
    assert [one["index"] for one in told if one["delta"].get("refusal")] == [3]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_drawn_answer_that_is_filtered_is_none_beside_whole_samples(stream):
    async with service_that(answer=CUT) as client:
        response = await asked(client, answer_temperature=0.5, stream=stream, cache=False)
    told = response.json() if not stream else named(events_of(response.text), "result")[0]
    if stream:
        said = "".join(one["text"] for one in named(events_of(response.text), "token"))
        assert said == told["text"]
    assert (told["text"].strip(), told["finish_reason"]) == ("It", "content_filter")
    assert "answer_filtered" in told["warnings"]
    assert (told["provenance"]["num_samples"], told["scores"]["sp"]) == (4, None)


@pytest.mark.parametrize(
    ("answer", "samples", "code"),
    [
        (CUT, None, "answer_filtered"),
        (FILTERED, None, "answer_filtered"),
        (REFUSED, None, "answer_refused"),
        (STRANGE, None, "finish_reason_unknown"),
        (None, FILTERED, "samples_left_out"),
    ],
    ids=["cut", "nothing", "refused", "unknown", "samples"],
)
async def test_no_such_answer_is_accepted_under_a_promise(answer, samples, code, tmp_path):
    async with service_that() as client:
        workers = client.app.state.service.scorer.workers
        info, nli = workers.generator.info, workers.nli.info.identity
        similarity = workers.similarity_scorers["fake"].info.identity
    bound = {"model_id": "tiny", "revision": info.revision, "generator": info.identity}
    bound |= {
        "num_samples": 4,
        "max_new_tokens": 8,
        "comparer": similarity,
        "nli": nli,
        "share_cut": 1.0,
    }
    made = calibrator({"all": {"inconsistency": calibration(threshold=4.0)}}, **bound)
    path = tmp_path / "calibrator.json"
    path.write_text(to_json(made))
    ask = {"estimators": ["inconsistency"], "target_error": 0.05}
    async with service_that(calibrator=str(path)) as client:
        passed = (await asked(client, **ask)).json()
    assert passed["decision"]["accept"], passed
    async with service_that(answer=answer, samples=samples, calibrator=str(path)) as client:
        held = (await asked(client, **ask)).json()
    assert not held["decision"]["accept"]
    assert held["reasons"]["confidence"].startswith(code)
    assert held["confidence"] is None
