"""The second model: what it is sent, and that every failure of its server is one typed error."""

import httpx
import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from models.errors import EscalationFailed
from tests.worker_servers import listening
from workers.config import EscalationConfig
from workers.escalation import SecondModel

pytestmark = pytest.mark.anyio
ANSWER = {"choices": [{"message": {"content": "Paris"}}]}


async def asked(reply, status=200, refused=frozenset()):
    """What the second model answers, and the requests that its server got."""
    requests = []

    async def chat(request):
        requests.append((request.headers.get("authorization"), await request.json()))
        if "max_tokens" in refused & requests[-1][1].keys():
            return JSONResponse({"error": {"param": "max_tokens"}}, 400)
        return reply if isinstance(reply, Response) else JSONResponse(reply, status)

    app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
    async with listening(app) as port:
        config = EscalationConfig(f"http://127.0.0.1:{port}/v1", "large", SecretStr("key"))
        model = SecondModel(config)
        try:
            return await model.answer("Where?", None, max_tokens=8, timeout_s=None), requests
        finally:
            await model.close()


async def test_it_is_spoken_to_as_it_wants():
    answer, [_, (_, body)] = await asked(ANSWER, refused=frozenset({"max_tokens"}))
    assert (answer, body["max_completion_tokens"]) == ("Paris", 8)


@pytest.mark.parametrize(
    "content",
    [
        "<think>Of Peru?</think>Lima",
        [{"type": "thinking", "thinking": "Of Peru?"}, {"type": "text", "text": "Lima"}],
    ],
)
async def test_a_reasoning_is_no_part_of_its_answer(content):
    answer, _ = await asked({"choices": [{"message": {"content": content}}]})
    assert answer == "Lima"


async def test_an_azure_server_is_shown_the_key_in_its_own_header(monkeypatch):
    heads = []

    async def send(self, request, **options):
        heads.append(request.headers)
        raise httpx.ConnectError("no network", request=request)

    monkeypatch.setattr(httpx.AsyncClient, "send", send)
    url = "https://mine.openai.azure.com/openai/v1/"
    model = SecondModel(EscalationConfig(url, "large", SecretStr("key")))
    with pytest.raises(EscalationFailed, match="ConnectError"):
        await model.answer("Where?", None, max_tokens=8, timeout_s=1.0)
    assert (heads[0]["api-key"], heads[0].get("authorization")) == ("key", None)
    await model.close()


@pytest.mark.parametrize(
    ("reply", "status", "reason"),
    [
        ({}, 500, "status 500"),
        ({}, 200, "cannot be understood"),
        ({"choices": []}, 200, "it answers 0 choices in place of 1"),
        ({"choices": [{"message": {"content": None}}]}, 200, "no text"),
        (
            Response(rb'{"choices": [{"message": {"content": "\ud800"}}]}'),
            200,
            "it answers no JSON",
        ),
        (Response(b"[" * 5_000), 200, "it answers no JSON"),
        ({"choices": [{"message": {"content": "x" * 80_000}}]}, 200, "longer than 74752 bytes"),
    ],
    ids=[
        "an error",
        "no answer",
        "no choice",
        "no text",
        "a lone surrogate",
        "deep JSON",
        "endless text",
    ],
)
async def test_a_reply_without_an_answer_is_a_typed_error(reply, status, reason):
    with pytest.raises(EscalationFailed, match=reason):
        await asked(reply, status)


async def test_a_connection_that_ends_as_it_is_made_is_a_typed_error(monkeypatch):
    async def send(self, request, **options):
        raise AttributeError("get_extra_info")  # as on uvloop

    monkeypatch.setattr(httpx.AsyncClient, "send", send)
    model = SecondModel(EscalationConfig("http://127.0.0.1:1"))
    with pytest.raises(EscalationFailed, match="ConnectError"):
        await model.answer("Where?", None, max_tokens=8, timeout_s=1.0)
    await model.close()
