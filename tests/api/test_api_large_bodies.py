"""Bodies that are slow to refuse: refused by few faults, and checked beside the event loop."""

import json
import threading

import pytest
from pydantic import TypeAdapter, ValidationError

from app.http import json_calls
from app.http.requests.bodies import GenerateRequest
from app.http.routes.answers import SCORE_BODY
from tests.api.errors_told import JSON, assert_error
from tests.api.large_bodies import GENERATE, LARGE, SCORE, content_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("path", "body", "field", "told"), LARGE.values(), ids=LARGE)
async def test_a_large_body_is_refused_by_its_first_faults(service, path, body, field, told):
    response = await service.client.post(path, content=content_of(body), headers=JSON)
    assert told in assert_error(response, 422, "invalid_request", field)
    assert len(response.content) < 2000


# Items are checked on their own.
WHOLE = {sent: case[:2] for sent, case in LARGE.items() if "items" not in case[1]}


@pytest.mark.parametrize(("path", "body"), WHOLE.values(), ids=WHOLE)
async def test_the_faults_of_a_large_body_are_few(path, body):
    adapter = {GENERATE: TypeAdapter(GenerateRequest), SCORE: SCORE_BODY}[path]
    with pytest.raises(ValidationError) as raised:
        adapter.validate_python(body)
    assert raised.value.error_count() < 100


async def test_a_large_item_is_refused_by_its_first_fault(service):
    (_, body, field, told), *_ = LARGE.values()
    response = await service.client.post(SCORE, json={"items": [body]})
    (outcome,) = response.json()["results"]
    assert outcome["error"]["field"] == field
    assert told in outcome["error"]["message"]
    assert len(response.content) < 2000


@pytest.mark.parametrize(("size", "beside"), [(100, False), (100_000, True)])
async def test_only_large_bodies_are_checked_beside_the_event_loop(
    service, monkeypatch, size, beside
):
    threads, loads = [], json.loads

    def watched(text, **options):
        threads.append(threading.current_thread().name)
        return loads(text, **options)

    monkeypatch.setattr(json_calls.json, "loads", watched)
    response = await service.client.post(SCORE, content=b" " * size + b"{}", headers=JSON)
    assert_error(response, 422, "invalid_request", "answer")
    assert threads[0].startswith("bodies") == beside  # the next ones are the client's


@pytest.mark.parametrize("text", ["[" * 30_000, '\\"[' * 20_000, "\\\\" + "{[" * 20_000])
async def test_brackets_of_a_text_are_no_lists(service, text):
    body = {"answer": "a", "samples": [{"text": text}]}
    content = json.dumps(body).encode()
    response = await service.client.post(SCORE, content=content, headers=JSON)
    assert "lists" not in response.text
    found = {"a": text, "b": [[]] * 20_000}
    response = await service.client.post(SCORE, content=json.dumps(found), headers=JSON)
    assert "lists and objects" in assert_error(response, 422, "invalid_request")


async def test_several_faults_are_told_at_once(service):
    response = await service.generate(num_samples=0, top_p=2, max_tokens=5, stop=[""])
    error = response.json()["error"]
    assert_error(response, 422, "invalid_request", "num_samples")
    assert [detail["field"] for detail in error["details"]] == [
        "num_samples",
        "top_p",
        "stop.0",
        "max_tokens",
    ]
    assert error["details"][0] == {"field": error["field"], "message": error["message"]}
    assert error["details"][3]["message"].endswith("did you mean max_new_tokens?")


async def test_of_many_faults_the_first_five_are_told(service):
    response = await service.generate(**{f"key_{number}": 1 for number in range(20)})
    assert len(response.json()["error"]["details"]) == 5


async def test_an_error_that_is_no_fault_of_a_body_has_no_details(service):
    response = await service.client.get("/nosuch")
    assert response.json()["error"]["details"] == []
