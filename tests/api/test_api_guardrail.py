"""LiteLLM's guardrail API: chats are remembered, answers judged, and nothing passes unseen.

tests/doors has a real LiteLLM ask it.
"""

import asyncio
import json
from random import Random

import pytest

from app.cache.protocol import CacheConfig
from app.settings import Limits
from cocoa_lab.calibration.calibrating import to_json
from models.calibration import ALL
from tests.api.errors_told import SENTINEL, assert_error
from tests.api.hostile_bodies import KINDS, LIMIT, MARKER
from tests.api.test_api_hostile import REFUSED, post
from tests.conftest import serving
from tests.log_lines import logged
from tests.made_calibrators import calibration, calibrator
from tests.made_keys import bearer, keys_in

pytestmark = pytest.mark.anyio

PATH = "/beta/litellm_basic_guardrail_api"
CHAT = [{"role": "user", "content": "What is the capital of France?"}]
ALL_PASS, NONE_PASS = {"threshold": 1e6}, {"threshold": -1e6}
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALLED = {"id": "one", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


async def tell(service, input_type, *texts, params=ALL_PASS, call="one", key=None, **fields):
    """A call of LiteLLM's, with what it sends beside what is read."""
    body = {
        "input_type": input_type,
        "litellm_call_id": call,
        "litellm_trace_id": "trace",
        "texts": list(texts),
        "images": None,
        "tool_calls": None,
        "request_data": {"user_api_key_alias": "somebody"},
        "request_headers": {"host": "proxy"},
        "litellm_version": "1",
        "model": "gpt",
        "additional_provider_specific_params": params,
    }
    headers = bearer(key) if key else None
    return await service.client.post(PATH, json=body | fields, headers=headers)


async def asked(service, **fields):
    """The response to a chat that is about to be asked."""
    return await tell(service, "request", **{"structured_messages": CHAT} | fields)


async def verdict(service, *texts, **fields):
    """Action and reason of the answers in this call."""
    response = await tell(service, "response", *texts or ("Paris.",), **fields)
    assert response.status_code == 200, response.text
    body = response.json()
    return body["action"], body.get("blocked_reason")


async def test_what_was_asked_is_remembered_and_its_answer_judged(service):
    response = await asked(service)
    assert (response.status_code, response.json()) == (200, {"action": "NONE"})
    assert service.metric("cocoa_estimator_seconds_count", estimator="cocoa_sp") in (None, 0.0)
    assert await verdict(service) == ("NONE", None)
    action, reason = await verdict(service, params=NONE_PASS)
    assert action == "BLOCKED"
    assert "is above the threshold of -1e+06" in reason


async def test_an_answer_is_scored_as_score_would(service):
    await asked(service)
    given = {"messages": CHAT, "answer": "Paris.", "estimator": "sp"}
    score = (await service.client.post("/score", json=given)).json()["uncertainty"]
    above, below = (score + one for one in (1e-9, -1e-9))
    assert await verdict(service, params={"threshold": above, "estimator": "sp"}) == ("NONE", None)
    action, reason = await verdict(service, params={"threshold": below, "estimator": "sp"})
    assert action == "BLOCKED"
    assert f"its sp of {score:.4g} is above" in reason


async def test_a_raw_prompt_is_remembered_as_one(service):
    response = await tell(service, "request", "The capital of France is")
    assert response.json() == {"action": "NONE"}
    given = {"prompt": "The capital of France is", "answer": " Paris", "estimator": "sp"}
    score = (await service.client.post("/score", json=given)).json()["uncertainty"]
    params = {"threshold": score - 1e-9, "estimator": "sp"}
    _, reason = await verdict(service, " Paris", params=params)
    assert f"its sp of {score:.4g} is above" in reason


@pytest.fixture
async def calibrated(tmp_path):
    """A start of the service with a calibrator that lets pass up to a threshold."""
    async with serving() as service:
        workers = service.workers
        bound = {
            "generator": workers.generator.info.identity,
            "comparer": workers.comparers["fake"].info.identity,
            "nli": workers.nli.info.identity,
            "input": "messages",
            "strategy": "given",
        }

    def start(threshold):
        made = calibrator({ALL: {"rb_cocoa_sp": calibration(threshold=threshold)}}, **bound)
        (tmp_path / "made.json").write_text(to_json(made))
        return serving(calibrator=str(tmp_path / "made.json"))

    return start


@pytest.mark.parametrize(("threshold", "action"), [(1e6, "NONE"), (-1.0, "BLOCKED")])
async def test_by_a_target_error_what_the_decision_accepts_passes(calibrated, threshold, action):
    async with calibrated(threshold) as service:
        await asked(service)
        told = await verdict(service, params={"target_error": 0.05})
    assert told[0] == action
    if action == "BLOCKED":
        assert "its confidence" in told[1] or "it does not pass" in told[1]


async def test_of_several_answers_one_that_does_not_pass_is_enough(service):
    await asked(service)
    scores = []
    for text in ("Paris.", "Lyon, or so I have heard people say."):
        given = {"messages": CHAT, "answer": text, "estimator": "sp"}
        scores.append((await service.client.post("/score", json=given)).json()["uncertainty"])
    params = {"threshold": sum(scores) / 2, "estimator": "sp"}
    better, worse = "Paris.", "Lyon, or so I have heard people say."
    assert scores[0] < scores[1]
    assert await verdict(service, better, better, params=params) == ("NONE", None)
    assert (await verdict(service, better, worse, params=params))[0] == "BLOCKED"


async def test_a_score_that_cannot_be_computed_does_not_pass(service):
    await asked(service)
    service.without_statistics("answer_token_entropies")
    action, reason = await verdict(service, params=ALL_PASS | {"estimator": "mte"})
    assert action == "BLOCKED"
    assert "it has no mte: answer_token_entropies is not available" in reason


async def test_an_unknown_call_is_told_unless_the_answer_brings_what_was_asked(service):
    response = await tell(service, "response", "Paris.", call=SENTINEL)
    assert SENTINEL not in assert_error(response, 404, "unknown_call", "litellm_call_id")
    assert await verdict(service, call="new", structured_messages=CHAT) == ("NONE", None)


async def test_what_was_asked_is_forgotten_after_its_time():
    async with serving(doors={"guardrail_ttl_s": 1}) as service:
        await asked(service)
        assert await verdict(service) == ("NONE", None)
        await asyncio.sleep(1.1)
        response = await tell(service, "response", "Paris.")
        assert_error(response, 404, "unknown_call", "litellm_call_id")


async def test_calls_are_remembered_where_answers_are_not_cached():
    async with serving(cache=CacheConfig(enabled=False)) as service:
        await asked(service)
        assert await verdict(service) == ("NONE", None)


async def test_one_key_does_not_find_what_another_asked(tmp_path):
    keys = keys_in(tmp_path, one={"namespace": "team"}, other={"namespace": "team"})
    async with serving(doors={"keys": keys}) as service:
        assert_error(await asked(service), 401, "unauthorized")
        await asked(service, key="one")
        response = await tell(service, "response", "Paris.", key="other")
        assert_error(response, 404, "unknown_call", "litellm_call_id")
        assert await verdict(service, key="one") == ("NONE", None)


async def test_further_answers_count_as_further_requests(tmp_path):
    keys = keys_in(tmp_path, one={"requests_per_minute": 3})
    async with serving(doors={"keys": keys}) as service:
        await asked(service, key="one")
        await verdict(service, "Paris.", "Lyon.", key="one")
        response = await tell(service, "response", "Paris.", key="one")
        assert response.status_code == 429


async def test_the_deadline_is_of_all_answers_together(service):
    await asked(service)
    service.generation_takes(0.4)
    params = ALL_PASS | {"timeout_s": 0.5, "estimator": "sp"}
    response = await tell(service, "response", "Paris.", "Lyon.", params=params)
    assert_error(response, 504, "deadline_exceeded")


NOT_JUDGED = {
    "an image": ("structured_messages", [{"role": "user", "content": [IMAGE]}]),
    "an image beside": ("images", ["data:image/png;base64,AAAA"]),
    "a builtin tool": ("tools", [{"type": "code_interpreter"}]),
    "no messages": ("structured_messages", []),
    "too many messages": ("structured_messages", CHAT * 1025),
    "no text": ("structured_messages", None),
}


@pytest.mark.parametrize(("field", "value"), NOT_JUDGED.values(), ids=NOT_JUDGED)
async def test_a_prompt_that_cannot_be_judged_is_refused_before_it_is_asked(service, field, value):
    response = await asked(service, **{field: value})
    assert response.status_code == 422
    error = response.json()["error"]
    assert error["code"] == "invalid_request"
    assert error["field"].startswith(field if value is not None else "texts")


WRONG = {
    "neither bound": ({}, "target_error"),
    "both bounds": ({"target_error": 0.1, "threshold": 1.0}, "target_error"),
    "a target out of its range": ({"target_error": 1.5}, "target_error"),
    "a threshold of words": ({"threshold": "low"}, "threshold"),
    "an unknown field": ({"threshold": 1.0, "limit": 1.0}, "limit"),
    "an unknown score": ({"threshold": 1.0, "estimator": "none"}, "estimator"),
    "too many samples": ({"threshold": 1.0, "num_samples": 65}, "num_samples"),
    "too long": ({"threshold": 1.0, "timeout_s": 601}, "timeout_s"),
}


@pytest.mark.parametrize(("params", "field"), WRONG.values(), ids=WRONG)
async def test_a_wrong_parameter_is_refused_by_name_before_the_model_is_asked(
    service, params, field
):
    response = await asked(service, params=params)
    told = f"additional_provider_specific_params.{field}"
    assert_error(response, 422, "invalid_request", told[:64])


async def test_an_answer_that_calls_tools_or_is_none_is_not_judged(service):
    await asked(service, tools=[WEATHER])
    response = await tell(service, "response", "", tool_calls=[CALLED])
    assert "texts alone" in assert_error(response, 422, "invalid_request", "tool_calls")
    assert_error(await tell(service, "response"), 422, "invalid_request", "texts")


async def test_tools_their_calls_and_results_are_shown_to_the_model_that_judges(service):
    history = [
        *CHAT,
        {"role": "assistant", "content": None, "tool_calls": [CALLED]},
        {"role": "tool", "tool_call_id": "one", "content": "rain"},
    ]
    requests = []

    async def seen(request):
        requests.append(request)

    service.before_generating(seen)
    await asked(service, structured_messages=history, tools=[WEATHER])
    assert await verdict(service, "It rains.") == ("NONE", None)
    [request] = requests
    assert [tool["function"]["name"] for tool in request.tools] == ["weather"]
    assert [one["role"] for one in request.messages] == ["user", "assistant", "tool"]
    assert request.messages[2]["name"] == "weather"


async def test_more_than_an_entry_of_the_cache_holds_is_refused():
    async with serving(cache=CacheConfig(max_entry_bytes=100)) as service:
        long = [{"role": "user", "content": "a" * 100}]
        response = await asked(service, structured_messages=long)
        told = assert_error(response, 422, "invalid_request", "structured_messages")
        assert "84 bytes" in told


async def test_nothing_of_prompts_answers_and_call_ids_is_logged():
    chat = [{"role": "user", "content": SENTINEL}]
    with logged("debug") as lines:
        async with serving() as service:
            await asked(service, structured_messages=chat, call=SENTINEL)
            await verdict(service, SENTINEL, call=SENTINEL)
            await tell(service, "response", SENTINEL, call=SENTINEL * 2)
            await asked(service, structured_messages=chat, params={SENTINEL: 1})
        told = lines()
    assert sum(PATH in line for line in told) == 4
    assert SENTINEL not in "".join(told)


ANSWER = {
    "input_type": "response",
    "litellm_call_id": MARKER,
    "texts": [MARKER],
    "structured_messages": [{"role": "user", "content": MARKER}],
    "tools": [],
    "additional_provider_specific_params": {"threshold": 1.0, "estimator": "sp", "num_samples": 2},
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_a_hostile_body_ends_in_a_documented_status_and_quotes_nothing(kind):
    random = Random(kind.__name__)
    documented = {200, 404, *REFUSED}
    async with serving(limits=Limits(max_body_bytes=LIMIT)) as service:
        for input_type in ("request", "response"):
            for _ in range(20):
                body, content_type = kind(random, ANSWER | {"input_type": input_type})
                status, _, data = await post(service.app, PATH, body, content_type)
                assert status in documented, (body[:300], data[:300])
                told = json.loads(data)
                assert MARKER not in told.get("blocked_reason", "")
                assert MARKER not in told.get("error", {}).get("message", "")
        assert service.deaths == []
