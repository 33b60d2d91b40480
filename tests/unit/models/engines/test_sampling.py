"""The sampling law, drawn by inverse transform, against its definition."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.distributions import Categorical
from torch.utils._python_dispatch import TorchDispatchMode

from models.engines import sampling as sampling_module
from models.engines.jobs import Row
from models.engines.sampling import (
    Law,
    StepPlan,
    draw,
    next_tokens,
    norms_and_entropies,
    plan_step,
    row_uniforms,
    uniform_of,
)
from models.records import GenerationRequest, SamplingParams
from tests.tiny_models import random_model
from tests.unit.models.engines.tiny_engines import ALL, engine_of

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0, -2.0, 0.5]])


FIRST = torch.tensor([0])


def law(*, count=1, temperature=1.0, top_k=0, top_p=1.0):
    return Law(
        torch.full((count,), temperature), torch.full((count,), top_p, dtype=torch.float64), top_k
    )


def frequencies(n=20_000, **kwargs):
    uniforms = torch.tensor((np.arange(n) + 0.5) / n)
    tokens = draw(LOGITS, law(count=n, **kwargs), torch.zeros(n, dtype=torch.long), uniforms)
    return np.bincount(tokens.numpy(), minlength=6) / n


def expected(*, temperature=1.0, top_k=0, top_p=1.0):
    """The truncated law as it is defined.

    Temperature comes first, then top-k, then the smallest nucleus of mass top_p.
    """
    z = LOGITS[0].numpy().astype(float) / temperature
    order = np.argsort(-z)[: top_k or None]
    p = np.exp(z[order] - z[order].max())
    p /= p.sum()
    keep = np.cumsum(p) - p < top_p
    law_ = np.zeros(6)
    law_[order[keep]] = p[keep] / p[keep].sum()
    return law_


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"temperature": 0.5},
        {"temperature": 2.0},
        {"top_k": 2},
        {"top_p": 0.7},
        {"top_k": 4, "top_p": 0.8},
    ],
    ids=str,
)
def test_draws_follow_the_truncated_law(params):
    np.testing.assert_allclose(frequencies(**params), expected(**params), atol=1e-4)


@pytest.mark.parametrize("uniform", [0.0, 1.0 - 2**-53], ids=["least", "greatest"])
def test_extreme_uniforms_draw_a_token_with_mass(uniform):
    token = draw(LOGITS, law(top_p=0.5), FIRST, torch.tensor([uniform], dtype=torch.float64))

    assert expected(top_p=0.5)[int(token[0])] > 0


@pytest.mark.parametrize("masked", [(), (0, 2)], ids=["all", "masked"])
def test_norms_and_entropies_are_those_of_the_whole_vocabulary(masked, monkeypatch):
    monkeypatch.setattr(sampling_module, "_CPU_PARTS", 1)
    monkeypatch.setattr(sampling_module, "_BLOCK_BYTES", 2 * 8 * 50)  # two rows
    logits = 5 * torch.randn(5, 50, generator=torch.Generator().manual_seed(1))
    logits[:, masked] = -torch.inf
    exact = logits.double()
    norms, entropies = norms_and_entropies(logits, logits.amax(-1), {0, 4})

    torch.testing.assert_close(norms, exact.logsumexp(-1), rtol=0, atol=1e-6)
    expected = Categorical(logits=exact[[0, 4]]).entropy()
    torch.testing.assert_close(entropies[[0, 4]], expected, rtol=0, atol=1e-6)
    assert entropies[2].isnan()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf], ids=str)
def test_the_best_logit_shows_a_bad_row(bad):
    logits = LOGITS.clone()
    logits[0, 4] = bad
    plan = StepPlan(greedy=FIRST, laws=[], has_statistics=False, entropies=[])
    *_, (best_logit,) = next_tokens(logits, [0], plan)

    assert not np.isfinite(best_logit)


class Largest(TorchDispatchMode):
    """Notes the bytes of the largest tensor that is made within, views of a known one aside."""

    def __init__(self, known):
        super().__init__()
        self._known = known.untyped_storage().data_ptr()
        self.num_bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for one in found if isinstance(found, tuple) else [found]:
            if isinstance(one, torch.Tensor):
                storage = one.untyped_storage()
                if storage.data_ptr() != self._known:
                    self.num_bytes = max(self.num_bytes, storage.nbytes())
        return found


def step(num_requests, *, dtype=torch.float32):
    """Rows of requests under several laws, their logits (slots, 512) and slots."""
    rows, slots = [], []
    engine = engine_of(random_model("llama"))
    for i in range(num_requests):
        sampling = SamplingParams(num_samples=3, max_new_tokens=2, seed=i, top_k=[0, 5, 50][i % 3])
        num_tops = 4 * (i % 2)
        job = engine.prepare(
            GenerationRequest("a", sampling=sampling, statistics=ALL, num_tops=num_tops)
        )
        fields = frozenset({"token_logprobs"} | ({"token_entropies"} if i % 4 else set()))
        for index in range(4):
            rows.append(Row(job, index, fields))
            slots.append(2 * i + (index > 1))
    torch.manual_seed(0)
    return rows, torch.randn(2 * num_requests, 512).to(dtype), slots


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_computed_in_blocks_is_what_is_computed_at_once(monkeypatch, dtype):
    found = []
    for num_bytes in (1 << 30, 1, 8 * 512 * 3):
        monkeypatch.setattr(sampling_module, "_BLOCK_BYTES", num_bytes)
        rows, logits, slots = step(9, dtype=dtype)
        found.append(
            (
                *next_tokens(logits, slots, plan_step(rows, logits.device)),
                [row.tops for row in rows],
            )
        )

    whole, *in_blocks = found
    for other in in_blocks:
        assert whole[0] == other[0]
        np.testing.assert_allclose(whole[1:4], other[1:4], atol=1e-6)
        assert whole[4] == other[4]
    exact = logits.float().log_softmax(-1)
    np.testing.assert_allclose(whole[1], exact[slots, whole[0]], atol=1e-6)
    assert all(
        np.isfinite(whole[2][i]) == ("token_entropies" in row.fields) for i, row in enumerate(rows)
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_log_probs_are_those_of_float64_over_a_large_vocabulary(dtype):
    rows, _, slots = step(2)
    logits = (4.0 * torch.randn(4, 151_936)).to(dtype)
    tokens, logprobs, *_ = next_tokens(logits, slots, plan_step(rows, logits.device))
    exact = logits.double().log_softmax(-1)
    np.testing.assert_allclose(logprobs, exact[slots, tokens], atol=6e-8, rtol=0)
    for slot, row, token, logprob in zip(slots, rows, tokens, logprobs, strict=True):
        for place in row.tops:
            assert dict(place).get(token, logprob) == logprob
            for likeliest, value in place:
                assert value == pytest.approx(exact[slot, likeliest].item(), abs=6e-8)


def test_nothing_beside_the_logits_is_as_large_as_they_are(monkeypatch):
    rows, logits, slots = step(60)
    most = 48 * 512 * 2
    monkeypatch.setattr(sampling_module, "_BLOCK_BYTES", most)
    plan = plan_step(rows, logits.device)
    with Largest(logits) as largest:
        next_tokens(logits, slots, plan)

    assert largest.num_bytes <= most < logits.nbytes


@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1])
def test_each_row_draws_from_a_philox_stream_of_its_own(seed):
    key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    expected = []
    for i in (2**64 - 1, 0, 1, 2, 3):  # the answer, and four samples
        stream = np.random.Philox(key=key, counter=np.array([0, 0, i, 0], np.uint64))
        expected.append(np.random.Generator(stream).random(512))
    job = SimpleNamespace(seed=seed, uniforms=row_uniforms(seed, 5))
    for index, place in [(4, 3), (0, 256), (1, 511), (2, 255)]:  # some are skipped, as tags are
        row = SimpleNamespace(job=job, index=index, token_ids=[0] * place)
        assert uniform_of(row) == expected[index][place]
    np.testing.assert_array_equal(job.uniforms, expected)
