"""Upstreams that send more than was asked for, or what makes no sense in a stream."""

import asyncio
import json
from dataclasses import replace

import pytest
from starlette.responses import JSONResponse, StreamingResponse

from models.errors import GenerationUnavailable
from models.records import GenerationRequest, SamplingParams
from tests.conftest import until
from tests.openai_server import openai_server
from tests.unit.workers.openai.test_generator import over
from workers.remote import standing

pytestmark = pytest.mark.anyio
REQUEST = GenerationRequest(
    "What is the capital of France?",
    sampling=SamplingParams(num_samples=0, max_new_tokens=8, seed=7),
    timeout_s=30.0,
)
PLAIN = {"tokenizes": False, "max_logprobs": None}


def streaming(*events, endless=False):
    """A stream of these events, the last of them for as long as matters."""

    async def sent():
        for event in events:
            yield f"data: {json.dumps(event)}\n\n"
        for _ in range(500 * endless):
            yield f"data: {json.dumps(events[-1])}\n\n"
        yield "data: [DONE]\n\n"

    return StreamingResponse(sent(), media_type="text/event-stream")


def piece(text, **more):
    return {"choices": [{"index": 0, "text": text, **more}]}


@pytest.mark.parametrize(
    "stream",
    [
        lambda: streaming(piece("Paris "), endless=True),
        lambda: streaming(piece("x" * 20_000), endless=True),
        lambda: streaming({"choices": []}, endless=True),
        lambda: streaming({"choices": 5}),
        lambda: streaming(piece("Paris", index=[1], finish_reason="stop")),
        lambda: streaming({"choices": [3]}),
        lambda: streaming(piece("Paris", token_ids=7, finish_reason="stop")),
    ],
    ids=[
        "endless tokens",
        "endless text",
        "endless events",
        "choices 5",
        "index [1]",
        "a choice 3",
        "token ids 7",
    ],
)
async def test_a_stream_that_is_too_long_or_makes_no_sense_is_a_typed_error(stream):
    heard = []
    async with openai_server(**PLAIN) as server, over(server) as generator:
        server.replies += [stream() for _ in range(4)]
        with pytest.raises(GenerationUnavailable):
            await generator.generate(REQUEST, heard.append)
        assert len(heard) <= 8 + 1
        assert len("".join(token.text for token in heard)) < 100_000


async def test_more_tokens_than_were_asked_for_are_no_answer():
    long = {"text": "a", "finish_reason": "stop", "token_ids": [300] * 10, "logprobs": None}
    async with openai_server() as server, over(server) as generator:
        server.replies += [{"choices": [long]}] * 4
        with pytest.raises(GenerationUnavailable, match="more tokens"):
            await generator.generate(REQUEST)


async def test_what_a_server_says_it_read_and_wrote_is_bounded_by_what_was_asked():
    usage = {"prompt_tokens": 400_000, "completion_tokens": 400_000}
    choice = {"text": "Paris", "finish_reason": "stop"}
    async with openai_server(**PLAIN, context=10_000) as server, over(server) as generator:
        server.replies += [{"choices": [choice], "usage": usage}]
        generation = await generator.generate(replace(REQUEST, statistics=frozenset()))
    assert generation.prompt_tokens < 5_000
    assert generation.answer.num_tokens <= 8


async def test_a_trial_call_that_hangs_keeps_nobody_from_what_is_known(monkeypatch):
    monkeypatch.setattr(standing, "TRIAL_S", 0.3)
    async with openai_server() as server, over(server) as generator:
        known = generator.info.identity
        watched = generator.upstream.server
        server.delay_s = 60.0
        watched.doubt()
        await asyncio.wait_for(watched.settled(), 5)
        server.delay_s = 0.0
        generation = await asyncio.wait_for(generator.generate(REQUEST), 5)
        assert generation.identity == known
        assert watched.hangs
        await watched.check()
        await until(lambda: not watched.hangs)
        assert (await generator.generate(REQUEST)).identity == known


async def test_a_server_that_hangs_before_it_is_known_is_waited_for(monkeypatch):
    monkeypatch.setattr(standing, "TRIAL_S", 0.3)
    async with openai_server(delay_s=0.7) as server:
        async with asyncio.timeout(60), over(server) as generator:
            assert generator.info.statistics
        assert len(server.bodies) <= 7


async def test_a_known_server_that_has_no_room_for_a_trial_serves_on_and_is_left_alone(caplog):
    async with openai_server() as server, over(server) as generator:
        known = generator.info.identity
        watched = generator.upstream.server
        server.replies += [JSONResponse({}, 429, {"Retry-After": "3000"})] * 9
        watched.doubt()
        assert (await watched.settled()).identity == known
        server.replies.clear()
        num_calls = len(server.bodies)
        await watched.check()
        assert (await generator.generate(REQUEST)).identity == known
        assert len(server.bodies) == num_calls + 1
    assert "Traceback" not in caplog.text


async def test_a_server_that_has_no_room_before_it_is_known_is_left_out_for_that_reason(caplog):
    async with openai_server() as server:
        server.replies += [JSONResponse({}, 429, {"Retry-After": "3000"})]
        async with over(server):
            assert "the server of the model has no room" in caplog.text
    assert "Traceback" not in caplog.text
