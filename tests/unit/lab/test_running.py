"""Many prompts at once: order, number under way, and the end of all with the first failure."""

import asyncio

import pytest

from cocoa_lab.running import each, sampling_of, seed_of

pytestmark = pytest.mark.anyio


async def test_results_stand_in_the_order_of_the_items_however_long_each_takes():
    async def one(item):
        await asyncio.sleep(0.001 * (item % 3))
        return item * 2

    assert await each(range(200), one, 10) == [item * 2 for item in range(200)]
    assert await each([], one, 10) == []


@pytest.mark.parametrize(
    ("num_samples", "expected"), [(0, 64), (5, 64), (10, 34), (20, 18), (64, 8)]
)
async def test_as_many_are_under_way_as_fill_the_rows_of_a_model(num_samples, expected):
    running, most = 0, 0

    async def one(_):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    await each(range(300), one, num_samples)

    assert most == expected


async def test_the_first_failure_ends_the_others():
    ended = []

    async def one(item):
        if item == 3:
            raise ValueError("three")
        await asyncio.sleep(60)
        ended.append(item)

    with pytest.raises(ValueError, match="three"):
        await each(range(10), one, 10)
    await asyncio.sleep(0)

    assert ended == []


def test_seeds_depend_on_seed_and_id_alone():
    assert seed_of(3, "facts-0") == seed_of(3, "facts-0")
    assert len({seed_of(seed, name) for seed in (0, 1) for name in ("a", "b")}) == 4
    assert 0 <= seed_of(0, "a") < 2**48


def test_the_sampling_of_a_run_is_the_default_with_its_number_of_samples():
    assert sampling_of(7) == {"num_samples": 7, "temperature": 1.0, "top_k": 50, "top_p": 1.0}
