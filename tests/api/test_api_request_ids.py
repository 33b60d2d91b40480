"""Ids of requests: a good one of the client is kept, any other is replaced."""

import re

import pytest

from tests.api.errors_told import assert_error
from tests.conftest import GENERATE

pytestmark = pytest.mark.anyio

BODY = {"prompt": "Hi", "max_new_tokens": 8}


@pytest.mark.parametrize(
    "given", ["a", "req-1/~!", "x" * 128], ids=["short", "punctuation", "long"]
)
async def test_a_good_request_id_of_the_client_is_kept(service, given):
    response = await service.client.post(GENERATE, json=BODY, headers={"x-request-id": given})
    assert response.headers.get_list("x-request-id") == [given]
    assert response.json()["id"] == given
    refused = await service.client.post(GENERATE, json={}, headers={"x-request-id": given})
    assert assert_error(refused, 422, "invalid_request", "prompt")
    assert refused.headers.get_list("x-request-id") == [given]


@pytest.mark.parametrize(
    "given",
    [b"", b"with blanks", b"x" * 129, b"\xff", b"tab\there"],
    ids=["empty", "blank", "long", "bytes", "tab"],
)
async def test_a_bad_request_id_of_the_client_is_replaced(service, given):
    response = await service.client.post(GENERATE, json=BODY, headers={b"x-request-id": given})
    assert re.fullmatch("[0-9a-f]{32}", response.headers["x-request-id"])
    assert response.json()["id"] == response.headers["x-request-id"]


async def test_two_requests_have_two_ids(service):
    first, second = await service.generate(), await service.generate()
    assert first.json()["id"] != second.json()["id"]
