"""`num_samples: "auto"`: as few samples as the found mass allows, and what the cache serves."""

import asyncio

import pytest

from tests.fakes.estimators import OF_ANSWERS

pytestmark = pytest.mark.anyio

PER_REQUEST = ("id", "timing_ms", "cached")
EVERYTHING = sorted(name for name in OF_ANSWERS if not name.endswith("_light"))


def numbers_of(response):
    """All that does not depend on how the samples came to be so many."""
    assert response.status_code == 200, response.text
    body = response.json()
    body["provenance"].pop("stopped_by", None)
    return {name: value for name, value in body.items() if name not in PER_REQUEST}


async def test_waves_end_with_the_mass_and_the_response_says_so(service):
    body = (await service.generate(num_samples="auto", seed=1)).json()
    sooner = (await service.generate(num_samples="auto", stop_mass=0.3, seed=1)).json()

    later, earlier = body["provenance"], sooner["provenance"]
    assert (later["num_samples"], earlier["num_samples"]) == (5, 2)
    assert (later["stopped_by"], earlier["stopped_by"]) == ("found_mass", "found_mass")
    assert later["found_mass"] >= 0.7 > earlier["found_mass"] >= 0.3
    assert body["scores"]["cocoa_sp"] is not None


async def test_an_unreachable_mass_draws_the_most(service):
    wanted = {"num_samples": "auto", "max_samples": 7, "stop_mass": 1.0}
    # The fake's texts have more mass than a model's could have, unless they are long.
    service.engine.answers = tuple(
        " one two three four five six seven" + " a" * i for i in range(6)
    )
    body = (await service.generate(seed=1, max_new_tokens=30, **wanted)).json()

    provenance = body["provenance"]
    assert (provenance["num_samples"], provenance["stopped_by"]) == (7, "max_samples")
    assert 0 < provenance["found_mass"] < 1


async def test_a_fixed_number_was_stopped_by_nothing(service):
    body = (await service.generate(num_samples=3, seed=1)).json()
    assert body["provenance"]["num_samples"] == 3
    assert "stopped_by" not in body["provenance"]


@pytest.mark.parametrize("strategy", ["greedy", "most_probable", "mbr"])
async def test_waves_give_the_numbers_of_as_many_samples_at_once(service, strategy):
    wanted = {"seed": 2, "strategy": strategy, "estimators": EVERYTHING, "cache": False}
    in_waves = await service.generate(num_samples="auto", stop_mass=1e-9, **wanted)
    at_once = await service.generate(num_samples=2, **wanted)

    numbers = numbers_of(in_waves)
    numbers["warnings"].remove("scores_move_with_samples")
    assert numbers == numbers_of(at_once)


async def test_a_longer_draw_in_the_cache_serves_a_shorter_one_with_the_same_numbers(service):
    wanted = {"seed": 4, "estimators": EVERYTHING, "return_samples": True}
    await service.generate(num_samples=10, **wanted)
    calls = service.engine.num_calls
    shorter = await service.generate(num_samples=3, **wanted)
    in_waves = await service.generate(num_samples="auto", max_samples=8, **wanted)

    assert [r.json()["cached"] for r in (shorter, in_waves)] == [True, True]
    assert service.engine.num_calls == calls
    assert numbers_of(shorter) == numbers_of(
        await service.generate(num_samples=3, cache=False, **wanted)
    )
    fresh = await service.generate(num_samples="auto", max_samples=8, cache=False, **wanted)
    assert numbers_of(in_waves) == numbers_of(fresh)
    assert in_waves.json()["provenance"]["stopped_by"] == fresh.json()["provenance"]["stopped_by"]


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
    response = await service.generate(estimators=["sp"], num_samples="auto")

    assert not response.json()["provenance"].keys() & {"num_samples", "stopped_by"}


async def test_an_engine_without_log_probs_cannot_know_the_mass(service):
    service.without_statistics("sample_token_logprobs")
    response = await service.generate(estimators=["consistency"], num_samples="auto")

    assert response.status_code == 422
    error = response.json()["error"]
    assert (error["code"], error["field"]) == ("statistic_unavailable", "num_samples")
    assert "sample_token_logprobs" in error["message"]
