"""Errors of the service as our own client raises them, and what it repeats."""

import asyncio

import pytest
from cocoa_client import errors

from models.errors import EngineError, InvalidLogits, NotReady, Overloaded
from tests.clients.cocoa_clients import KINDS, OPTIONS, PROMPT, asking

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())]


@pytest.fixture
async def client(service, kind):
    async with asking(kind, service.app) as running:
        yield running


def fails_first(service, error, times):
    """Have the first generations fail."""
    left = [times]

    async def maybe_fail(request):
        left[0] -= 1
        if left[0] >= 0:
            raise error

    service.before_generating(maybe_fail)
    return left


async def test_an_error_is_an_exception_of_its_code(service, client):
    with pytest.raises(errors.InvalidRequest) as caught:
        await client.generate_with_uncertainty(PROMPT, num_samples=65)
    error = caught.value
    assert (error.code, error.status, error.field) == ("invalid_request", 422, "num_samples")
    assert error.details[0].field == "num_samples"
    assert error.request_id
    assert "num_samples" in str(error)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Overloaded("full", retry_after_s=0), None),
        (EngineError("broken"), None),
        (NotReady("loading"), None),
        (InvalidLogits("NaN"), errors.InvalidLogits),
    ],
    ids=["429", "503", "503 not ready", "500"],
)
async def test_what_passes_is_repeated_and_nothing_else(service, client, error, expected):
    left = fails_first(service, error, 2)
    if expected is None:
        assert (await client.generate_with_uncertainty(PROMPT, **OPTIONS)).text
        assert left == [-1]
    else:
        with pytest.raises(expected):
            await client.generate_with_uncertainty(PROMPT, **OPTIONS)
        assert left == [1]


async def test_a_stream_is_repeated_until_it_has_begun(service, client):
    left = fails_first(service, EngineError("broken"), 1)
    tokens, result = await client.tokens_and_result(PROMPT, **OPTIONS)
    assert tokens
    assert result.text == "".join(token.text for token in tokens)
    assert left == [-1]


async def test_an_error_in_a_stream_is_raised_where_it_is_read(service, client):
    generate = service.generator.generate

    async def failing(request, on_token=None):
        await generate(request, on_token)
        await asyncio.sleep(0.05)
        raise EngineError("broken")

    service.generator.generate = failing
    with pytest.raises(errors.EngineError) as caught:
        await client.tokens_and_result(PROMPT, **OPTIONS)
    assert caught.value.request_id


async def test_a_retry_after_beyond_the_deadline_is_not_waited_for(service, client):
    left = fails_first(service, Overloaded("full", retry_after_s=3600), 1)
    with pytest.raises(errors.Overloaded) as caught:
        await client.generate_with_uncertainty(PROMPT, **OPTIONS)
    assert caught.value.retry_after_s == 3600
    assert left == [0]


async def test_the_deadline_of_a_call_is_the_service_s_too(service, client):
    told = []

    async def wait(request):
        told.append(request)
        await asyncio.sleep(3600)

    service.before_generating(wait)
    with pytest.raises(errors.DeadlineExceeded):
        await client.generate_with_uncertainty(PROMPT, timeout_s=0.5, **OPTIONS)
    assert len(told) == 1
    with pytest.raises(errors.DeadlineExceeded):
        await client.tokens_and_result(PROMPT, timeout_s=0.5, **OPTIONS)
