"""OpenAI's own client for Python before a service with keys: its errors, and what it repeats."""

import time
from contextlib import asynccontextmanager

import openai
import pytest
from openai import AsyncOpenAI

from tests.chaos.listening import listening
from tests.made_keys import key_of, keys_in

pytestmark = pytest.mark.anyio

MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]
ASKED = {"model": "cocoa", "messages": MESSAGES, "max_completion_tokens": 64, "seed": 1}


@asynccontextmanager
async def client_of(folder, name="one", max_retries=0, **limits):
    """A service over fake models where "one" has limits, and a client with the key of a name."""
    keys = keys_in(folder, one=limits, other={})
    async with listening(access={"keys": keys}) as (service, port, gate):
        gate.opened.set()
        url = f"http://127.0.0.1:{port}/v1"
        async with AsyncOpenAI(
            base_url=url, api_key=key_of(name), max_retries=max_retries
        ) as client:
            yield service, client


async def test_the_clients_key_gets_in_whole_and_streamed(tmp_path):
    async with client_of(tmp_path) as (_, client):
        whole = await client.chat.completions.create(**ASKED)
        streamed = await client.chat.completions.create(**ASKED, stream=True)
        assert [chunk async for chunk in streamed][-1].choices[0].uncertainty
        assert whole.choices[0].uncertainty
        assert [model.id async for model in client.models.list()]


async def test_another_key_is_an_authentication_error(tmp_path):
    async with client_of(tmp_path, name="nosuch") as (_, client):
        with pytest.raises(openai.AuthenticationError) as refused:
            await client.chat.completions.create(**ASKED)
        with pytest.raises(openai.AuthenticationError):
            await client.models.list()
    assert (refused.value.code, refused.value.type) == ("unauthorized", "authentication_error")


async def test_a_mode_that_the_key_is_not_good_for_is_a_permission_error(tmp_path):
    async with client_of(tmp_path, modes=["light"]) as (_, client):
        with pytest.raises(openai.PermissionDeniedError) as refused:
            await client.chat.completions.create(**ASKED)
    assert (refused.value.code, refused.value.param) == ("forbidden", "uncertainty.mode")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_limit_of_the_key_is_a_rate_limit_error_which_says_when(tmp_path, stream):
    async with client_of(tmp_path, requests_per_minute=1) as (_, client):
        await client.models.list()
        with pytest.raises(openai.RateLimitError) as refused:
            await client.chat.completions.create(**ASKED, stream=stream)
    assert (refused.value.code, refused.value.type) == ("rate_limited", "rate_limit_error")
    assert "1 requests a minute" in refused.value.message
    assert 50 < int(refused.value.response.headers["retry-after"]) <= 60


async def test_the_client_waits_as_long_as_a_limit_says_and_then_gets_in(tmp_path):
    limits = {"requests_per_minute": 30}
    async with client_of(tmp_path, max_retries=2, **limits) as (service, client):
        service.core.access.charge("one", requests=30)
        began = time.monotonic()
        answered = await client.chat.completions.create(**ASKED)
    assert answered.choices[0].uncertainty
    assert time.monotonic() - began >= 1.9, "two seconds a request"


async def test_what_one_key_has_cached_the_client_of_another_computes(tmp_path):
    async with client_of(tmp_path) as (_, client):
        other = client.with_options(api_key=key_of("other"))

        async def is_cached(of):
            raw = await of.chat.completions.with_raw_response.create(**ASKED)
            return raw.http_response.json()["choices"][0]["uncertainty"]["cached"]

        assert [await is_cached(of) for of in (client, client, other, other)] == [
            False,
            True,
            False,
            True,
        ]
