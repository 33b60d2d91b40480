"""Schemas and answers of strangers end by a bound, and hold up nobody behind them."""

import asyncio
import json
from collections import Counter
from random import Random

import pytest

from tests.api.errors_told import assert_error
from tests.api.keyed import with_keys
from tests.api.scored import scored
from tests.api.units_bodies import body
from tests.conftest import until
from tests.made_keys import bearer

pytestmark = pytest.mark.anyio

BRANCHES = [{"$ref": "#/$defs/c", "const": i} for i in range(2000)]
HOSTILE = {
    "answer": json.dumps({f"f{i}": i + 0.5 for i in range(1000)}),
    "samples": [{"text": "{}"}],
    "units": "fields",
    "json_schema": {
        "$defs": {"c": {"allOf": [{}] * 3000}},
        "additionalProperties": {"anyOf": BRANCHES},
    },
}
FRIENDLY = {"answer": '{"a": 1, "b": "x"}', "samples": [{"text": '{"a": 1}'}], "units": "fields"}


async def test_fields_that_take_too_many_steps_are_refused_and_others_are_served(service):
    posts = []
    for number in range(3):  # equal ones would be computed once
        body = {**HOSTILE, "samples": [{"text": f"[{number}]"}]}
        posts.append(service.client.post("/score", json=body))
    *refused, friendly = await asyncio.gather(*posts, service.client.post("/score", json=FRIENDLY))
    for response in refused:
        message = assert_error(response, 422, "invalid_request", "units")
        assert "takes more than 1000000 steps" in message
    assert friendly.status_code == 200
    body = await scored(service, **FRIENDLY)
    assert [unit["support"] for unit in body["units"][1:]] == [1, 0]


async def test_fields_that_nobody_waits_for_any_more_end(service):
    thread = service.app.state.service.scorer.threads["parts"]
    response = await service.client.post("/score", json={**HOSTILE, "timeout_s": 0.05})
    assert_error(response, 504, "deadline_exceeded")
    await until(lambda: thread.busy_since is None)


async def test_texts_and_steps_are_charged_where_no_model_is_asked(tmp_path):
    async with with_keys(tmp_path, one={"tokens_per_minute": 100}, other={}) as service:
        body = {"answer": "x" * 3000, "samples": [{"text": "y"}], "estimators": ["consistency"]}
        first = await service.client.post("/score", json=body, headers=bearer("one"))
        assert first.status_code == 200
        second = await service.client.post("/score", json=body, headers=bearer("one"))
        assert_error(second, 429, "rate_limited")


async def test_bodies_of_every_shape_end_in_a_result_or_a_typed_error(service):
    random, seen = Random(44), Counter()
    for number in range(120):
        response = await service.client.post("/score", json=body(random))
        assert response.status_code in (200, 413, 422), (number, response.text)
        seen[response.status_code] += 1
    assert min(seen[200], seen[422]) > 10
