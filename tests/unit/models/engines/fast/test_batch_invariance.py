"""In bfloat16 on a processor, a row's numbers are the same bits whatever other rows there are."""

import pytest
import torch
import torch.nn.functional as F

from models.engines import rows
from models.engines.fast.attention import Beside
from models.engines.fast.products import Product, may_pack
from models.engines.rows import RowCache
from tests.unit.models.engines.fast.test_lean import MODELS, model_of
from tests.unit.models.engines.tiny_engines import (
    PROMPTS,
    engine_of,
    generated,
    request_for,
    running,
    sequences,
)

pytestmark = pytest.mark.anyio

LENGTHS = (3, 17, 70, 12, 40, 33)
IDS = [[5 + (7 * place + length) % 90 for place in range(length)] for length in LENGTHS]
EVERY = range(len(IDS))


def model_in_bfloat16(name):
    return model_of(MODELS[name]).to(torch.bfloat16)


@torch.inference_mode()
def logits_of(cache, groups, num_steps=5):
    """Logits by prompt, of prompts that join in groups, a step apart, each with two rows of it.

    The rows take tokens by their prompt and step alone.
    """
    found, members = {}, []
    cache.clear()

    def step():
        tokens = []
        for row, prompt in enumerate(members):
            found.setdefault(prompt, []).append(cache.logits[row])
            tokens.append(5 + (11 * len(found[prompt]) + prompt) % 90)
        cache.forward(tokens)

    for group in groups:
        if members:
            step()
        cache.join(cache.prefill([IDS[prompt] for prompt in group]))
        members += group
    for _ in range(num_steps):
        step()
    return found


@pytest.mark.parametrize("shared_from", [16, 1000])
@pytest.mark.parametrize("name", MODELS)
def test_logits_are_the_same_bits_alone_and_beside_others(name, shared_from, monkeypatch):
    monkeypatch.setattr(rows, "_SHARED_FROM", shared_from)
    cache = RowCache(model_in_bfloat16(name))
    if not may_pack(cache.model):  # the processor has no instructions for bfloat16
        assert not cache._lean._is_batch_invariant
        return

    alone = {}
    for prompt in EVERY:
        alone |= logits_of(cache, [[prompt]])
    for groups in ([[*EVERY]], [[0, 2], [1], [3, 5], [4]], [[4], [5, 0], [2, 1, 3]]):
        for prompt, logits in logits_of(cache, groups).items():
            for ours, theirs in zip(logits, alone[prompt], strict=False):
                assert torch.equal(ours, theirs)


@torch.inference_mode()
def test_a_prompt_read_in_parts_gives_the_same_bits(monkeypatch):
    monkeypatch.setattr("models.engines.fast.attention._MOST_SCORES", 1000)
    cache = RowCache(model_in_bfloat16("qwen2"))
    if not may_pack(cache.model):
        assert not cache._lean._is_batch_invariant
        return

    (whole,) = cache.prefill([IDS[2]])
    for cut in (1, 15, 16, 69):
        (before,) = cache.prefill([IDS[2][:cut]])
        (read,) = cache.prefill([IDS[2][cut:]], before)
        assert torch.equal(read.logits, whole.logits)


@pytest.mark.parametrize("max_rows", [7, 64])
async def test_answers_and_samples_are_the_same_alone_and_beside_others(max_rows):
    model = model_in_bfloat16("llama")
    engine = engine_of(model, max_rows=max_rows)
    requests = [request_for(prompt, seed=seed) for seed, prompt in enumerate(PROMPTS)]

    async with running(engine) as worker:
        alone = [await worker.generate(request) for request in requests]
        joined = await generated(worker, requests)

    if not may_pack(model):
        assert not engine._cache._lean._is_batch_invariant
        return
    for one, other in zip(alone, joined, strict=True):
        for ours, theirs in zip(sequences(one), sequences(other), strict=True):
            assert ours.text == theirs.text
            assert ours.token_logprobs.tolist() == theirs.token_logprobs.tolist()


def test_scores_of_large_keys_are_not_rounded():
    """As those of Qwen 2.5 0.5B, whose keys have biases of hundreds."""
    torch.manual_seed(0)
    queries, keys, values = torch.randn(3, 1, 2, 6, 16).unbind()
    keys = keys + 300
    of_bfloat16 = [one.to(torch.bfloat16) for one in (queries, keys, values)]
    first, positions = torch.zeros(1, dtype=torch.long), torch.arange(6)[None]
    attend = Beside.of_rows(positions, 6, first, None, 2, None, None)
    seen = attend(*of_bfloat16, 0).float()
    queries, keys, values = (one.float() for one in of_bfloat16)
    expected = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    torch.testing.assert_close(seen, expected, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("has_amx", [True, False], ids=["with AMX", "without AMX"])
def test_rows_of_a_step_and_those_of_a_text_are_multiplied_in_blocks_of_one_order(
    has_amx, monkeypatch
):
    met = []

    def multiplied(_, states):
        met.append(states.shape[:-1].numel())
        return states

    monkeypatch.setattr(Product, "_multiplied", multiplied)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_tile": has_amx})
    product = Product(4, None, None)
    for shape in ((1, 1), (14, 1), (70, 1), (1, 14), (2, 70)):
        states = torch.randn(*shape, 4).bfloat16()
        assert torch.equal(product(states), states)

    assert met == ([2, 16, 32, 32, 6, 64, 64, 64, 64] if has_amx else [2, 16, 128, 16, 256])
