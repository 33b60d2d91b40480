"""Tools for agents, by the SDK's client: over HTTP, as of earlier revisions, and over stdio."""

import os
import sys
from contextlib import asynccontextmanager

import httpx
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.chaos.cocoa_process import cocoa_serve, environment_of
from tests.made_keys import bearer, keys_toml

pytestmark = pytest.mark.anyio
PROMPT = {"question": "Where is Pirot?", "as_prompt": True}
QUESTION = PROMPT | {"max_new_tokens": 8}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A service with the tools, whose keys are those of "a" and, in light mode only, of "light"."""
    folder = tmp_path_factory.mktemp("mcp")
    keys = folder / "keys.toml"
    keys.write_text(keys_toml(a={}, light={"modes": ["light"]}, few={"requests_per_minute": 3}))
    with cocoa_serve(
        COCOA_MCP="true",
        COCOA_GENERATION__ENGINE="fake",
        COCOA_FEEDBACK__PATH=str(folder / "labels.jsonl"),
        COCOA_KEYS__FILE=str(keys),
    ) as service:
        service.wait_ready()
        yield service.url


@asynccontextmanager
async def client(url, name, mode="auto"):
    async with httpx2.AsyncClient(headers=bearer(name), timeout=30) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as tools:
            yield tools


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_answer_is_asked_and_reported_under_a_key(url, mode):
    async with client(url, "a", mode) as tools:
        answered = (await tools.call_tool("answer", QUESTION)).structured_content
        assert answered["uncertainty"] is not None
        checked = await tools.call_tool("check", PROMPT | {"answer": answered["text"]})
        assert checked.structured_content["text"] == answered["text"]
        held = {"answer": answered["text"], "documents": [answered["text"]], "target_error": 0.1}
        told = await tools.call_tool("check", {"question": "Where is Pirot?"} | held)
        assert "target_error" in told.content[0].text  # as without documents: nothing is calibrated
        del held["target_error"]
        told = await tools.call_tool("check", {"question": "Where is Pirot?"} | held)
        assert told.structured_content["uncertainty"] is not None
        assert told.structured_content["sentences"][0]["document"] == 0
        assert told.structured_content["grounded"] == 1.0
        label = {"id": answered["id"], "correct": True}
        assert not (await tools.call_tool("report", label)).is_error
    async with client(url, "light", mode) as tools:
        of_another_key = await tools.call_tool("report", label)
        assert "unknown_answer" in of_another_key.content[0].text
        refused = await tools.call_tool("answer", QUESTION)
        assert "this key" in refused.content[0].text
    async with httpx.AsyncClient() as http:
        metrics = (await http.get(f"{url}/metrics")).text
    assert 'cocoa_requests_total{route="/mcp",status="200"}' in metrics


def test_without_a_key_or_beyond_its_limits_nothing_is_called(url):
    assert httpx.post(f"{url}/mcp", json={}).status_code == 401
    statuses = []
    for _ in range(4):
        statuses.append(httpx.post(f"{url}/mcp", json={}, headers=bearer("few")).status_code)
    assert statuses[3] == 429
    assert 429 not in statuses[:3]


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"jsonrpc": "2.0"}', b"\xff", b"7"])
async def test_a_hostile_body_is_refused_and_the_service_lives(url, body):
    headers = bearer("a") | {"Content-Type": "application/json", "Accept": "application/json"}
    async with httpx.AsyncClient() as http:
        response = await http.post(f"{url}/mcp", content=body, headers=headers)
    assert 400 <= response.status_code < 500, response.text
    async with client(url, "a") as tools:
        assert not (await tools.call_tool("answer", QUESTION)).is_error


@pytest.mark.parametrize(
    "accept", [None, "*/*", "application/json", "application/json, text/event-stream"]
)
def test_a_client_may_say_what_it_reads_or_leave_that_out(url, accept):
    with httpx.Client(headers=bearer("a")) as http:
        del http.headers["accept"]
        headers = {"Accept": accept} if accept else {}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        for revision in ({}, {"MCP-Protocol-Version": "2025-06-18"}):
            response = http.post(f"{url}/mcp", json=body, headers=headers | revision)
            assert response.status_code == 200, response.text
            assert len(response.json()["result"]["tools"]) == 4


def test_there_is_no_stream_of_what_the_service_says_unasked(url):
    headers = bearer("a") | {"Accept": "text/event-stream"}
    response = httpx.get(f"{url}/mcp", headers=headers)
    assert (response.status_code, response.headers["allow"]) == (405, "POST")


def stdio(**environment):
    arguments = ["-m", "tests.chaos.cocoa_with_bad_engines", "mcp"]
    return StdioServerParameters(
        command=sys.executable,
        args=[*arguments, *environment.pop("arguments", ())],
        env=environment_of(**environment),
        cwd=os.getcwd(),
    )


@pytest.mark.parametrize("is_remote", [False, True])
async def test_an_agent_starts_the_command_and_asks(url, is_remote):
    server = stdio(COCOA_GENERATION__ENGINE="fake")
    if is_remote:
        key = bearer("a")["Authorization"].removeprefix("Bearer ")
        server = stdio(arguments=["--url", url], COCOA_ASK_KEY=key)
    async with Client(server) as tools:
        answered = (await tools.call_tool("answer", QUESTION)).structured_content
        assert answered["uncertainty"] is not None


async def test_a_service_that_is_away_is_an_error_of_the_tool():
    async with Client(stdio(arguments=["--url", "http://127.0.0.1:9"])) as tools:
        result = await tools.call_tool("answer", QUESTION)
        assert result.is_error
        assert "generation_unavailable" in result.content[0].text
