"""A bound of reasonings at existing servers: sent where it works, else refused."""

from dataclasses import replace

import pytest

from models.errors import InvalidRequest
from models.records import GenerationRequest, SamplingParams
from tests.openai_server import NUM_THOUGHTS, openai_server
from tests.unit.workers.openai.test_reasoning_servers import over

pytestmark = pytest.mark.anyio

REQUEST = GenerationRequest(
    "What is the capital of France?",
    sampling=SamplingParams(num_samples=3, max_new_tokens=60, seed=7),
    statistics=frozenset({"answer_token_logprobs", "sample_texts"}),
    timeout_s=30.0,
)
SENT = "thinking_token_budget"


def bounded(**bounds):
    return replace(REQUEST, sampling=replace(REQUEST.sampling, **bounds))


@pytest.mark.parametrize(
    ("traits", "why"),
    [
        ({}, "not known to reason"),
        ({"budget": "refused"}, "refuses thinking_token_budget"),
        ({"budget": "ignored"}, "reasons for longer"),
        ({"budget": "heeded", "tokenizes": False, "completes": False}, "takes no such bound"),
    ],
    ids=["no reasoning", "refused", "ignored", "another kind of server"],
)
async def test_a_bound_that_is_not_heeded_is_refused_with_the_reason(traits, why):
    async with openai_server(**traits) as server, over(server) as generator:
        with pytest.raises(InvalidRequest, match=why) as caught:
            await generator.generate(bounded(max_reasoning_tokens=1))
    assert caught.value.field == "max_reasoning_tokens"


async def test_the_bound_is_sent_for_the_answer_and_another_one_for_samples():
    async with openai_server(budget="heeded") as server, over(server) as generator:
        request = bounded(max_reasoning_tokens=5, max_sample_reasoning_tokens=3)
        short = await generator.generate(request)
        sent = [body for body in server.sent("/v1/completions") if body["max_tokens"] == 60]

    assert sorted((body.get("n", 1), body[SENT]) for body in sent) == [(1, 5), (3, 3)]
    assert short.answer.reasoning.text.split() == ["word"] * 5
    assert {one.reasoning.text for one in short.samples} == {"word word word"}


async def test_without_a_bound_nothing_of_it_is_sent():
    async with openai_server(budget="heeded") as server, over(server) as generator:
        whole = await generator.generate(REQUEST)
        sent = [body for body in server.sent("/v1/completions") if body["max_tokens"] == 60]

    assert len(sent) == 2
    assert not any(SENT in body for body in sent)
    assert len(whole.answer.reasoning.text.split()) == NUM_THOUGHTS
