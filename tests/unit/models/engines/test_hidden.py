"""Hidden means against Hugging Face's `output_hidden_states`.

Requests run alone, batched, joined, in chunks, and with one token.
"""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch

from models.engines import inflight
from models.engines.hidden import decoder_blocks
from models.engines.rows import RowCache
from models.errors import InvalidRequest
from models.records import GenerationRequest, GivenAnswer, SamplingParams
from models.units.parts import split
from tests.tiny_models import byte_tokenizer, random_model
from tests.unit.models.engines.tiny_engines import (
    ARCHITECTURES,
    PROMPTS,
    engine_of,
    generated,
    running,
)

pytestmark = pytest.mark.anyio

LAYERS = (1, 2)
ALL_ARCHITECTURES = [*ARCHITECTURES, "hybrid"]


def light(prompt, *, max_new_tokens=24, layers=LAYERS):
    """What light mode asks the engine for."""
    sampling = SamplingParams(max_new_tokens=max_new_tokens)
    return GenerationRequest(
        prompt=prompt,
        sampling=sampling,
        statistics=frozenset({"answer_token_logprobs"}),
        hidden_layers=layers,
    )


def full(request):
    """The same with samples, as a probe's training set is collected."""
    sampling = replace(request.sampling, num_samples=4, seed=1)
    statistics = frozenset({"answer_token_logprobs", "sample_texts"})
    return replace(request, sampling=sampling, statistics=statistics)


@torch.inference_mode()
def reference(model, prompt_ids, token_ids, layers=LAYERS):
    """Mean over positions whose input is y_1 … y_{T-1}; for T = 1 the prompt's last position."""
    ids = torch.tensor([list(prompt_ids) + list(token_ids)])
    states = model(ids, output_hidden_states=True).hidden_states
    first = len(prompt_ids) if len(token_ids) > 1 else len(prompt_ids) - 1
    end = max(first + 1, ids.shape[1] - 1)
    return np.stack([states[layer][0, first:end].mean(0).numpy() for layer in layers])


@pytest.mark.parametrize("architecture", ALL_ARCHITECTURES)
async def test_the_mean_is_that_of_hugging_faces_hidden_states(architecture):
    model, tokenizer = random_model(architecture), byte_tokenizer()
    async with running(engine_of(model)) as worker:
        generations = await generated(worker, map(light, PROMPTS))

    for prompt, generation in zip(PROMPTS, generations, strict=True):
        expected = reference(model, tokenizer(prompt).input_ids, generation.answer.token_ids)
        np.testing.assert_allclose(generation.answer_hidden_mean, expected, atol=1e-5)


@pytest.mark.parametrize("architecture", ALL_ARCHITECTURES)
@pytest.mark.parametrize(
    "limits",
    [{}, {"max_rows": 3}, {"max_cache_tokens": 300}],
    ids=["all join", "in chunks", "few rows"],
)
async def test_the_mean_of_an_answer_is_the_same_alone_with_samples_and_with_others_joining(
    architecture, limits
):
    model = random_model(architecture)
    requests = [light(prompt, max_new_tokens=8 + 4 * i) for i, prompt in enumerate(PROMPTS)]
    async with running(engine_of(model)) as worker:
        alone = [await worker.generate(request) for request in requests]

    async def staggered(worker, i):
        for _ in range(3 * i):
            await asyncio.sleep(0.001)
        return await worker.generate(full(requests[i]) if i % 2 else requests[i])

    async with running(engine_of(model, **limits)) as worker:
        joined = await asyncio.gather(*[staggered(worker, i) for i in range(len(requests))])

    for one, other in zip(alone, joined, strict=True):
        assert one.answer.token_ids == other.answer.token_ids
        np.testing.assert_allclose(one.answer_hidden_mean, other.answer_hidden_mean, atol=1e-5)


@pytest.mark.parametrize("architecture", ALL_ARCHITECTURES)
async def test_a_one_token_answer_has_the_prefills_last_state(architecture):
    model, tokenizer = random_model(architecture), byte_tokenizer()
    requests = [light(prompt, max_new_tokens=1) for prompt in PROMPTS]
    async with running(engine_of(model)) as worker:
        generations = await generated(worker, requests)

    for prompt, generation in zip(PROMPTS, generations, strict=True):
        assert generation.answer.num_tokens == len(generation.answer.token_ids) == 1
        expected = reference(model, tokenizer(prompt).input_ids, generation.answer.token_ids)
        np.testing.assert_allclose(generation.answer_hidden_mean, expected, atol=1e-5)


async def test_only_the_asked_blocks_are_hooked_and_requests_without_layers_have_no_mean():
    model = random_model("llama")
    async with running(engine_of(model)) as worker:
        with_layer = await worker.generate(light("Hi", layers=(2,)))
        without = await worker.generate(light("Hi", layers=()))

    assert with_layer.answer_hidden_mean.shape == (1, 48)
    assert without.answer_hidden_mean is None
    assert [len(block._forward_hooks) for block in decoder_blocks(model)] == [0, 1, 0]


@pytest.mark.parametrize("layer", [0, 3, -1], ids=["embeddings", "normalised last", "negative"])
async def test_layers_that_no_block_gives_are_refused(layer):
    async with running(engine_of(random_model("llama"))) as worker:
        with pytest.raises(InvalidRequest, match="between 1 and 2"):
            await worker.generate(light("Hi", layers=(layer,)))


async def test_a_given_answer_has_no_mean():
    async with running(engine_of(random_model("llama"))) as worker:
        with pytest.raises(InvalidRequest, match="greedy"):
            await worker.generate(replace(light("Hi"), answer=GivenAnswer("It")))


def test_no_state_is_kept_but_the_latest_of_the_watched_layers():
    cache = RowCache(random_model("llama"))
    cache.tap.watch((2,))
    with torch.inference_mode():
        prefix = cache.prefill([[5, 6, 7, 8]])[0]
        cache.join([prefix, prefix])
        for token in range(5, 25):
            cache.forward([token, token])

    kept = cache.tap.state((2,), 1)
    assert kept.shape == (1, 48)
    assert cache.tap.states[2].shape == (2, 48)
    assert cache.tap.states[2].untyped_storage().nbytes() == 2 * 48 * 4


def last_of(prompt):
    """What is asked for a prompt's state alone."""
    return replace(light(prompt, layers=()), prompt_layer=LAYERS[1])


@pytest.mark.parametrize("architecture", ALL_ARCHITECTURES)
async def test_a_prompts_state_is_that_of_its_last_token_whatever_comes_behind_it(architecture):
    model, tokenizer = random_model(architecture), byte_tokenizer()
    given = replace(last_of(PROMPTS[0]), answer=GivenAnswer("Paris"))
    sampled = [full(last_of(prompt)) for prompt in PROMPTS]
    async with running(engine_of(model)) as worker:
        alone = await worker.generate(last_of(PROMPTS[0]))
        together = await generated(worker, sampled)
        beside_a_mean = await worker.generate(replace(last_of(PROMPTS[0]), hidden_layers=LAYERS))
        scored = await worker.generate(given)

    expected = [reference(model, tokenizer(one).input_ids, [0])[1] for one in PROMPTS]
    for one in (alone, beside_a_mean, scored):
        np.testing.assert_allclose(one.prompt_state, expected[0], atol=1e-5)
    for one, state in zip(together, expected, strict=True):
        np.testing.assert_allclose(one.prompt_state, state, atol=1e-5)
    assert alone.answer_hidden_mean is None


def by_sentence(prompt):
    """What a probe of sentences asks the engine for."""
    statistics = frozenset({"answer_token_logprobs", "answer_token_texts"})
    return replace(light(prompt, max_new_tokens=48), statistics=statistics, by_sentence=True)


@torch.inference_mode()
def states_of(model, prompt_ids, token_ids):
    """(T - 1, layers, d) after the steps whose input is y_1 … y_{T-1}."""
    ids = torch.tensor([list(prompt_ids) + list(token_ids)])
    states = model(ids, output_hidden_states=True).hidden_states
    kept = [states[layer][0, len(prompt_ids) : -1] for layer in LAYERS]
    return torch.stack(kept, dim=1).numpy()


@pytest.mark.parametrize("architecture", ALL_ARCHITECTURES)
async def test_a_sentence_has_the_mean_of_the_steps_whose_input_are_its_tokens(architecture):
    model, tokenizer = random_model(architecture), byte_tokenizer()
    async with running(engine_of(model)) as worker:
        generations = await generated(worker, map(by_sentence, PROMPTS))

    num_sentences = 0
    for prompt, generation in zip(PROMPTS, generations, strict=True):
        answer, means = generation.answer, dict(generation.sentence_hidden_means)
        states = states_of(model, tokenizer(prompt).input_ids, answer.token_ids)
        for unit in split(answer, "sentences").units:
            read = unit.tokens[unit.tokens < len(states)]
            if len(read):
                num_sentences += 1
                expected = states[read].mean(axis=0)
                np.testing.assert_allclose(means.pop(unit.spans[0]), expected, atol=1e-5)
        assert means == {}
        np.testing.assert_allclose(generation.answer_hidden_mean, states.mean(axis=0), atol=1e-5)
    assert num_sentences >= 1


async def test_sentences_behind_the_tokens_whose_states_are_kept_have_no_mean(monkeypatch):
    model = random_model("llama")
    async with running(engine_of(model)) as worker:
        whole = await worker.generate(by_sentence(PROMPTS[0]))
        monkeypatch.setattr(inflight, "MAX_KEPT", 3)
        cut = await worker.generate(by_sentence(PROMPTS[0]))
        none = await worker.generate(light(PROMPTS[0], max_new_tokens=48))

    kept = [unit.spans[0] for unit in split(whole.answer, "sentences").units if unit.tokens[0] < 3]
    assert list(dict(cut.sentence_hidden_means)) == kept
    np.testing.assert_array_equal(cut.answer_hidden_mean, whole.answer_hidden_mean)
    assert none.sentence_hidden_means == ()
