"""Our own client against what is not there, or is not the service."""

import pytest
from cocoa_client import errors

from tests.clients.cocoa_clients import KINDS, PROMPT, asking
from tests.worker_servers import listening

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())]


async def test_a_service_that_is_not_there_is_unreachable(kind):
    async with listening(None) as port:
        pass
    client = kind(f"http://127.0.0.1:{port}", max_retries=1)
    with pytest.raises(errors.Unreachable):
        await client.version()
    await client.aclose()


def answering(status, content=b"", headers=(), seen=None):
    """An application that says the same to everybody, and keeps the headers that it saw."""

    async def app(scope, receive, send):
        if seen is not None:
            seen.append(dict(scope["headers"]))
        start = {"type": "http.response.start", "status": status, "headers": list(headers)}
        await send(start)
        await send({"type": "http.response.body", "body": content})

    return app


async def test_the_key_is_sent_as_a_bearer_token(kind):
    seen = []
    app = answering(200, b'{"status": "alive"}', seen=seen)
    async with asking(kind, app, api_key="sesame") as client:
        await client.livez()
    assert seen[0][b"authorization"] == b"Bearer sesame"


@pytest.mark.parametrize(
    ("status", "content"),
    [(200, b"<html>"), (502, b"<html>"), (404, b'{"detail": "Not Found"}'), (200, b"{}")],
)
async def test_what_is_not_the_service_is_no_answer(kind, status, content):
    async with asking(kind, answering(status, content)) as client:
        with pytest.raises(errors.UnexpectedResponse):
            await client.readyz()


async def test_a_stream_that_breaks_off_is_no_answer(kind):
    begun = b'event: token\ndata: {"text": "Pa", "logprob": null, "entropy": null}\n\n'
    async with asking(kind, answering(200, begun)) as client:
        with pytest.raises(errors.Unreachable):
            await client.tokens_and_result(PROMPT)
