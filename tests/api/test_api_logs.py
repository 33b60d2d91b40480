"""What a request leaves behind in logs, metrics and errors.

It is one line, and never a word of the request's prompt, answer or key.
"""

import json
import socket
from dataclasses import dataclass

import pytest

from models.errors import EngineError
from tests.chaos.listening import listening
from tests.conftest import GENERATE, until
from tests.log_lines import logged

pytestmark = pytest.mark.anyio

MARKER = "sesame-4711"
KEY = {"Authorization": f"Bearer {MARKER}", "Cookie": f"session={MARKER}", "X-Api-Key": MARKER}


async def request_lines(client_call, level="info"):
    """Response, and the lines that its request has left."""
    with logged(level) as lines:
        response = await client_call
    told = [json.loads(line) for line in lines()]
    return response, [line for line in told if line["message"] == "request"]


async def test_a_request_leaves_one_line_with_its_id_route_status_and_seconds(service):
    response, (line,) = await request_lines(service.generate())
    assert 0 <= line.pop("seconds") < 300
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "app.http.middleware",
        "message": "request",
        "request_id": response.headers["x-request-id"],
        "route": GENERATE,
        "status": 200,
    }


async def post_text(service, text):
    return await service.client.post(
        GENERATE, content=text.encode(), headers=KEY | {"Content-Type": "application/json"}
    )


async def engine_fails(service):
    service.generation_raises(EngineError("a step failed"))
    return await service.generate()


async def engine_is_defect(service):
    service.generation_raises(RuntimeError(MARKER))
    return await service.generate()


FAILURES = {
    "no JSON": (lambda service: post_text(service, "{"), GENERATE, "invalid_json", "info"),
    "invalid": (
        lambda service: service.generate(num_samples=0),
        GENERATE,
        "invalid_request",
        "info",
    ),
    "too large": (
        lambda service: service.generate(prompt="x" * 1_000_001),
        "none",
        "body_too_large",
        "info",
    ),
    "unknown path": (lambda service: service.client.get("/nosuch"), "none", "not_found", "info"),
    "engine error": (engine_fails, GENERATE, "engine_error", "warning"),
    "defect": (engine_is_defect, GENERATE, "internal_error", "warning"),
}


@pytest.mark.parametrize(("call", "route", "code", "level"), FAILURES.values(), ids=FAILURES.keys())
async def test_the_line_of_a_failed_request_names_the_code_of_its_error(
    service, call, route, code, level
):
    response, (line,) = await request_lines(call(service))
    assert response.json()["error"]["code"] == code
    assert (line["route"], line["status"], line["code"], line["level"]) == (
        route,
        response.status_code,
        code,
        level,
    )
    assert line["request_id"] == response.headers["x-request-id"]


async def test_what_is_logged_within_a_request_carries_its_id(service):
    with logged() as lines:
        response = await engine_is_defect(service)
    defect, request = map(json.loads, lines())
    assert "RuntimeError" in defect["message"]
    assert defect["request_id"] == request["request_id"] == response.headers["x-request-id"]


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
async def test_what_is_asked_every_few_seconds_is_logged_at_debug_only(service, path):
    _, lines = await request_lines(service.client.get(path))
    assert lines == []
    _, (line,) = await request_lines(service.client.get(path), "debug")
    assert (line["route"], line["level"]) == (path, "debug")


@dataclass
class Quotes(Exception):
    """An exception of somebody else that quotes the request, with a cause that does too."""

    text: str

    def __str__(self):
        return self.text


def quoting_failure():
    error = Quotes(f"cannot process {MARKER!r}")
    error.__cause__ = ValueError(MARKER)
    return error


async def ask_everything(service):
    """Requests that succeed, that are refused, and that fail.

    All have the marker wherever a client can put it.
    """
    messages = [{"role": "system", "content": MARKER}, {"role": "user", "content": MARKER}]
    score = {
        "prompt": MARKER,
        "answer": MARKER,
        "samples": [{"text": MARKER}, {"text": f"{MARKER}!"}],
    }
    post, get = service.client.post, service.client.get
    yield await service.generate(prompt=MARKER, seed=1)
    yield await service.generate(messages=messages, seed=1)
    yield await post("/score", json=score, headers=KEY)
    yield await post("/score", json=score | {"answer": 5})
    yield await service.generate(
        prompt=MARKER, num_samples=MARKER, estimators=[MARKER], similarity=MARKER
    )
    yield await service.generate(prompt=MARKER, similarity=MARKER)
    yield await service.generate(prompt=f"{MARKER} " * 10_000)
    yield await service.generate(prompt=MARKER * 100_000)
    for text in (
        f'{{"prompt": "{MARKER}',
        f'"{MARKER}"',
        f"[{MARKER}]",
        f"\ufeff{MARKER}",
        f'{{"prompt": "{MARKER}", "top_p": NaN}}',
    ):
        yield await post_text(service, text)
    yield await post(GENERATE, content=b"\xff" + MARKER.encode(), headers={"Content-Type": MARKER})
    yield await get(f"/{MARKER}", headers=KEY)
    yield await get("/version", params={"key": MARKER}, headers=KEY)
    yield await service.client.delete(GENERATE, headers=KEY)
    for error in (quoting_failure(), EngineError("a step failed")):
        undo = service.generation_raises(error)
        yield await service.generate(prompt=MARKER, cache=False)
        undo()
    service.pair_model.score = raising(quoting_failure())
    yield await service.generate(prompt=MARKER, cache=False)


def raising(error):
    def score(pairs):
        raise error

    return score


@pytest.mark.parametrize("log_format", ["json", "text"])
async def test_no_word_of_a_prompt_an_answer_or_a_key_is_in_logs_metrics_or_errors(log_format):
    async with listening() as (service, port, gate):
        gate.opened.set()
        with logged("debug", log_format) as lines:
            responses = [response async for response in ask_everything(service)]
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(f"{MARKER} is no HTTP\r\n\r\n".encode())
                await until(lambda: any("Invalid HTTP request" in line for line in lines()))
            metrics = (await service.client.get("/metrics")).text
        log = "\n".join(lines())
    assert {response.status_code for response in responses} == {
        200,
        400,
        404,
        405,
        413,
        415,
        422,
        500,
        503,
    }
    answers = [response.json()["text"] for response in responses if "text" in response.json()]
    assert len(answers) == 3
    for told in (log, metrics, *(response.text for response in responses if response.is_error)):
        assert MARKER.lower() not in told.lower()
        assert not any(answer.strip() in told for answer in answers)
    assert "Quotes at " in log, "who reads it learns what failed"
