"""Requests that decode together: what they share, and the limits they keep to."""

import asyncio

import numpy as np
import pytest

from tests.tiny_models import byte_tokenizer, random_model
from tests.unit.models.engines.tiny_engines import (
    ARCHITECTURES,
    PROMPTS,
    engine_of,
    generated,
    next_logprobs,
    request_for,
    running,
    sequences,
)

pytestmark = pytest.mark.anyio


def num_common(a, b):
    """Tokens up to the first in which two sequences differ."""
    for i, (x, y) in enumerate(zip(a.token_ids, b.token_ids, strict=False)):
        if x != y:
            return i
    return len(a.token_ids)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    "limits",
    [{}, {"max_rows": 3}, {"max_cache_tokens": 300}],
    ids=["all join", "rows enter in chunks", "cache budget lets few rows in"],
)
async def test_joined_equals_alone(architecture, limits):
    model, tokenizer = random_model(architecture), byte_tokenizer()
    requests = []
    for i, prompt in enumerate(PROMPTS):
        requests.append(request_for(prompt, max_new_tokens=8 + 8 * i, seed=i))
    async with running(engine_of(model)) as worker:
        alone = [await worker.generate(request) for request in requests]

    async def staggered(worker, i):
        for _ in range(3 * i):
            await asyncio.sleep(0.001)
        return await worker.generate(requests[i])

    async with running(engine_of(model, **limits)) as worker:
        joined = await asyncio.gather(*[staggered(worker, i) for i in range(len(requests))])

    for prompt, one, other in zip(PROMPTS, alone, joined, strict=True):
        for a, b in zip(sequences(one), sequences(other), strict=True):
            end = num_common(a, b)
            np.testing.assert_allclose(a.token_logprobs[:end], b.token_logprobs[:end], atol=1e-4)
            if end < len(a.token_ids):  # allowed only where the two best tokens are all but tied
                prompt_ids = tokenizer(prompt).input_ids
                best = next_logprobs(model, [*prompt_ids, *a.token_ids[:end]]).topk(2).values
                assert best[0] - best[1] < 1e-3


async def test_one_prefill_a_prompt_and_rows_with_the_same_tokens_share_a_cache_row():
    model = random_model("llama")
    shapes = []

    def record(_, args, kwargs):
        shapes.append(tuple(kwargs["input_ids"].shape))

    model.register_forward_pre_hook(record, with_kwargs=True)
    async with running(engine_of(model)) as worker:
        generation = await worker.generate(request_for("Hello", num_samples=10, max_new_tokens=6))

    prefills = [shape for shape in shapes if shape[1] > 1]
    steps = [shape for shape in shapes if shape[1] == 1]
    assert prefills == [(1, 6)]
    texts = [sequence.token_ids for sequence in sequences(generation)]
    for t, (num_cache_rows, _) in enumerate(steps, start=1):
        unfinished = {ids[:t] for ids in texts if len(ids) > t}
        assert num_cache_rows == len(unfinished)


async def test_rows_never_exceed_the_limits_and_everyone_progresses():
    steps = []
    requests = []
    for i, prompt in enumerate(PROMPTS * 2):
        requests.append(request_for(prompt * 2, num_samples=10, seed=i))
    requests.append(request_for("one", num_samples=1))
    async with running(engine_of(random_model("llama"), max_rows=11), steps.append) as worker:
        generations = await generated(worker, requests)

    assert max(steps) <= 11
    assert steps[-1] == 0
    assert [len(generation.samples) for generation in generations] == [10] * 8 + [1]


async def test_cancelling_frees_the_rows_by_the_next_step():
    steps, decoding = [], asyncio.Event()

    def on_step(num_rows):
        steps.append(num_rows)
        if num_rows:
            decoding.set()

    model = random_model("llama")
    model.generation_config.eos_token_id = 2
    request = request_for("Long", num_samples=10, max_new_tokens=400)
    async with running(engine_of(model), on_step) as worker:
        long = asyncio.create_task(worker.generate(request))
        await decoding.wait()
        long.cancel()
        already = len(steps)
        await worker.generate(request_for("Short", num_samples=1, max_new_tokens=4))

    # One step may have been under way when the request was cancelled.
    assert max(steps) == 11
    assert max(steps[already + 1 :]) <= 2
