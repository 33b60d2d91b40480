"""Log-probs of a prompt's own tokens are those of one pass of the model over it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from models.errors import InvalidLogits
from models.records import GivenAnswer
from tests.tiny_models import byte_tokenizer, random_model
from tests.unit.models.engines.tiny_engines import (
    ARCHITECTURES,
    PROMPTS,
    engine_of,
    generated,
    next_logprobs,
    request_for,
    running,
    teacher_forced,
)

pytestmark = pytest.mark.anyio
TOKENIZER = byte_tokenizer()


def echoed(prompt, **changes):
    return request_for(prompt, num_samples=0, max_new_tokens=1, echo=True, num_tops=2, **changes)


def in_parts(engine, size):
    """The engine, which reads so many tokens of such prompts in a pass."""
    engine._batch._max_rows = size
    engine._cache.told_tokens = size
    return engine


@pytest.mark.parametrize("size", [256, 7, 1], ids=["whole", "in parts", "token by token"])
@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "hybrid"])
async def test_prompts_that_are_read_together_and_in_parts(architecture, size):
    model = random_model(architecture)
    plain = request_for(PROMPTS[1], num_samples=2)
    async with running(in_parts(engine_of(model), size)) as worker:
        alone = await worker.generate(plain)
        *told, beside = await generated(worker, [*map(echoed, PROMPTS), plain])

    assert [one.token_ids for one in beside.samples] == [one.token_ids for one in alone.samples]
    for prompt, generation in zip(PROMPTS, told, strict=True):
        ids = TOKENIZER(prompt).input_ids
        logprobs, _ = teacher_forced(model, ids[:1], ids[1:])
        first, *rest = generation.prompt
        assert (first.text, first.logprob, first.tops) == ("<s>", None, ())
        assert "".join(token.text for token in rest) == prompt
        np.testing.assert_allclose([token.logprob for token in rest], logprobs, atol=1e-4)
        for place, token in enumerate(rest, start=1):
            best = next_logprobs(model, ids[:place]).max().item()
            assert token.tops[0][1] == pytest.approx(best, abs=1e-4)
            assert token.logprob in [logprob for _, logprob in token.tops]
            assert len(token.tops) in (2, 3)
        best = next_logprobs(model, ids).argmax().item()
        assert generation.answer.token_ids == (best,)


async def test_nothing_is_written_behind_an_answer_that_is_given_as_empty():
    given = GivenAnswer("", append_eos=False)
    async with running(engine_of(random_model("llama"))) as worker:
        generation = await worker.generate(echoed("Hello", answer=given))
    assert (generation.answer.text, generation.answer.num_tokens) == ("", 0)
    assert len(generation.prompt) == generation.prompt_tokens == 6


@pytest.mark.parametrize("architecture", ["llama", "sliding"])
def test_prompts_that_differ_in_their_last_token_alone_are_read_as_one(architecture):
    model = random_model(architecture)
    engine, passes = engine_of(model), []
    texts = ["Hello A", "Hello B", "Other C", "Hello C"]
    alone = [read_at_once(engine, text)[0] for text in texts]
    model.register_forward_pre_hook(
        lambda _, args, kwargs: passes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    together = read_at_once(engine, *texts)
    assert passes == [(2, 8), (3, 1)]
    for generation, expected in zip(together, alone, strict=True):
        assert generation.answer.token_ids == expected.answer.token_ids
        tokens = [*generation.prompt, *generation.answer.tokens]
        wanted = [*expected.prompt, *expected.answer.tokens]
        assert [token.text for token in tokens] == [token.text for token in wanted]
        for token, other in zip(tokens[1:], wanted[1:], strict=True):
            assert token.logprob == pytest.approx(other.logprob, abs=1e-5)


async def test_a_number_that_is_none_within_a_prompt_fails_its_request_only():
    model = random_model("llama")

    def hook(_, args, kwargs, output):
        output.logits[kwargs["input_ids"] == TOKENIZER("~").input_ids[-1]] = math.nan
        return output

    model.register_forward_hook(hook, with_kwargs=True)
    async with running(engine_of(model)) as worker:
        requests = list(map(echoed, ("Hello", "a~b", "World")))
        good, bad, other = await generated(worker, requests, return_exceptions=True)
    assert isinstance(bad, InvalidLogits)
    assert len(good.prompt) == len(other.prompt) == 6


def test_a_pass_that_fails_in_the_middle_leaves_nothing_behind(monkeypatch):
    engine = engine_of(random_model("llama"))
    note, noted = engine._cache._note, []

    def failing(row, place, logits):
        noted.append(row)
        if len(noted) == 2:
            raise RuntimeError("out of memory")
        note(row, place, logits)

    expected = read_at_once(engine, "Hello", "World")
    monkeypatch.setattr(engine._cache, "_note", failing)
    again = read_at_once(engine, "Hello", "World")
    assert len(noted) == 4, "both were read anew, each alone"
    assert [one.prompt for one in again] == [one.prompt for one in expected]
    assert not any(token.tops for one in again for token in one.prompt)


def read_at_once(engine, *prompts):
    """What the engine makes of prompts that join in one step."""
    jobs = [engine.prepare(replace(echoed(prompt), num_tops=0)) for prompt in prompts]
    ended = engine.step(jobs).finished
    while len(ended) < len(jobs):
        ended += engine.step([]).finished
    return [engine.generation(job) for job in jobs]
