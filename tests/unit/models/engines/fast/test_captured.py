"""Steps over filled-up buffers give the numbers of those over a cache that grows.

On a processor they are computed one operation after another; `make test-gpu` holds the graphs of a
GPU to the same.
"""

import copy
import random

import pytest
import torch

from models.engines import rows
from models.engines.fast import captured
from models.engines.jobs import Prefix
from models.engines.rows import RowCache
from tests.tiny_models import random_model


def two_caches(monkeypatch, model):
    """A cache whose steps are captured, and one of the same weights whose steps are not."""
    plain = RowCache(copy.deepcopy(model))
    monkeypatch.setattr(rows, "is_captured", lambda _: True)
    return RowCache(model), plain


def prompts_of(source):
    lengths = source.choices([3, 30, 90], k=source.choice([1, 2, 5]))
    return [[source.randrange(5, 100) for _ in range(length)] for length in lengths]


@torch.inference_mode()
def numbers_of(caches, seed):
    """Logits and states, of each cache, while rows join, branch and leave."""
    source, count = random.Random(seed), 0
    for cache in caches:
        cache.clear()
    for step in range(45):
        if step % 9 == 0:
            prompts = prompts_of(source)
            for cache in caches:
                cache.join(cache.prefill(prompts))
            count += len(prompts)
        if step % 5 == 4:
            kept = [0, *source.sample(range(count), source.randint(1, count))]
            for cache in caches:
                cache.keep(kept)
            count = len(kept)
        tokens = [source.randrange(5, 100) for _ in range(count)]
        for cache in caches:
            cache.forward(tokens)
            yield cache.logits, cache.tap.state((1,), count - 1)


@pytest.mark.parametrize("first_tokens", [8192, 64], ids=["roomy", "too small at first"])
@pytest.mark.parametrize("name", ["llama", "qwen2", "sliding"])
def test_steps_in_buffers_are_those_of_a_cache_that_grows(name, first_tokens, monkeypatch):
    monkeypatch.setattr(captured, "_FIRST_TOKENS", first_tokens)
    monkeypatch.setattr(captured, "_MOST_GRAPHS", 4)
    caches = two_caches(monkeypatch, random_model(name))
    caches[0].tap.watch((1,))
    caches[1].tap.watch((1,))

    for seed in range(4):
        numbers = numbers_of(caches, seed)
        for ours, theirs in zip(numbers, numbers, strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    assert 0 < len(caches[0]._captured._sizes) <= 4


@torch.inference_mode()
def test_what_is_not_finite_stays_in_its_row(monkeypatch):
    ours, theirs = two_caches(monkeypatch, random_model("llama"))
    (poisoned,) = ours.prefill([[5] * 20])  # longer than what comes after it
    for layer in poisoned.cache.layers:
        layer.values.fill_(torch.nan)
    ours.join([Prefix(poisoned.cache, 20, poisoned.logits)] * 2)
    ours.forward([8, 8])
    assert ours.logits.isnan().all()
    ours.clear()

    for cache in (ours, theirs):
        cache.join(cache.prefill([[9, 10], [11, 12, 13]]))
        cache.forward([14, 15])
    torch.testing.assert_close(ours.logits, theirs.logits, atol=1e-5, rtol=1e-5)


def test_rows_that_are_too_many_for_the_buffers_decode_without_them(monkeypatch):
    monkeypatch.setattr(captured, "_MOST_ROWS", 2)
    caches = two_caches(monkeypatch, random_model("llama"))
    caches[0].tap.watch((1,))
    caches[1].tap.watch((1,))

    numbers = numbers_of(caches, 5)
    for ours, theirs in zip(numbers, numbers, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
