"""A bound of reasonings at existing servers: tried out, sent where it works, else refused."""

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from models.errors import InvalidRequest
from models.records import GenerationRequest, SamplingParams
from tests.openai_server import NUM_THOUGHTS, openai_server
from workers.config import GeneratorConfig
from workers.openai.generator import OpenAIGenerator

pytestmark = pytest.mark.anyio

REQUEST = GenerationRequest(
    "What is the capital of France?",
    sampling=SamplingParams(num_samples=3, max_new_tokens=60, seed=7),
    statistics=frozenset({"answer_token_logprobs", "sample_texts"}),
    timeout_s=30.0,
)
SENT = "thinking_token_budget"


@asynccontextmanager
async def over(server):
    """The adapter over a server, connected."""
    generator = OpenAIGenerator(GeneratorConfig(url=server.url, api="openai").place())
    await generator.connect()
    try:
        yield generator
    finally:
        await generator.close()


def bounded(**bounds):
    return replace(REQUEST, sampling=replace(REQUEST.sampling, **bounds))


@pytest.mark.parametrize(
    ("traits", "why"),
    [
        ({}, "not known to reason"),
        ({"budget": "heeded"}, ""),
        ({"budget": "refused"}, "refuses thinking_token_budget"),
        ({"budget": "ignored"}, "reasons for as long as without it"),
        ({"budget": "heeded", "tokenizes": False, "completes": False}, ""),
    ],
    ids=["no reasoning", "heeded", "refused", "ignored", "heeded in chats"],
)
async def test_a_bound_is_tried_out_and_no_part_of_the_identity(traits, why):
    async with openai_server(**traits) as server, over(server) as generator:
        identity, reasons = generator.info.identity, "budget" in traits
        at_first = generator.info.capabilities["max_reasoning_tokens"]
        assert at_first == ("not tried yet" if reasons else False)
        assert not any(SENT in body for _, body in server.bodies)
        if why:
            with pytest.raises(InvalidRequest, match=why) as caught:
                await generator.generate(bounded(max_reasoning_tokens=5))
            assert caught.value.field == "max_reasoning_tokens"
        else:
            await generator.generate(bounded(max_reasoning_tokens=5))
        told = generator.info.no_reasoning_limit
        assert (told == "", why in told) == (why == "", True)
        assert generator.info.capabilities["max_reasoning_tokens"] == (why == "")
        assert generator.info.identity == identity


async def test_the_bound_is_sent_for_the_answer_and_another_one_for_samples():
    async with openai_server(budget="heeded") as server, over(server) as generator:
        request = bounded(max_reasoning_tokens=5, max_sample_reasoning_tokens=3)
        short = await generator.generate(request)
        sent = [body for body in server.sent("/v1/completions") if body["max_tokens"] == 60]

    assert [(body.get("n", 1), body[SENT]) for body in sent] == [(1, 5), (3, 3)]
    assert short.answer.reasoning.text.split() == ["word"] * 5
    assert {one.reasoning.text for one in short.samples} == {"word word word"}


async def test_without_a_bound_nothing_of_it_is_sent():
    async with openai_server(budget="heeded") as server, over(server) as generator:
        whole = await generator.generate(REQUEST)
        sent = [body for body in server.sent("/v1/completions") if body["max_tokens"] == 60]

    assert len(sent) == 2
    assert not any(SENT in body for body in sent)
    assert len(whole.answer.reasoning.text.split()) == NUM_THOUGHTS
