"""How many samples are drawn, and which draw in the cache serves which request."""

import asyncio

import pytest

from tests.fakes.estimators import WITHOUT_DOCUMENTS

pytestmark = pytest.mark.anyio

PER_REQUEST = ("id", "timing_ms", "cached")
EVERYTHING = sorted(name for name in WITHOUT_DOCUMENTS if not name.endswith("_light"))


def numbers_of(response):
    """All that does not change from one request to the next."""
    assert response.status_code == 200, response.text
    return {name: value for name, value in response.json().items() if name not in PER_REQUEST}


async def test_a_longer_draw_in_the_cache_serves_a_shorter_one_with_the_same_numbers(service):
    wanted = {"seed": 4, "estimators": EVERYTHING, "return_samples": True}
    await service.generate(num_samples=10, **wanted)
    calls = service.engine.num_calls
    shorter = await service.generate(num_samples=3, **wanted)

    assert shorter.json()["cached"]
    assert service.engine.num_calls == calls
    assert numbers_of(shorter) == numbers_of(
        await service.generate(num_samples=3, cache=False, **wanted)
    )


async def test_a_shorter_draw_serves_no_longer_one_which_takes_its_place(service):
    few = await service.generate(seed=5, num_samples=2)
    many = await service.generate(seed=5, num_samples=6)
    again = await service.generate(seed=5, num_samples=2)

    assert [r.json()["cached"] for r in (few, many, again)] == [False, False, True]
    assert numbers_of(again) == numbers_of(few)


async def test_who_draws_more_does_not_join_who_draws_less(service):
    gate = asyncio.Event()
    undo = service.before_generating(lambda request: gate.wait())
    asked = [service.generate(seed=6, num_samples=number) for number in (2, 4)]
    tasks = [asyncio.create_task(one) for one in asked]
    await asyncio.sleep(0.05)
    gate.set()
    numbers = [(await task).json()["provenance"]["num_samples"] for task in tasks]
    undo()

    assert numbers == [2, 4]


async def test_none_are_drawn_where_no_estimator_reads_them_however_many_are_named(service):
    response = await service.generate(estimators=["sp"], num_samples=5)

    assert "num_samples" not in response.json()["provenance"]
