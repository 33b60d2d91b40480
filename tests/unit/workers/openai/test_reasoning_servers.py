"""Servers of models that reason, by how they tell it: the adapter over each of them."""

from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest

from models.records import GenerationRequest, SamplingParams
from tests.openai_server import BUDGET, EOS, decode, openai_server
from workers.config import GeneratorConfig
from workers.openai.generator import OpenAIGenerator

pytestmark = pytest.mark.anyio

REQUEST = GenerationRequest(
    messages=({"role": "user", "content": "What is the capital of France?"},),
    sampling=SamplingParams(num_samples=3, max_new_tokens=20, seed=7),
    statistics=frozenset({"answer_token_logprobs", "sample_texts", "sample_token_logprobs"}),
    timeout_s=30.0,
)
REASONS = {"budget": "heeded", "num_thoughts": 3}
CHATS = REASONS | {"tokenizes": False, "completes": False, "tags": "tokens"}
WAYS = {
    "halves": REASONS,
    "tokens": REASONS | {"tags": "tokens"},
    "special": REASONS | {"tags": "special"},
    "chats": CHATS,
    "reasoning": CHATS | {"parser": "reasoning"},
    "reasoning_content": CHATS | {"parser": "reasoning_content"},
}


@asynccontextmanager
async def over(server):
    """The adapter over a server, connected."""
    generator = OpenAIGenerator(GeneratorConfig(url=server.url, api="openai").checked())
    await generator.upstream.connect()
    try:
        yield generator
    finally:
        await generator.close()


async def generated(traits, request=REQUEST, on_token=None):
    """What the adapter makes of it, and the bodies that it sent for that."""
    async with openai_server(**traits) as server, over(server) as generator:
        server.bodies.clear()
        found = await generator.generate(request, on_token)
        return found, server.bodies


@pytest.mark.parametrize("way", WAYS)
async def test_the_same_model_has_the_same_answer_however_its_reasoning_is_told(way):
    found, _ = await generated(WAYS[way])
    expected, _ = await generated(WAYS["halves" if way == "halves" else "tokens"])
    # Prompts of ids, and of chats, are the same ones here.
    for one, other in zip(
        (found.answer, *found.samples), (expected.answer, *expected.samples), strict=True
    ):
        assert (one.text, one.reasoning.text) == (other.text, "word word word")
        assert one.reasoning.is_finished
        assert one.num_tokens == len(one.token_logprobs) == other.num_tokens
        assert one.reasoning.num_tokens == {"halves": 7}.get(way, 5)
        np.testing.assert_array_equal(one.token_logprobs, other.token_logprobs)
    assert found.absent == {}
    assert found.warnings == ()


@pytest.mark.parametrize("way", ["tokens", "special", "halves"])
@pytest.mark.parametrize(("plugin", "num_read"), [({}, 0), ({"probes": ()}, 1)])
async def test_texts_of_tokens_spare_a_prefill_of_each_text(way, plugin, num_read):
    _, bodies = await generated(WAYS[way] | plugin)
    assert sum("prompt_logprobs" in body for _, body in bodies) == num_read


@pytest.mark.parametrize("way", ["tokens", "special", "halves"])
async def test_the_token_that_ends_answers_is_found_behind_a_reasoning_that_is_closed(way):
    traits = WAYS[way] | {"num_thoughts": 100}
    async with openai_server(**traits) as server, over(server) as generator:
        assert generator.info.capabilities["end_of_answer_token"] == EOS


@pytest.mark.parametrize("way", ["tokens", "special", "halves"])
@pytest.mark.parametrize(
    ("said", "closing"),
    [("Is it?", "<think>\n\n</think>\n\n"), ("Is it?<think>\n\n</think>\n", "")],
    ids=["that reasons", "that its template has ended"],
)
async def test_a_question_of_one_token_stands_behind_a_reasoning_that_is_over(way, said, closing):
    law = replace(REQUEST.sampling, max_reasoning_tokens=0)
    question = replace(REQUEST, messages=({"role": "user", "content": said},), sampling=law)
    async with openai_server(**WAYS[way]) as server, over(server) as generator:
        server.bodies.clear()
        await generator.first_token_logprobs(question, (["True"], ["False"]))
    [(_, body)] = server.bodies
    assert decode(body["prompt"], special=True).partition(said)[2] == closing


async def test_a_question_that_continues_a_text_is_no_reasoning_that_is_over():
    law = replace(REQUEST.sampling, max_reasoning_tokens=0)
    question = replace(REQUEST, messages=None, prompt="Is it?", sampling=law)
    async with openai_server(**WAYS["tokens"]) as server, over(server) as generator:
        server.bodies.clear()
        await generator.first_token_logprobs(question, (["True"],))
    [(_, body)] = server.bodies
    assert decode(body["prompt"], special=True).endswith("Is it?")


@pytest.mark.parametrize("way", ["chats", "reasoning", "reasoning_content"])
@pytest.mark.parametrize(
    "efforts", [("none", "high"), ("high",), ()], ids=["heeded", "refused", "ignored"]
)
async def test_a_server_of_chats_is_asked_at_once_where_it_heeds_no_effort(way, efforts):
    law = replace(REQUEST.sampling, max_reasoning_tokens=0)
    chat = replace(REQUEST, messages=({"role": "user", "content": "Is it?"},), prompt=None)
    if "high" in efforts:
        chat = replace(chat, chat_template_kwargs={"reasoning_effort": "high"})
    text = replace(REQUEST, messages=None, prompt="Is it?")
    traits = WAYS[way] | {"efforts": efforts}
    async with openai_server(**traits) as server, over(server) as generator:
        server.bodies.clear()
        for question in (chat, text):
            await generator.first_token_logprobs(replace(question, sampling=law), (["True"],))
        await generator.generate(chat, None)
    bodies = [body for _, body in server.bodies if body["messages"] == list(chat.messages)]
    asked, answered = bodies[:2], bodies[2:]
    of_chat = "high" if "high" in efforts else None
    expected = ["none"] * 2 if "none" in efforts else [of_chat, None]
    assert [body.get("reasoning_effort") for body in asked] == expected
    assert {body.get("reasoning_effort") for body in answered} == {of_chat}


@pytest.mark.parametrize("way", ["tokens", "special", "halves"])
async def test_a_bound_of_0_has_the_answer_at_once_without_a_parser(way):
    law = replace(REQUEST.sampling, max_reasoning_tokens=0)
    found, bodies = await generated(WAYS[way], replace(REQUEST, sampling=law))
    assert [one.reasoning for one in (found.answer, *found.samples)] == [None] * 4
    assert not any(BUDGET in body for _, body in bodies)


@pytest.mark.parametrize("max_logprobs", [5, None], ids=["log-probs of the answer", "none"])
async def test_a_reasoning_that_is_counted_alone_is_said_not_to_be_told(max_logprobs):
    traits = CHATS | {"parser": "counted", "max_logprobs": max_logprobs}
    found, _ = await generated(traits)
    expected, _ = await generated(WAYS["reasoning"])

    assert found.answer.text == expected.answer.text
    for one in (found.answer, *found.samples):
        assert (one.reasoning.text, one.reasoning.num_tokens) == ("", 5)
    assert "reasoning_not_told" in found.warnings
    assert found.answer.num_written == expected.answer.num_written
