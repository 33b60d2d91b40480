"""Exact entropies, and columns put among top log-probs."""

from types import SimpleNamespace

import pytest
import torch
from cocoa_vllm.columns import FIRST_ID, entropies, insert


def expected(logits):
    logprobs = logits.double().log_softmax(-1)
    return -(logprobs.exp() * logprobs.clamp(min=-1e300)).sum(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("block", [7, 1000, 32_768])
def test_entropies_are_those_of_the_whole_vocabulary(dtype, block):
    logits = (torch.randn(5, 1000, generator=torch.Generator().manual_seed(0)) * 8).to(dtype)
    rows = torch.tensor([3, 0])
    before = logits.clone()
    found = entropies(logits, rows, block=block)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected(logits[rows]), atol=2e-6, rtol=2e-6)
    assert logits.equal(before)


def test_a_sure_token_has_no_entropy_and_equal_ones_have_all():
    logits = torch.zeros(3, 64)
    logits[1, 5] = 1000.0
    logits[2, 1:] = -torch.inf
    found = entropies(logits, torch.arange(3), block=16)
    torch.testing.assert_close(found, torch.tensor([64.0, 1.0, 1.0]).log())


def test_logits_without_a_distribution_have_no_entropy():
    logits = torch.zeros(2, 8)
    logits[0, 3], logits[1] = torch.nan, -torch.inf
    assert not entropies(logits, torch.arange(2)).isfinite().any()


def step(rows=3, width=5):
    ids = torch.arange(rows * width, dtype=torch.int32).reshape(rows, width)
    return SimpleNamespace(logprob_token_ids=ids, logprobs=-ids.float())


def test_columns_stand_behind_the_sampled_token_of_their_rows_only():
    tensors = step()
    insert(tensors, torch.tensor([2, 0]), torch.tensor([[0.5, 99.0], [0.25, 1.0]]))
    assert tensors.logprob_token_ids.tolist() == [
        [0, FIRST_ID, FIRST_ID + 1, 1, 2],
        [5, 6, 7, 8, 9],
        [10, FIRST_ID, FIRST_ID + 1, 11, 12],
    ]
    assert tensors.logprobs[0].tolist() == [0.0, 0.25, 1.0, -1.0, -2.0]
    assert tensors.logprobs[2].tolist() == [-10.0, 0.5, 99.0, -11.0, -12.0]


@pytest.mark.parametrize("width", [1, 2])
def test_a_narrow_step_takes_as_many_columns_as_it_holds(width):
    tensors = step(rows=1, width=width)
    insert(tensors, torch.tensor([0]), torch.tensor([[0.5, 99.0]]))
    assert tensors.logprobs.tolist() == [[0.0, 0.5][:width]]


def test_log_probs_of_the_whole_vocabulary_are_left_alone():
    tensors = SimpleNamespace(logprob_token_ids=torch.empty(0), logprobs=torch.zeros(1, 9))
    insert(tensors, torch.tensor([0]), torch.tensor([[0.5]]))
    assert not tensors.logprobs.any()
