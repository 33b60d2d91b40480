"""Spellings of headers and paths by which nobody gets in without a key."""

import base64

import pytest

from app.plugins.keys.records import digest_of
from tests.api.keyed import PROMPT, with_keys
from tests.api.test_api_hostile import post
from tests.conftest import GENERATE
from tests.made_keys import key_of

pytestmark = pytest.mark.anyio

KEY = key_of("one").encode()
BODY = b'{"prompt": "%b", "max_new_tokens": 8}' % PROMPT.encode()
AUTHORIZATION = [
    b"",
    b"Bearer",
    b"Bearer:" + KEY,
    b"Bearer=" + KEY,
    b"Bearer\xa0" + KEY,
    b"Bearer\x00" + KEY,
    b"Bearer " + KEY + b"\x00",
    b"Bearer " + KEY + b" " + KEY,
    b"Bearer " + KEY + b", Bearer " + KEY,
    b'Bearer "' + KEY + b'"',
    b"Bearer <" + KEY + b">",
    b"Bearer " + KEY.upper(),
    b"Bearer " + KEY.replace(b"-", b"%2d"),
    b"Bearer " + KEY[1:],
    b"Bearer " + KEY * 1000,
    b"Bearer " + digest_of(key_of("one")).encode(),
    b"Bearer " + base64.b64encode(KEY),
    b"Bearer one",
    b"Bearer *",
    b"Bearer null",
    b"Bearer Bearer " + KEY,
    b"Token " + KEY,
    b"Digest " + KEY,
    b"Basic " + base64.b64encode(b"one:" + KEY),
    b"Basic " + base64.b64encode(b":" + KEY),
    b"Bearerr " + KEY,
    b"\xef\xbb\xbfBearer " + KEY,
    KEY + b" Bearer",
]
ELSEWHERE = [b"x-api-key", b"api-key", b"cookie", b"proxy-authorization"]
ELSEWHERE += [b"x-forwarded-authorization", b"authorization "]
PATHS = [
    GENERATE + "/",
    GENERATE + "//",
    "/" + GENERATE,
    "//" + GENERATE,
    "/." + GENERATE,
    "/.." + GENERATE,
    "/docs" + GENERATE,
    "/docs/.." + GENERATE,
    "/livez/.." + GENERATE,
    "/page/.." + GENERATE,
    "/page/../.." + GENERATE,
    "/page" + GENERATE,
    "/page/" + GENERATE,
    "/page/%2e%2e" + GENERATE,
    "/page/..%2f" + GENERATE[1:],
    "/page\\.." + GENERATE,
    "/static-offline-docs/.." + GENERATE,
    "/static-offline-docs" + GENERATE,
    "/static-offline-docs/%2e%2e" + GENERATE,
    "/openapi.json" + GENERATE,
    "/metrics;" + GENERATE,
    GENERATE + ";/livez",
    GENERATE + "?/livez",
    GENERATE + "#/livez",
    GENERATE + "/livez",
    GENERATE + "/../livez",
    GENERATE + "%00",
    GENERATE + "\x00",
    GENERATE + " ",
    GENERATE + "%20",
    GENERATE + ".json",
    GENERATE.upper(),
    GENERATE.replace("-", "%2d"),
    GENERATE.replace("/", "\\"),
    "http://cocoa" + GENERATE,
]


@pytest.fixture
async def service(anyio_backend, tmp_path):
    async with with_keys(tmp_path, one={}) as running:
        yield running


async def sent(service, path, headers):
    """The status of what was sent."""
    headers = [(b"content-type", b"application/json"), *headers]
    status, _, _ = await post(service.app, path, BODY, headers=headers)
    return status


async def test_no_spelling_of_the_header_but_the_one_gets_in(service):
    for value in AUTHORIZATION:
        assert await sent(service, GENERATE, [(b"authorization", value)]) == 401, value
    for name in ELSEWHERE:
        for value in (KEY, b"Bearer " + KEY):
            assert await sent(service, GENERATE, [(name, value)]) == 401, name
    assert service.engine.num_calls == 1, "only the warm-up"
    assert await sent(service, GENERATE, [(b"authorization", b"Bearer " + KEY)]) == 200


async def test_no_spelling_of_a_path_gets_in_without_a_key(service):
    for path in PATHS:
        assert await sent(service, path, []) in (401, 404, 405), path
    assert service.engine.num_calls == 1, "only the warm-up"
