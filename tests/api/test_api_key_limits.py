"""How much a key may use, and whose turn it is."""

import asyncio
import time

import pytest

from app.plugins.labels.protocol import FeedbackConfig
from models.errors import EngineError
from tests.api.errors_told import assert_error
from tests.api.keyed import GIVEN, generate, metric, with_keys
from tests.conftest import serving, until
from tests.made_keys import bearer, keys_in

pytestmark = pytest.mark.anyio


@pytest.fixture
async def service(anyio_backend, tmp_path):
    """The service with two keys without limits."""
    async with with_keys(tmp_path, one={}, other={}) as running:
        yield running


# id: the limits of a key, and the status of two requests one after another
LIMITED = {
    "requests": ({"requests_per_minute": 1}, "requests_per_minute"),
    "tokens": ({"tokens_per_minute": 1}, "tokens_per_minute"),
}


@pytest.mark.parametrize(("limits", "limit"), LIMITED.values(), ids=LIMITED)
async def test_beyond_a_limit_the_answer_is_429_with_its_name_and_when_to_come_back(
    tmp_path, limits, limit
):
    async with with_keys(tmp_path, one=limits, other={}) as service:
        assert (await generate(service, "one")).status_code == 200
        refused = await generate(service, "one")
        message = assert_error(refused, 429, "rate_limited")
        assert refused.json()["error"]["details"] == [{"field": limit, "message": message}]
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.headers["retry-after"] in message
        assert (await generate(service, "other")).status_code == 200
        line = f'cocoa_key_refusals_total{{key="one",limit="{limit}"}} 1.0'
        assert await metric(service, line)


async def test_beyond_its_concurrent_requests_the_answer_is_429(tmp_path):
    async with with_keys(tmp_path, one={"max_concurrent": 1}) as service:
        service.generation_takes(60)
        first = asyncio.create_task(generate(service, "one"))
        await until(lambda: service.admission.num_admitted == 1)
        refused = await generate(service, "one")
        assert_error(refused, 429, "rate_limited")
        assert refused.json()["error"]["details"][0]["field"] == "max_concurrent"
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await until(lambda: service.admission.num_admitted == 0)
        assert (await service.client.get("/version", headers=bearer("one"))).status_code == 200


async def test_tokens_are_what_was_computed_and_what_the_cache_holds_costs_none(service):
    usage = (await generate(service, "one", seed=1)).json()["usage"]
    spent = sum(usage.values())
    line = f'cocoa_key_tokens_total{{key="one"}} {float(spent)}'
    assert spent > 0
    assert await metric(service, line)
    assert (await generate(service, "one", seed=1)).json()["cached"]
    assert await metric(service, line)


async def test_what_an_estimator_has_the_nli_model_read_is_charged_as_that_of_units_is(tmp_path):
    asked = {"estimators": ["semantic_density"], "return_samples": True}
    async with with_keys(tmp_path, one={}) as service:
        body = (await generate(service, "one", seed=1, **asked)).json()
        answer, usage = body["text"].strip(), body["usage"]
        others = {one["text"].strip() for one in body["samples"]} - {answer, ""}
        assert others
        # Beside each other sample, in both directions.
        read = 2 * sum(len(f"{answer} {one}".split()) for one in others)
        charged = float(sum(usage.values()) + read)
        assert await metric(service, f'cocoa_key_tokens_total{{key="one"}} {charged}')


async def test_an_answer_whose_comparison_fails_has_cost_its_tokens(tmp_path):
    async with with_keys(tmp_path, one={"tokens_per_minute": 1}) as service:

        def fail(pairs):
            raise RuntimeError

        service.pair_model.score = fail
        assert_error(await generate(service, "one"), 503, "similarity_unavailable")
        assert_error(await generate(service, "one"), 429, "rate_limited")


async def test_a_stream_that_is_given_up_has_cost_what_it_has_told(service):
    whole = service.generator.generate

    async def stops(request, on_token=None):
        await whole(request, on_token)
        raise EngineError("a step failed")

    service.generator.generate = stops
    response = await generate(service, "one", stream=True)
    num_told = response.text.count("event: token")
    assert num_told > 0
    assert response.text.count("event: error") == 1
    assert await metric(service, f'cocoa_key_tokens_total{{key="one"}} {float(num_told)}')


async def test_labels_are_taken_without_tokens(tmp_path):
    config = FeedbackConfig(path=str(tmp_path / "labels.jsonl"))
    access = {"keys": keys_in(tmp_path, one={"tokens_per_minute": 1})}
    async with serving(feedback=config, access=access) as service:
        answer = (await generate(service, "one")).json()
        label = {"id": answer["id"], "correct": True}
        response = await service.client.post("/feedback", json=label, headers=bearer("one"))
        assert response.status_code == 200


TEXTS = {"model": "cocoa", "prompt": [f"a {number}" for number in range(8)], "max_tokens": 8}


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [("/score", {"items": [GIVEN] * 8}, "results"), ("/v1/completions", TEXTS, "choices")],
)
async def test_a_call_of_several_items_is_as_many_requests(tmp_path, path, body, told):
    async with with_keys(tmp_path, one={"requests_per_minute": 5}) as service:
        headers = bearer("one")
        response = await service.client.post(path, json=body, headers=headers)
        assert [one.get("error") for one in response.json()[told]] == [None] * 8
        refused = await service.client.post("/score", json=GIVEN, headers=headers)
        assert_error(refused, 429, "rate_limited")
        assert 40 < int(refused.headers["retry-after"]) <= 48, "four requests, 12 s each"


async def test_a_single_request_of_one_key_passes_the_queue_of_another(tmp_path):
    async with with_keys(tmp_path, shared_rows=2, one={}, other={}) as service:
        began, opened = [], asyncio.Event()

        async def wait(request):
            began.append(request.prompt)
            await opened.wait()

        service.before_generating(wait)
        light = {"estimators": ["sp"]}  # a row each
        await_first = asyncio.create_task(generate(service, "other", prompt="other 0", **light))
        await until(lambda: began == ["other 0"])
        flood = []
        for number in range(20):
            request = generate(service, "one", prompt=f"one {number}", **light)
            flood.append(asyncio.create_task(request))
        await until(lambda: service.admission.num_admitted == 21)
        assert began == ["other 0", "one 0"], "half of the rows each"
        opened.set()
        responses = await asyncio.gather(await_first, *flood)
        assert {response.status_code for response in responses} == {200}


async def test_time_in_the_queue_is_told(tmp_path):
    async with with_keys(tmp_path, shared_rows=2, one={}, other={}) as service:
        light = {"estimators": ["sp"]}
        await generate(service, "other", **light)
        opened = asyncio.Event()
        undo = service.before_generating(lambda request: opened.wait())
        first = asyncio.create_task(generate(service, "one", prompt="first", **light))
        await until(lambda: service.admission.num_admitted == 1)
        second = asyncio.create_task(generate(service, "one", prompt="second", **light))
        await until(lambda: service.admission.num_waiting == 1)
        assert await metric(service, "cocoa_waiting_requests 1.0")
        began = time.monotonic()
        await asyncio.sleep(0.2)
        opened.set()
        waited_ms = (await second).json()["timing_ms"]["queue"]
        assert 150 < waited_ms <= 1000 * (time.monotonic() - began) + 1000
        await first
        undo()
