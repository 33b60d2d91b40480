"""Streamed answers: the tokens, then what a whole response would have said."""

import asyncio

import pytest

from app.http import streams
from app.plugins.labels.protocol import FeedbackConfig
from models.errors import EngineError, InvalidLogits, Overloaded
from tests.conftest import GENERATE, serving, until
from tests.events import events_of, named

pytestmark = pytest.mark.anyio
PLACEMENTS = ["embedded", "remote"]


# Of one request and the next.
MOMENTARY = ("id", "timing_ms", "cached")


async def streamed(service, **body):
    response = await service.generate(stream=True, **body)
    assert response.status_code == 200, response.text
    return events_of(response.text)


def lasting(result):
    return {name: value for name, value in result.items() if name not in MOMENTARY}


@pytest.mark.parametrize("temperature", [0.0, 0.7], ids=["greedy", "drawn"])
async def test_tokens_come_first_and_then_the_same_result_as_without_streaming(
    service, temperature
):
    body = {"cache": False, "seed": 3, "answer_temperature": temperature, "return_tokens": True}
    whole = (await service.generate(**body)).json()
    events = await streamed(service, **body)

    assert [event.name for event in events[:-1]] == ["token"] * len(whole["tokens"])
    assert named(events, "token") == whole["tokens"]
    assert events[-1].name == "result"
    assert lasting(events[-1].data) == lasting(whole)
    strategy = "sample" if temperature else "greedy"
    assert whole["provenance"]["strategy"] == strategy
    assert (whole["provenance"]["seed"], "answer_sample" in whole["provenance"]) == (3, False)


async def test_logprobs_and_entropies_are_null_where_no_estimator_reads_them(service):
    events = await streamed(service, estimators=["ppl"], cache=False)
    tokens = named(events, "token")
    assert {token["entropy"] for token in tokens} == {None}
    assert None not in {token["logprob"] for token in tokens}


async def test_a_cached_answer_comes_as_one_event(service):
    whole = (await service.generate()).json()
    events = await streamed(service)
    assert named(events, "token") == [{"text": whole["text"], "logprob": None, "entropy": None}]
    [result] = named(events, "result")
    assert result["cached"]
    assert lasting(result) == lasting(whole)


async def test_a_joined_answer_comes_as_one_event_and_outlives_the_one_that_it_joined(service):
    begun, released = asyncio.Event(), asyncio.Event()

    async def wait(request):
        begun.set()
        await released.wait()

    service.before_generating(wait)
    first = asyncio.create_task(streamed(service))
    await begun.wait()
    second = asyncio.create_task(streamed(service))
    await until(lambda: service.metric("cocoa_joined_requests_total") == 1)
    first.cancel()
    released.set()
    tokens, results = named(await second, "token"), named(await second, "result")

    assert [token["text"] for token in tokens] == [results[0]["text"]]
    assert service.engine.num_calls == 2, "the warm-up and one for both"


async def test_an_answer_drawn_without_a_seed_is_another_each_time_and_one_with_a_seed_is_not(
    service,
):
    body = {"answer_temperature": 1.0, "estimators": ["sp"]}
    drawn = [(await service.generate(**body)).json() for _ in range(2)]
    calls = service.engine.num_calls
    seeded = [(await service.generate(seed=5, **body)).json() for _ in range(2)]

    assert [one["cached"] for one in (*drawn, *seeded)] == [False, False, False, True]
    assert {one["provenance"]["seed"] for one in seeded} == {5}, "no samples tell it"
    assert service.engine.num_calls == calls + 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"strategy": "mbr"}, "strategy"),
        ({"strategy": "most_probable"}, "strategy"),
        ({"num_samples": 0}, "num_samples"),
        ({"mode": "light", "answer_temperature": 0.5}, "answer_temperature"),
        ({"strategy": "mbr", "answer_temperature": 0.5}, "answer_temperature"),
    ],
    ids=[
        "mbr",
        "most probable",
        "an error of any request",
        "a drawn answer in light mode",
        "a drawn answer that is a sample",
    ],
)
async def test_what_cannot_be_streamed_is_refused_before_any_work(service, body, field):
    calls = service.engine.num_calls
    response = await service.generate(stream=True, **body)
    error = response.json()["error"]

    assert (response.status_code, error["code"], error["field"]) == (422, "invalid_request", field)
    assert service.engine.num_calls == calls


@pytest.mark.parametrize(
    ("error", "status"),
    [(Overloaded("full", retry_after_s=7), 429), (EngineError("broken"), 503)],
    ids=["overloaded", "engine error"],
)
async def test_an_error_before_the_first_byte_is_a_whole_response(service, error, status):
    service.generation_raises(error)
    response = await service.generate(stream=True)

    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    assert response.headers.get("retry-after") == {429: "7", 503: "1"}.get(status)
    assert response.json()["error"]["code"] == error.code


def fails_after_tokens(service, error):
    """Have each generation tell its tokens, wait until they are read, and fail."""
    generate = service.generator.generate

    async def failing(request, on_token=None):
        await generate(request, on_token)
        await asyncio.sleep(0.05)
        raise error

    service.generator.generate = failing


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InvalidLogits("NaN"), 500, "invalid_logits"),
        (EngineError("broken"), 503, "engine_error"),
        (RuntimeError("zanzibar"), 500, "internal_error"),
    ],
    ids=["typed", "retryable", "defect"],
)
async def test_an_error_after_the_first_byte_is_an_event_and_counts_as_its_status(
    service, placement, error, status, code, caplog
):
    if placement == "remote" and type(error) is RuntimeError:
        status, code = 503, "engine_error"  # a defect of the worker is its model's failure here
    fails_after_tokens(service, error)
    with caplog.at_level("INFO"):
        events = await streamed(service)
    [body] = named(events, "error")

    assert events[-1].name == "error"
    assert body["error"]["code"] == code
    assert body["error"]["request_id"]
    assert named(events, "token")
    metrics = (await service.client.get("/metrics")).text
    assert f'cocoa_requests_total{{route="{GENERATE}",status="{status}"}} 1.0' in metrics
    assert f'cocoa_errors_total{{code="{code}"}} 1.0' in metrics
    [line] = [one for one in caplog.records if one.getMessage() == "request" and one.status != 200]
    assert (line.status, line.code, line.levelname) == (status, code, "WARNING")
    assert "zanzibar" not in caplog.text + str(events)


async def test_a_deadline_that_passes_in_the_middle_of_an_answer_is_an_event(service):
    generate = service.generator.generate

    async def endless(request, on_token=None):
        await generate(request, on_token)
        await asyncio.Event().wait()

    service.generator.generate = endless
    events = await streamed(service, timeout_s=0.2)

    assert named(events, "error")[0]["error"]["code"] == "deadline_exceeded"
    assert service.admission.num_admitted == 0


async def test_a_stream_holds_its_place_until_its_scores_are_there(service):
    generate, told, released = service.generator.generate, asyncio.Event(), asyncio.Event()

    async def held(request, on_token=None):
        generation = await generate(request, on_token)
        told.set()
        await released.wait()
        return generation

    service.generator.generate = held
    task = asyncio.create_task(streamed(service))
    await told.wait()
    assert service.admission.num_admitted == 1
    released.set()
    await task
    assert service.admission.num_admitted == 0


async def test_a_silent_stream_has_heartbeats_that_are_no_events(service, monkeypatch):
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.02)
    service.generation_takes(0.2)
    response = await service.generate(stream=True)

    assert response.text.startswith(":\n\n:\n\n")
    assert [event.name for event in events_of(response.text)][-1] == "result"


async def test_an_error_after_a_heartbeat_is_an_event(service, monkeypatch):
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.02)

    async def fail(request):
        await asyncio.sleep(0.1)
        raise EngineError("broken")

    service.before_generating(fail)
    [event] = await streamed(service)
    assert (event.name, event.data["error"]["code"]) == ("error", "engine_error")


async def test_headers_keep_proxies_from_storing_and_collecting(service):
    response = await service.generate(stream=True)
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-accel-buffering"] == "no"
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    [result] = named(events_of(response.text), "result")
    assert result["id"] == response.headers["x-request-id"]


async def test_the_first_token_is_measured_once_a_stream(service):
    await streamed(service)
    await service.generate()
    metrics = (await service.client.get("/metrics")).text
    assert f'cocoa_first_token_seconds_count{{route="{GENERATE}"}} 1.0' in metrics


async def test_a_streamed_answer_can_be_labelled_like_any_other(tmp_path):
    async with serving(feedback=FeedbackConfig(path=str(tmp_path / "labels.jsonl"))) as service:
        [result] = named(await streamed(service), "result")
        label = {"id": result["id"], "correct": True}
        assert (await service.client.post("/feedback", json=label)).status_code == 200
