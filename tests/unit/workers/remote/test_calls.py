"""How a server of others is named: its URL, and the model that it lists."""

import json
from contextlib import asynccontextmanager

import pytest

from workers.config import ServerAddress
from workers.remote.calls import Calls, listed_model
from workers.remote.client import Refused, Response, Unreachable

pytestmark = pytest.mark.anyio


class Answering:
    """A client whose server lists models so."""

    def __init__(self, status, content):
        self._status, self._content = status, content

    @asynccontextmanager
    async def stream(self, method, path):
        assert (method, path) == ("GET", "/v1/models")
        yield Response("GET /v1/models", self._status, {}, self._chunks())

    async def _chunks(self):
        yield self._content


async def listed(wanted, *names, is_bare=False):
    entries = [{"id": name} for name in names]
    content = json.dumps(entries if is_bare else {"data": entries}).encode()
    return (await listed_model(Calls(Answering(200, content)), wanted))["id"]


@pytest.mark.parametrize(
    ("wanted", "names", "expected"),
    [
        ("", ["llama3:latest", "qwen"], "llama3:latest"),
        ("qwen", ["llama3:latest", "qwen"], "qwen"),
        ("llama3", ["qwen", "llama3:latest"], "llama3:latest"),
        ("llama3", ["llama3:latest", "llama3"], "llama3"),
        ("meta/llama:nitro", ["meta/llama"], "meta/llama:nitro"),
        ("openai/gpt-4o", ["anthropic/*", "openai/*"], "openai/gpt-4o"),
        ("/models/mine", ["qwen"], "/models/mine"),
        ("./mine", ["qwen"], "./mine"),
        ("mine", [], "mine"),
    ],
)
async def test_a_model_is_found_by_its_name_or_as_the_latest_of_it(wanted, names, expected):
    assert await listed(wanted, *names) == expected
    assert await listed(wanted, *names, is_bare=True) == expected


async def test_a_model_that_is_not_listed_is_refused_with_those_that_are():
    with pytest.raises(Refused, match=r"it lists llama3:8b, qwen$"):
        await listed("llama3", "llama3:8b", "qwen")


@pytest.mark.parametrize(
    ("status", "content", "is_taken"),
    [
        (403, b"{}", True),
        (404, b"{}", True),
        (501, b"{}", True),
        (200, b"<html>", True),
        (200, b"[]", True),
        (200, b'{"object": "list"}', True),
        (200, b'{"data": null}', True),
        (200, b'{"data": []}', True),
        (500, b"{}", True),
        (503, b"{}", False),
    ],
)
async def test_where_there_is_no_list_of_models_the_named_one_is_taken(status, content, is_taken):
    calls = Calls(Answering(status, content))
    if is_taken:
        assert await listed_model(calls, "mine") == {"id": "mine"}
        told = "it refuses the API key" if status == 403 else "it lists no models"
        with pytest.raises((Refused, Unreachable), match=told):
            await listed_model(calls, "")
        return
    with pytest.raises(Unreachable):
        await listed_model(calls, "mine")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a:8000/v1", "http://a:8000"),
        ("http://b/api/v1/", "http://b/api"),
        ("http://a/", "http://a"),
        ("http://a/v10", "http://a/v10"),
        ("http://a/v1/chat/completions", "http://a"),
        ("http://a/v1/completions/", "http://a"),
        ("http://a/v1/embeddings", "http://a"),
        ("http://a/openai/deployments/x/chat/completions", "http://a/openai/deployments/x"),
        ("http://a/models/chat/completions", "http://a/models"),
    ],
)
def test_a_url_may_end_in_the_path_of_the_api(url, expected):
    assert ServerAddress(url=url).base_url == expected
