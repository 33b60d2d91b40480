"""Statistics that were computed once are served again, and shared while they are being computed."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from pydantic import SecretStr

from app.cache.protocol import CacheConfig
from models.errors import EngineError
from models.probes.protocol import ProbeConfig
from tests.chaos.redis_server import running_redis
from tests.conftest import serving, until
from tests.tiny_probes import saved

pytestmark = pytest.mark.anyio

PER_REQUEST = ("id", "timing_ms", "cached")


def body_of(response):
    assert response.status_code == 200, response.text
    return {name: value for name, value in response.json().items() if name not in PER_REQUEST}


@asynccontextmanager
async def gated(service):
    """Generations wait until the block's gate is set."""
    gate = asyncio.Event()
    undo = service.before_generating(lambda request: gate.wait())
    try:
        yield gate
    finally:
        gate.set()
        undo()


async def test_a_repeated_request_costs_no_model_and_has_the_same_answer_and_scores(service):
    first = await service.generate(seed=1)
    calls, batches = service.engine.num_calls, len(service.pair_model.batches)
    again = await service.generate(seed=1)

    assert (first.json()["cached"], again.json()["cached"]) == (False, True)
    assert body_of(again) == body_of(first)
    assert (service.engine.num_calls, len(service.pair_model.batches)) == (calls, batches)
    timing = again.json()["timing_ms"]
    assert (timing["queue"], timing["generate"], timing["similarity"]) == (0, 0, 0)


@pytest.mark.parametrize(
    "body",
    [
        {
            "estimators": [
                "sentence_sar",
                "semantic_entropy",
                "degmat",
                "p_true",
                "sar",
            ]
        },
        {"strategy": "mbr", "return_samples": True},
        {"messages": [{"role": "user", "content": "Hi"}]},
    ],
    ids=["all kinds of statistics", "a sampled answer", "chat"],
)
async def test_every_kind_of_request_comes_back_from_the_cache_as_it_was(service, body):
    first = await service.generate(seed=3, **body)
    again = await service.generate(seed=3, **body)

    assert again.json()["cached"] is True
    assert body_of(again) == body_of(first)


async def test_light_answers_are_cached_with_their_probes_reading(tmp_path):
    async with serving(probes=ProbeConfig(saved(tmp_path), "")) as service:
        first = await service.generate(mode="light")
        again = await service.generate(mode="light")

    assert again.json()["cached"] is True
    assert body_of(again) == body_of(first)


async def test_given_answers_are_cached(service):
    body = {"prompt": "Capital of France?", "answer": "Paris", "seed": 1, "max_new_tokens": 8}
    first = await service.client.post("/score", json=body)
    again = await service.client.post("/score", json=body)
    other = await service.client.post("/score", json=body | {"answer": "Rome"})

    assert [r.json()["cached"] for r in (first, again, other)] == [False, True, False]
    assert body_of(again) == body_of(first)


async def test_other_estimators_over_the_same_statistics_are_scored_from_the_cache(service):
    await service.generate(seed=1, estimators=["cocoa_sp", "cocoa_ppl"])
    calls = service.engine.num_calls
    response = await service.generate(seed=1, estimators=["additive_cocoa_sp"])

    assert response.json()["cached"] is True
    assert response.json()["scores"].keys() == {"additive_cocoa_sp"}
    assert service.engine.num_calls == calls


async def test_what_is_returned_is_applied_on_the_way_out(service):
    await service.generate(seed=1)
    computed = await service.generate(seed=1, return_samples=True, return_tokens=True)
    again = await service.generate(seed=1, return_samples=True, return_tokens=True)
    without = await service.generate(seed=1)

    # The first entry lacks the samples' log-probs; the one that took its place has all that the
    # first had.
    assert [r.json()["cached"] for r in (computed, again, without)] == [False, True, True]
    assert body_of(again) == body_of(computed)
    assert not without.json().keys() & {"samples", "tokens"}


async def test_without_a_seed_an_earlier_draw_serves_and_says_its_seed(service):
    first = await service.generate()
    again = await service.generate()
    seeded = await service.generate(seed=first.json()["provenance"]["seed"])

    assert again.json()["cached"] is True
    assert again.json()["provenance"]["seed"] == first.json()["provenance"]["seed"]
    assert seeded.json()["scores"] == first.json()["scores"]


async def test_cache_false_neither_reads_nor_writes_nor_shares(service):
    await service.generate(seed=1)
    calls = service.engine.num_calls
    bypassing = [
        await service.generate(seed=1, cache=False),
        await service.generate(seed=2, cache=False),
    ]
    assert service.engine.num_calls == calls + 2
    later = await service.generate(seed=2)

    assert [r.json()["cached"] for r in (*bypassing, later)] == [False, False, False]


async def test_a_deployment_without_a_cache_computes_everything():
    async with serving(cache=CacheConfig(enabled=False)) as service:
        responses = [await service.generate(seed=1) for _ in range(2)]

    assert [response.json()["cached"] for response in responses] == [False, False]


async def test_fifty_identical_requests_at_once_are_one_generation(service):
    calls = service.engine.num_calls
    async with gated(service) as gate:
        requests = [asyncio.create_task(service.generate()) for _ in range(50)]
        await until(lambda: service.metric("cocoa_joined_requests_total") == 49)
        assert service.admission.num_admitted == 1
        gate.set()
        responses = await asyncio.gather(*requests)

    assert service.engine.num_calls == calls + 1
    assert {response.status_code for response in responses} == {200}
    usage = responses[0].json()["usage"]
    metrics = (await service.client.get("/metrics")).text
    assert f'cocoa_tokens_total{{kind="answer"}} {usage["completion_tokens"]:.1f}' in metrics, (
        "paid for once"
    )
    assert len({response.json()["provenance"]["seed"] for response in responses}) == 1
    assert len({response.headers["x-request-id"] for response in responses}) == 50


async def test_two_gateways_with_one_redis_generate_at_most_twice(tmp_path):
    with running_redis(tmp_path) as redis_server:
        cache = CacheConfig(url=SecretStr(redis_server.url), timeout_s=1.0)
        async with serving(cache=cache) as one, serving(cache=cache) as other:
            for service in (one, other):
                await until(lambda s=service: s.metric("cocoa_cache_breaker_open") == 0)
                await until_cached(service)
            calls = one.engine.num_calls + other.engine.num_calls
            responses = await asyncio.gather(
                *(service.generate(seed=5) for _ in range(25) for service in (one, other))
            )
            assert {response.status_code for response in responses} == {200}
            assert one.engine.num_calls + other.engine.num_calls <= calls + 2
            await until_cached(other, prompt="What is the capital of France?", seed=5)


async def until_cached(service, prompt="Is Redis there?", seed=0):
    """Redis is connected, and entries are stored, in the background: wait until this one serves."""
    async with asyncio.timeout(30):
        while not (await service.generate(prompt=prompt, seed=seed)).json()["cached"]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_failed_generation_is_nobodys_result_later(service):
    undo = service.generation_raises(EngineError("a step failed"))
    responses = await asyncio.gather(*(service.generate(seed=1) for _ in range(5)))
    undo()
    later = await service.generate(seed=1)

    assert {response.json()["error"]["code"] for response in responses} == {"engine_error"}
    assert (later.status_code, later.json()["cached"]) == (200, False)


async def test_each_of_those_who_share_keeps_its_own_deadline(service):
    async with gated(service) as gate:
        hasty = asyncio.create_task(service.generate(seed=1, timeout_s=0.2))
        patient = asyncio.create_task(service.generate(seed=1, timeout_s=60))
        assert (await hasty).json()["error"]["code"] == "deadline_exceeded"
        assert not patient.done()
        gate.set()
        assert (await patient).status_code == 200


async def test_pairs_that_were_compared_before_are_not_compared_again(service):
    first = await service.generate(seed=1)
    scored = sum(service.pair_model.batches)
    again = await service.generate(seed=1, max_new_tokens=63)  # another request with the same texts

    assert again.json()["cached"] is False
    assert again.json()["scores"] == first.json()["scores"]
    assert sum(service.pair_model.batches) == scored
    metrics = (await service.client.get("/metrics")).text
    assert float(metrics.split('cocoa_pairs_total{kind="cached"} ')[1].split()[0]) > 0


async def test_prompts_are_in_no_entry(service):
    await service.generate(
        prompt="zanzibar-sentinel", seed=1, estimators=["token_sar", "p_true", "cocoa_ppl"]
    )
    entries = service.core.scorer.memory.cache._entries

    assert len(entries) > 1
    for name, (value, _) in entries.items():
        assert b"zanzibar" not in value
        assert "zanzibar" not in name


async def test_a_client_that_goes_leaves_the_work_to_those_who_stay(service):
    async with gated(service) as gate:
        leaving = asyncio.create_task(service.generate(seed=1))
        await until(lambda: service.admission.num_admitted == 1)
        staying = asyncio.create_task(service.generate(seed=1))
        await until(lambda: service.metric("cocoa_joined_requests_total") == 1)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        gate.set()
        assert (await staying).status_code == 200


async def test_a_shared_generation_is_given_up_with_the_last_who_waits(service):
    async with gated(service):
        requests = [service.generate(seed=1, timeout_s=0.1) for _ in range(3)]
        responses = await asyncio.gather(*requests)
        assert {response.status_code for response in responses} == {504}
        await until(lambda: service.admission.num_admitted == 0)
