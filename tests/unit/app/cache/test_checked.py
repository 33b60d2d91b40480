"""The checked cache: what was put comes back, and all else is a miss that is told."""

import pytest

from app.cache.checked import CheckedCache
from app.cache.memory import MemoryCache
from app.cache.protocol import CacheConfig

pytestmark = pytest.mark.anyio


class Corrupt:
    def __init__(self):
        self.count = 0

    def __call__(self):
        self.count += 1


def made():
    stored, corrupt = MemoryCache(CacheConfig()), Corrupt()
    return CheckedCache(stored, corrupt), stored, corrupt


async def test_payloads_come_back_decoded_in_the_order_of_their_keys():
    cache, _, corrupt = made()
    cache.put({"a": b"1", "b": b"2"})

    assert await cache.look_up(["b", "x", "a", "b"], int) == [2, None, 1, 2]
    assert corrupt.count == 0


async def test_what_was_not_put_under_its_key_is_a_miss_that_is_told_and_harms_no_other():
    cache, stored, corrupt = made()
    cache.put({"a": b"1", "b": b"2", "c": b"3"})
    [moved] = await stored.get_many(["a"])
    stored.put({"b": moved, "c": b"3"})

    assert await cache.look_up(["a", "b", "c"], int) == [1, None, None]
    assert corrupt.count == 2


@pytest.mark.parametrize("error", [ValueError, TypeError, KeyError, IndexError, AttributeError])
async def test_what_cannot_be_decoded_is_a_miss_that_is_told_until_it_is_overwritten(error):
    def decode(payload):
        if payload == b"bad":
            raise error
        return payload

    cache, _, corrupt = made()
    cache.put({"a": b"bad"})
    assert await cache.look_up(["a"], decode) == [None]
    cache.put({"a": b"good"})
    assert await cache.look_up(["a"], decode) == [b"good"]
    assert corrupt.count == 1


async def test_a_payload_that_stands_for_nothing_is_no_corruption():
    cache, _, corrupt = made()
    cache.put({"a": b"1"})

    assert await cache.look_up(["a"], lambda payload: None) == [None]
    assert corrupt.count == 0
