"""What is read as JSON over HTTP, and up to which size."""

import gzip
import json
import zlib

import pytest

from app.settings import Limits
from tests.api.errors_told import JSON, assert_error
from tests.conftest import GENERATE, serving

pytestmark = pytest.mark.anyio

BAD_JSON = {
    "empty": b"{",
    "text": b"What is the capital of France?",
    "trailing comma": b'{"prompt": "a",}',
    "not UTF-8": b'{"prompt": "\xff\xfe"}',
    "nested 9000 deep": b'{"prompt": ' + b"[" * 9000 + b"]" * 9000 + b"}",
    "an integer of 5000 digits": b'{"prompt": "a", "seed": ' + b"1" * 5000 + b"}",
}


@pytest.mark.parametrize("content", BAD_JSON.values(), ids=list(BAD_JSON.keys()))
async def test_a_body_that_is_no_json_is_refused_with_400(service, content):
    response = await service.client.post(GENERATE, content=content, headers=JSON)
    assert_error(response, 400, "invalid_json")


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (b'{prompt: "a"}', "line 1, column 2"),
        (b'{\n "prompt": "a"\n "seed": 1}', "line 3, column 2"),
        ('{"prompt": "żółć"'.encode(), "line 1, column 18"),
        (b"prompt", "line 1, column 1"),
    ],
    ids=["no quotes", "no comma", "not ended", "no JSON"],
)
async def test_a_broken_body_is_told_where_it_is_broken(service, content, place):
    response = await service.client.post(GENERATE, content=content, headers=JSON)
    error = assert_error(response, 400, "invalid_json")
    assert error == f"the body is not valid JSON at {place}"


@pytest.mark.parametrize("headers", [{}, {"content-type": "text/plain"}], ids=["none", "text"])
async def test_json_that_is_not_declared_as_json_is_read(service, headers):
    content = b'{"prompt": "Hi", "max_new_tokens": 8}'
    response = await service.client.post(GENERATE, content=content, headers=headers)
    assert response.status_code == 200


@pytest.mark.parametrize("content", [*BAD_JSON.values(), b"prompt=Hi"], ids=[*BAD_JSON, "a form"])
async def test_what_is_neither_json_nor_declared_as_such_is_told_what_to_send(service, content):
    headers = {"content-type": "application/x-www-form-urlencoded"}
    response = await service.client.post(GENERATE, content=content, headers=headers)
    assert "application/json" in assert_error(response, 415, "unsupported_media_type")


TWICE = {
    "a field": ("seed", '{"prompt": "Hi", "seed": 1, "seed": 2}'),
    "a field with the same value": ("prompt", '{"prompt": "Hi", "prompt": "Hi"}'),
    "spelled in two ways": ("prompt", '{"prompt": "Hi", "pro\\u006dpt": "Ho"}'),
    "within another": ("role", '{"messages": [{"role": "user", "content": "Hi", "role": "tool"}]}'),
    "in a large body": ("seed", '{"prompt": "' + "Hi" * 20_000 + '", "seed": 1, "seed": 2}'),
}


@pytest.mark.parametrize(("name", "body"), TWICE.values(), ids=list(TWICE))
@pytest.mark.parametrize("path", [GENERATE, "/score", "/v1/chat/completions", "/v1/responses"])
async def test_a_name_that_comes_twice_is_refused_and_neither_is_ignored(service, path, name, body):
    response = await service.client.post(path, content=body, headers=JSON)

    assert response.status_code == 422
    assert response.json()["error"]["message"] == f"the body names '{name}' twice in one object"


async def test_no_body_at_all_is_an_invalid_request(service):
    assert_error(await service.client.post(GENERATE), 422, "invalid_request")


@pytest.mark.parametrize(
    ("unknown", "meant"),
    [
        ("max_tokens", "max_new_tokens"),
        ("n", "num_samples"),
        ("num_sample", "num_samples"),
        ("temperatures", "temperature"),
        ("estimators_", "estimators"),
    ],
)
async def test_an_unknown_field_names_the_one_that_was_meant(service, unknown, meant):
    response = await service.generate(**{unknown: 1})
    message = assert_error(response, 422, "invalid_request", unknown)
    assert message.endswith(f"did you mean {meant}?")


async def test_an_unknown_field_like_no_other_names_none(service):
    response = await service.generate(zebra=1)
    assert "mean" not in assert_error(response, 422, "invalid_request", "zebra")


async def chunks():
    for _ in range(64):
        yield b"x" * 64


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        pytest.param(b"x" * 1025, {}, id="as its length says"),
        pytest.param(chunks(), {}, id="chunked"),
        pytest.param(b"{}", {"content-length": "1025"}, id="by its declared length alone"),
    ],
)
async def test_a_body_above_the_limit_is_refused_with_413(content, headers):
    async with serving(limits=Limits(max_body_bytes=1024)) as service:
        response = await service.client.post(GENERATE, content=content, headers=JSON | headers)
        assert "1024" in assert_error(response, 413, "body_too_large")
        assert (
            'cocoa_errors_total{code="body_too_large"} 1.0'
            in (await service.client.get("/metrics")).text
        )


async def test_a_body_of_exactly_the_limit_is_read():
    async with serving(limits=Limits(max_body_bytes=1024)) as service:
        body = json.dumps({"prompt": "a", "max_new_tokens": 8}).encode().ljust(1024)
        assert (await service.client.post(GENERATE, content=body, headers=JSON)).status_code == 200


PLAIN = b'{"prompt": "Hi", "max_new_tokens": 8}'
GZIP, DEFLATE = gzip.compress(PLAIN), zlib.compress(PLAIN)
BROKEN = 400, "invalid_json", "is not whole gzip"
UNREAD = 415, "unsupported_media_type"
# encoding, what is sent, and the error: status, code, words; None where it is read
COMPRESSED = {
    "gzip": ("gzip", GZIP, None),
    "its old name": ("X-GZip", GZIP, None),
    "deflate": ("deflate", DEFLATE, None),
    "none": ("identity", PLAIN, None),
    "of exactly the limit": ("gzip", gzip.compress(PLAIN.ljust(1024)), None),
    "nothing": ("gzip", b"", (422, "invalid_request", "the body is missing")),
    "one byte too many": ("gzip", gzip.compress(bytes(1025)), (413, "body_too_large", "1024")),
    "a thousand times as large": (
        "gzip",
        gzip.compress(bytes(600_000)),
        (413, "body_too_large", "1024 bytes once it is unpacked"),
    ),
    "not compressed": ("gzip", PLAIN, BROKEN),
    "cut": ("gzip", GZIP[:-4], BROKEN),
    "a wrong sum": ("gzip", GZIP[:-8] + bytes(8), BROKEN),
    "bytes behind its end": ("gzip", GZIP + GZIP, BROKEN),
    "br": ("br", b"x", (*UNREAD, "Content-Encoding 'br' is not read: send gzip or deflate")),
    "zstd": ("zstd", b"x", (*UNREAD, "'zstd'")),
    "several": ("gzip, gzip", gzip.compress(GZIP), (*UNREAD, "'gzip, gzip'")),
}


@pytest.mark.parametrize(("encoding", "content", "error"), COMPRESSED.values(), ids=COMPRESSED)
async def test_a_compressed_body_is_read_under_the_limit_or_refused_by_name(
    encoding, content, error
):
    async with serving(limits=Limits(max_body_bytes=1024)) as service:
        headers = JSON | {"content-encoding": encoding}
        response = await service.client.post(GENERATE, content=content, headers=headers)
    if error is None:
        assert response.status_code == 200
        return
    status, code, words = error
    assert words in assert_error(response, status, code)
    assert ("accept-encoding" in response.headers) == (status == 415)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
async def test_json_in_another_encoding_than_utf_8_is_refused(service, encoding):
    content, headers = '{"prompt": "Hi", "max_new_tokens": 8}', {"content-type": "application/json"}
    refused = await service.client.post(GENERATE, content=content.encode(encoding), headers=headers)
    marked = await service.client.post(
        GENERATE, content=content.encode("utf-8-sig"), headers=headers
    )
    assert_error(refused, 400, "invalid_json", None)
    assert marked.status_code == 200
