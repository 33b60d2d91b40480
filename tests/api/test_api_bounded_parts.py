"""Schemas and answers of strangers end by a bound, and hold up nobody behind them."""

import asyncio
import json
import threading
from collections import Counter
from random import Random

import pytest

from models.similarity import added, pairs, rules
from models.similarity.reading import read
from tests.api.errors_told import assert_error
from tests.api.keyed import with_keys
from tests.api.scored import scored
from tests.api.units_bodies import body
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
    await asyncio.wrap_future(thread.submit(lambda: None))  # behind it


NUMBERS = "<word> " + "1;" * 92 + "2;" * 92
QUESTION = {"prompt": f"Which is it? {NUMBERS}", "timeout_s": 30}
TEXTS = {"answer": f"{NUMBERS}0", "samples": [{"text": f"{NUMBERS}{n}"} for n in range(1, 65)]}
READ = {
    "a few samples": QUESTION | {"answer": "1 or 2", "samples": [{"text": "2 or 1"}]},
    "many long samples": QUESTION | TEXTS | {"estimators": ["inconsistency", "degmat"]},
    "sentences": TEXTS | {"units": "sentences", "estimators": ["inconsistency"]},
}


@pytest.mark.parametrize("body", READ.values(), ids=list(READ))
@pytest.mark.parametrize("similarity", ["added", "fake"])
async def test_texts_are_read_off_the_event_loop(service, monkeypatch, body, similarity):
    threads = set()

    def noting(*args):
        threads.add(threading.current_thread())
        return read(*args)

    for module in (added, pairs, rules):
        monkeypatch.setattr(module, "read", noting)
    response = await service.client.post("/score", json=body | {"similarity": similarity})
    assert response.status_code == 200, response.text
    assert threads
    assert threading.current_thread() not in threads


async def test_sentences_that_take_too_many_steps_are_refused(service):
    texts = [" ".join(f"It is {n * i}." for n in range(90)) for i in range(1, 66)]
    body = {"answer": texts[0], "samples": [{"text": text} for text in texts[1:]]}
    response = await service.client.post("/score", json=body | {"units": "sentences"})
    message = assert_error(response, 422, "invalid_request", "units")
    assert "steps" in message or "pairs" in message


async def test_texts_and_steps_are_charged_where_no_model_is_asked(tmp_path):
    async with with_keys(tmp_path, one={"tokens_per_minute": 100}, other={}) as service:
        body = {"answer": "x" * 3000, "samples": [{"text": "y"}], "estimators": ["inconsistency"]}
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
