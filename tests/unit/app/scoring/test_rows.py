"""Samples of the same tokens have the same log-probs."""

from itertools import permutations

import numpy as np
import pytest

from app.scoring.rows import evened
from models.records import Reasoning, Sequence


def sample(text, logprobs, ids=None, **more):
    return Sequence(
        text, text.strip(), len(logprobs), "stop", ids, np.array(logprobs, dtype=np.float64), **more
    )


THOUGHT = Reasoning("so", 3, is_finished=True)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([sample("a", [-0.41], (1,)), sample("a", [-0.4], (1,))], [-0.4, -0.4]),
        ([sample("a", [-0.41], (1,)), sample("a", [-0.4], (2,))], [-0.41, -0.4]),
        ([sample("a", [-0.41]), sample("a", [-0.4])], [-0.4, -0.4]),
        ([sample("a", [-5.0]), sample("a", [-0.5])], [-5.0, -0.5]),
        ([sample("a", [-0.41]), sample(" a", [-0.4])], [-0.41, -0.4]),
        ([sample("a", [-0.2, -0.2]), sample("a", [-0.4])], [-0.4, -0.4]),
        ([sample("a", [-0.41], (1,), reasoning=THOUGHT), sample("a", [-0.4], (1,))], [-0.41, -0.4]),
    ],
    ids=[
        "the same ids, apart by rounding",
        "other ids",
        "no ids, close",
        "no ids, apart",
        "another text",
        "another number of tokens",
        "behind a reasoning",
    ],
)
def test_only_the_same_tokens_are_evened_in_every_order(samples, expected):
    for order in permutations(range(len(samples))):
        found = evened([samples[i] for i in order])
        sums = [float(one.token_logprobs.sum()) for one in found]
        assert sums == pytest.approx([expected[i] for i in order])
        assert [one.text for one in found] == [samples[i].text for i in order]


def test_samples_without_log_probs_stay_as_they_are():
    samples = (Sequence("a", "a", 1, "stop"), Sequence("a", "a", 1, "stop"))

    assert evened(samples) == samples
