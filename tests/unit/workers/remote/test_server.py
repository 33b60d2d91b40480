"""The worker's side of the wire, asked by a client that is no gateway."""

import asyncio
import json

import httpx
import pytest
from pydantic import SecretStr

from app.settings import Settings
from app.worker import create_worker_app
from models.codec import to_json
from models.records import GenerationRequest, SamplingParams
from tests.fakes.engine import FakeEngine
from tests.worker_servers import make_app, running
from workers.config import ServerConfig
from workers.generation import GenerationWorker
from workers.protocol import Served
from workers.remote import wire
from workers.remote.server import _lines

pytestmark = pytest.mark.anyio
HEADERS = {wire.WIRE_HEADER: str(wire.VERSION)}
NONE = to_json({"similarity_scorer": None, "texts": []})
BODY = wire.encode_request(
    GenerationRequest("Hello", sampling=SamplingParams(num_samples=0)), streams=False
)


class Failing:
    """A generator whose calls end as the test says."""

    def __init__(self, error):
        self.error = error

    async def generate(self, request, on_token=None):
        raise self.error


def client_of(served, on_defect=lambda error: None):
    app = make_app(lambda: served, on_defect=on_defect)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://worker")


def _json(response):
    """The one line of an answer, behind its digest."""
    kind, content = wire.decode_line(response.content, wire.digest_of_call("/v1/generate", BODY))
    return {kind: json.loads(content)}


async def code_of(response):
    return response.status_code, response.json()["error"]["code"]


@pytest.mark.parametrize(
    ("path", "changes", "expected"),
    [
        ("generate", {"headers": {}}, (400, "wire_mismatch")),
        ("generate", {"headers": {wire.WIRE_HEADER: "8"}}, (400, "wire_mismatch")),
        ("generate", {"content": b"{}"}, (400, "wire_mismatch")),
        ("generate", {"content": b"\xff"}, (400, "wire_mismatch")),
        ("generate", {"headers": HEADERS | {wire.TIMEOUT_HEADER: "nan"}}, (400, "wire_mismatch")),
        ("generate", {"headers": HEADERS | {wire.TIMEOUT_HEADER: "soon"}}, (400, "wire_mismatch")),
        ("compare", {"content": wire.encode_compare("fake", [])}, (422, "invalid_request")),
        ("fit-contexts", {"content": NONE}, (422, "invalid_request")),
        ("token-ends", {"content": to_json([])}, (422, "invalid_request")),
    ],
)
async def test_a_call_that_cannot_be_taken_is_refused_before_any_work(path, changes, expected):
    engine = FakeEngine()
    given = {"headers": HEADERS, "content": BODY} | changes
    async with (
        running(GenerationWorker(engine)) as generator,
        client_of(Served(generator=generator)) as client,
    ):
        assert await code_of(await client.post(f"/v1/{path}", **given)) == expected
    assert engine.num_calls == 0


async def test_nothing_is_served_before_the_model_is_there():
    async with client_of(None) as client:
        assert await code_of(await client.get("/v1/info")) == (503, "not_ready")
        response = await client.post("/v1/generate", headers=HEADERS, content=BODY)
        assert await code_of(response) == (503, "not_ready")
        assert response.headers["retry-after"] == "1"


async def test_a_deadline_that_the_header_brings_ends_the_work():
    async with client_of(Served(generator=GenerationWorker(FakeEngine()))) as client:
        headers = HEADERS | {wire.TIMEOUT_HEADER: "0.05"}  # its loop does not run
        response = await client.post("/v1/generate", headers=headers, content=BODY)
    assert _json(response)["error"]["code"] == "deadline_exceeded"


async def test_a_defect_is_told_here_and_answered_without_its_text():
    defects = []
    error = RuntimeError("secret prompt")
    async with client_of(Served(generator=Failing(error)), defects.append) as client:
        response = await client.post("/v1/generate", headers=HEADERS, content=BODY)
    assert defects == [error]
    assert "secret" not in response.text
    assert _json(response)["error"]["code"] == "engine_error"


async def test_work_that_takes_long_says_that_it_goes_on_and_ends_with_its_reader(monkeypatch):
    monkeypatch.setattr(wire, "HEARTBEAT_S", 0.01)
    ended = asyncio.Event()

    async def work(on_token):
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    lines = _lines(work, b"", lambda error: None)
    assert [await anext(lines) for _ in range(3)] == [wire.HEARTBEAT] * 3
    await lines.aclose()
    assert ended.is_set()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer other"}, 401),
        ({"Authorization": "Bearer new,old"}, 401),
        ({"Authorization": "Bearer new"}, 400),
        ({"Authorization": "Bearer old"}, 400),
    ],
    ids=["no secret", "another", "both at once", "another wire", "the old one"],
)
async def test_nothing_of_a_body_is_read_before_its_head_is_good(headers, status):
    settings = Settings(worker=ServerConfig(api_key=SecretStr("new,old")))
    app = create_worker_app("generation", settings, on_death=lambda: None)
    sent = []

    async def receive():
        pytest.fail("its body was read")

    async def send(message):
        sent.append(message)

    scope = scope_of("/v1/generate", headers)
    await app(scope, receive, send)
    assert sent[0]["status"] == status
    assert (b"connection", b"close") in sent[0]["headers"]


def scope_of(path, headers):
    given = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [*given, (b"content-length", b"60000000")],
    }
