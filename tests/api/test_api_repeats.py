"""A request that comes again is answered as before, as long as nothing has changed since."""

from dataclasses import replace

import pytest

from app.http import repeats
from app.plugins.labels.protocol import FeedbackConfig
from tests.api.errors_told import assert_error
from tests.api.keyed import generate as generate_with_key
from tests.api.keyed import with_keys
from tests.api.openai_calls import CHAT, INPUTS, TEXT
from tests.api.test_api_calibration import bound_to_fakes, calibrated  # noqa: F401 - a fixture
from tests.conftest import GENERATE, serving

pytestmark = pytest.mark.anyio

QUESTION = {"prompt": "What is the capital of France?", "max_new_tokens": 64, "seed": 1}
SENTENCES = {"prompt": "Tell me.", "max_new_tokens": 64, "units": "sentences"}
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
CALLING = {"messages": INPUTS[CHAT]["messages"], "max_new_tokens": 64, "tools": [TOOL]}
# What differs each time that a request is answered from the cache.
OF_THE_TIME = ("id", "created", "timing_ms")


def counting_plans(service):
    """A list that grows by each ask that is planned anew."""
    planned, scorer = [], service.core.scorer
    run = scorer.run

    def counted(*args, **named):
        planned.append(args)
        return run(*args, **named)

    scorer.run = counted
    return planned


async def again(service, body, path=GENERATE):
    response = await service.client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response


def timeless(value):
    """A body without what is of the time, at any depth."""
    if isinstance(value, dict):
        return {name: timeless(one) for name, one in value.items() if name not in OF_THE_TIME}
    return [timeless(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (GENERATE, QUESTION | {"return_samples": True, "return_tokens": True, "explain": True}),
        (GENERATE, INPUTS[CHAT] | {"max_new_tokens": 8, "strategy": "mbr", "units": "answer"}),
        (CHAT, INPUTS[CHAT] | {"model": "cocoa", "max_tokens": 64, "logprobs": True}),
        (TEXT, INPUTS[TEXT] | {"model": "cocoa", "max_tokens": 64}),
    ],
    ids=["a prompt", "messages", "OpenAI's chat", "OpenAI's text"],
)
async def test_it_is_planned_no_more_and_differs_in_id_and_time_alone(service, path, body):
    planned = counting_plans(service)
    responses = [await again(service, body, path) for _ in range(4)]
    computed, *cached = [response.json() for response in responses]

    assert len(planned) == 2, "what was computed, and what the cache gave for the first time"
    assert [timeless(one) for one in cached] == [timeless(cached[0])] * 3
    assert timeless(computed).keys() == timeless(cached[0]).keys()
    assert len({response.headers["x-request-id"] for response in responses}) == 4
    for response in responses:
        assert response.json()["id"] == response.headers["x-request-id"]


async def test_each_response_has_the_id_of_its_own_request(service):
    for _ in range(4):
        response = await again(service, QUESTION)
        assert response.json()["id"] == response.headers["x-request-id"]


async def test_metrics_count_each_of_them(service):
    first = (await again(service, QUESTION)).json()
    for _ in range(3):
        last = (await again(service, QUESTION)).json()

    assert service.metric("cocoa_cache_lookups_total", result="hit") == 3
    assert service.metric("cocoa_samples_total") == 4 * first["provenance"]["num_samples"]
    assert service.metric("cocoa_score_nats_count", estimator="cocoa_sp") == 4
    assert service.metric("cocoa_requests_total", route=GENERATE, status="200") == 4
    assert last["timing_ms"]["generate"] == 0 < last["timing_ms"]["total"]


@pytest.mark.parametrize("body", [SENTENCES, CALLING], ids=["parts", "calls of tools"])
async def test_what_asks_a_model_of_pairs_or_has_ids_of_its_own_is_told_anew(service, body):
    planned = counting_plans(service)
    for _ in range(4):
        last = (await again(service, body)).json()
    assert last["cached"]
    assert len(planned) == 4


async def test_an_entry_that_is_gone_is_computed_again(service):
    for _ in range(3):
        await again(service, QUESTION)
    service.core.scorer.memory.cache._entries.clear()
    assert not (await again(service, QUESTION)).json()["cached"]


async def test_an_entry_that_was_altered_is_computed_again_and_counted_once(service):
    for _ in range(3):
        await again(service, QUESTION)
    cache = service.core.scorer.memory.cache
    [name] = (one for one in cache._entries if one.startswith("statistics:"))
    [entry] = await cache.get_many([name])
    cache.put({name: entry[:-1]})
    assert not (await again(service, QUESTION)).json()["cached"]
    assert service.metric("cocoa_cache_corrupt_entries_total") == 1


async def test_other_weights_compute_it_again(service):
    for _ in range(3):
        await again(service, QUESTION)
    service.generator.info = replace(service.generator.info, identity="other weights")
    assert not (await again(service, QUESTION)).json()["cached"]


async def test_a_shift_of_the_scores_is_told_from_then_on(calibrated):  # noqa: F811
    async with calibrated(await bound_to_fakes()) as service:
        for _ in range(3):
            before = (await again(service, QUESTION)).json()
        served = service.core.scorer.calibrator
        served.shifted = frozenset(served._shifts)
        after = (await again(service, QUESTION)).json()

    assert "calibration_shift" not in before["warnings"]
    assert "calibration_shift" in after["warnings"]


async def test_each_namespace_and_each_mode_has_its_own(tmp_path):
    async with with_keys(tmp_path, one={}, other={}, light={"modes": ["light"]}) as service:
        for _ in range(3):
            known = (await generate_with_key(service, "one", seed=1)).json()
        other = (await generate_with_key(service, "other", seed=1)).json()
        refused = await generate_with_key(service, "light", seed=1)

    assert (known["cached"], other["cached"]) == (True, False)
    assert_error(refused, 403, "forbidden", "mode")


async def test_it_can_be_labelled_by_the_id_of_each_response(tmp_path):
    config = FeedbackConfig(path=str(tmp_path / "labels.jsonl"))
    async with serving(feedback=config) as service:
        ids = [(await again(service, QUESTION)).json()["id"] for _ in range(3)]
        for one in ids:
            label = {"id": one, "correct": True}
            assert (await service.client.post("/feedback", json=label)).status_code == 200


async def test_neither_prompt_nor_messages_are_kept(service):
    said = "zanzibar-sentinel"
    for body in ({"prompt": said}, {"messages": [{"role": "user", "content": said}]}):
        for _ in range(3):
            await again(service, body | {"max_new_tokens": 8})
    kept = service.app.state.repeats._kept
    assert len(kept) == 2
    assert said not in repr(kept)


async def test_the_latest_are_kept(service, monkeypatch):
    monkeypatch.setattr(repeats, "_NUM_KEPT", 2)
    for seed in range(4):
        for _ in range(2):
            await again(service, QUESTION | {"seed": seed})
    planned = counting_plans(service)
    for seed in (3, 2, 0):
        assert (await again(service, QUESTION | {"seed": seed})).json()["cached"]
    assert len(planned) == 1
