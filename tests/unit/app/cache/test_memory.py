"""The cache in this process: what goes first, and when."""

import asyncio
import hashlib
import tracemalloc
from dataclasses import replace

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.cache.memory import MemoryCache
from app.cache.protocol import CacheConfig

CONFIG = CacheConfig(ttl_s=10, max_entry_bytes=1000, memory_bytes=4000)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def get(cache, *keys):
    return asyncio.run(cache.get_many(keys))


def full_cache():
    """Room for three such entries."""
    cache = MemoryCache(CONFIG)
    for key in "abc":
        cache.put({key: bytes(1000)})
    return cache


def test_the_entry_that_was_not_used_for_longest_goes_first():
    cache = full_cache()
    get(cache, "a")
    cache.put({"d": bytes(1000)})
    assert [value is not None for value in get(cache, *"abcd")] == [True, False, True, True]


def test_storing_an_entry_anew_counts_as_use():
    cache = full_cache()
    cache.put({"a": bytes(1000)})
    cache.put({"d": bytes(1000)})
    assert [value is not None for value in get(cache, *"abcd")] == [True, False, True, True]


def test_storing_an_entry_anew_frees_what_it_held():
    cache = full_cache()
    cache.put({"a": b"1"})
    cache.put({"d": bytes(700)})
    assert None not in get(cache, *"abcd")


def test_an_entry_is_there_until_its_time_to_live_has_passed_and_then_frees_its_bytes():
    clock = Clock()
    cache = MemoryCache(CONFIG, clock)
    cache.put({"a": b"1"})
    clock.now = 9.9
    assert get(cache, "a") == [b"1"]
    clock.now = 10
    assert get(cache, "a") == [None]
    assert cache.num_bytes == 0


def test_storing_an_entry_anew_renews_its_time_to_live():
    clock = Clock()
    cache = MemoryCache(CONFIG, clock)
    cache.put({"a": b"1"})
    clock.now = 9
    cache.put({"a": b"2"})
    clock.now = 18
    assert get(cache, "a") == [b"2"]


def test_being_used_does_not_renew_the_time_to_live():
    clock = Clock()
    cache = MemoryCache(CONFIG, clock)
    cache.put({"a": b"1"})
    clock.now = 9
    get(cache, "a")
    clock.now = 11
    assert get(cache, "a") == [None]


def test_without_memory_nothing_is_stored():
    cache = MemoryCache(replace(CONFIG, memory_bytes=0))
    cache.put({"a": b""})
    assert get(cache, "a") == [None]


@pytest.mark.parametrize("num_numbers", [1, 10, 200, 2000])
def test_the_memory_that_is_counted_is_the_memory_that_is_held(num_numbers):
    cache = MemoryCache(CacheConfig(memory_bytes=8_000_000))
    num_more_than_fit = 10_000_000 // (300 + 18 * num_numbers)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for i in range(num_more_than_fit):
            name = hashlib.sha256(i.to_bytes(4)).hexdigest()
            cache.put({f"pair:{name}": orjson.dumps([[1 / 3 + i] * num_numbers, False])})
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cache.num_bytes == pytest.approx(8_000_000, rel=0.01)
    assert held - before == pytest.approx(cache.num_bytes, rel=0.3)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 1200), st.floats(0, 4))))
def test_whatever_is_stored_the_bytes_stay_in_their_bound_and_a_value_is_always_its_keys_last(
    steps,
):
    clock = Clock()
    cache = MemoryCache(CONFIG, clock)
    last = {}
    for key, size, pause_s in steps:
        clock.now += pause_s
        value = key.encode() * size
        cache.put({key: value})
        if size <= CONFIG.max_entry_bytes:
            last[key] = value
            assert get(cache, key) == [value]
        assert cache.num_bytes <= CONFIG.memory_bytes
        for other in "abcdefgh":
            for found in get(cache, other):
                assert found in (None, last.get(other))
