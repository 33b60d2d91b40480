"""The sampling law, drawn by inverse transform, against its definition."""

import numpy as np
import pytest
import torch

from models.engines.sampling import (
    Law,
    StepPlan,
    draw,
    entropies,
    next_tokens,
    sample_uniforms,
)

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0, -2.0, 0.5]])


FIRST = torch.tensor([0])


def law(*, count=1, temperature=1.0, top_k=0, top_p=1.0):
    return Law(
        torch.full((count,), temperature),
        torch.full((count,), top_p, dtype=torch.float64),
        top_k,
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


def test_statistics_ignore_the_truncation():
    reference = LOGITS.log_softmax(-1)

    assert float(entropies(LOGITS.log_softmax(-1))[0]) == pytest.approx(
        float(-(reference.exp() * reference).sum()), abs=1e-6
    )


def test_entropy_of_a_masked_vocabulary_is_finite():
    logits = torch.tensor([[0.0, 0.0, -torch.inf]])

    assert float(entropies(logits.log_softmax(-1))[0]) == pytest.approx(np.log(2), abs=1e-6)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf], ids=str)
def test_the_best_logit_shows_a_bad_row(bad):
    logits = LOGITS.clone()
    logits[0, 4] = bad
    plan = StepPlan(greedy=FIRST, laws=[], has_statistics=False, entropies=FIRST[:0])
    *_, (best_logit,) = next_tokens(logits, [0], plan)

    assert not np.isfinite(best_logit)


@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1])
def test_each_sample_draws_from_a_philox_stream_of_its_own(seed):
    key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    expected = []
    for i in range(5):
        stream = np.random.Philox(key=key, counter=[0, 0, i, 0])
        expected.append(np.random.Generator(stream).random(33))
    np.testing.assert_array_equal(sample_uniforms(seed, 5, 33), expected)
