"""Pages of other origins: closed to them, unless a list names them."""

import pytest

from tests.api.errors_told import assert_error
from tests.conftest import GENERATE, serving
from tests.made_keys import bearer, keys_in

pytestmark = pytest.mark.anyio

APP, OTHER = "https://app.example", "https://other.example"
# What a browser asks before a page may send a key and JSON.
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-stainless-lang",
}
ALLOWS = "access-control-allow-origin"


@pytest.fixture
async def service(anyio_backend, tmp_path):
    """The service with keys, open to one origin."""
    access = {"keys": keys_in(tmp_path, one={"requests_per_minute": 2}), "cors_origins": (APP,)}
    async with serving(access=access) as running:
        yield running


async def ask(service, origin, headers):
    body = {"prompt": "Hi", "max_new_tokens": 8}
    return await service.client.post(GENERATE, json=body, headers={"Origin": origin} | headers)


async def test_by_default_no_page_is_let_in():
    async with serving() as service:
        calls = service.engine.num_calls
        response = await ask(service, APP, {})
        assert "COCOA_CORS_ORIGINS" in assert_error(response, 403, "forbidden")
        assert not [name for name in response.headers if name.startswith("access-control-")]
        preflight = await service.client.options(GENERATE, headers={"Origin": APP} | PREFLIGHT)
        assert_error(preflight, 403, "forbidden")
        assert service.engine.num_calls == calls


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": OTHER},
        {"Host": "other.example:8000", "Origin": "http://other.example:8000"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
    ],
    ids=["a foreign page", "a foreign name that leads here", "a form in a frame"],
)
async def test_plain_text_of_a_foreign_page_is_refused_without_keys(headers):
    async with serving() as service:
        calls = service.engine.num_calls
        headers = headers | {"Content-Type": "text/plain"}
        body = b'{"prompt": "Hi", "model": "cocoa"}'
        for path in (GENERATE, "/v1/completions", "/score", "/feedback"):
            response = await service.client.post(path, content=body, headers=headers)
            error = response.json()["error"]
            assert (response.status_code, error["code"]) == (403, "forbidden"), path
        assert service.engine.num_calls == calls


async def test_a_foreign_name_that_leads_here_reads_nothing_without_keys():
    async with serving() as service:
        for path in ("/version", "/metrics", "/v1/models", "/", "/openapi.json"):
            response = await service.client.get(path, headers={"Host": "other.example"})
            assert response.status_code == 403, path


async def test_where_keys_are_needed_names_and_origins_are_free(service):
    headers = bearer("one") | {"Host": "cocoa.example"}
    assert (await ask(service, OTHER, headers)).status_code == 200


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
async def test_the_documentation_cannot_be_framed(path):
    async with serving() as service:
        response = await service.client.get(path)
    assert response.status_code == 200
    assert response.headers["x-frame-options"] == "DENY"
    assert response.headers["content-security-policy"] == "frame-ancestors 'none'"


async def test_a_page_of_the_list_may_ask_without_a_key_whether_it_may_send_one(service):
    response = await service.client.options(GENERATE, headers={"Origin": APP} | PREFLIGHT)
    assert response.status_code == 200
    assert response.headers[ALLOWS] == APP
    allowed = response.headers["access-control-allow-headers"].lower()
    assert {"authorization", "content-type", "x-stainless-lang"} <= {*allowed.split(",")}
    assert "access-control-allow-credentials" not in response.headers


async def test_another_page_may_not(service):
    response = await service.client.options(GENERATE, headers={"Origin": OTHER} | PREFLIGHT)
    assert response.status_code == 400
    assert ALLOWS not in response.headers
    assert ALLOWS not in (await ask(service, OTHER, bearer("one"))).headers


async def test_a_page_of_the_list_reads_answers_and_refusals_alike(service):
    responses = [await ask(service, APP, {})]
    responses += [await ask(service, APP, bearer("one")) for _ in range(3)]
    assert [response.status_code for response in responses] == [401, 200, 200, 429]
    for response in responses:
        assert response.headers[ALLOWS] == APP
        exposed = response.headers["access-control-expose-headers"].lower()
        assert {"x-request-id", "retry-after"} <= {name.strip() for name in exposed.split(",")}


async def test_without_an_origin_nothing_is_added(service):
    response = await service.client.get("/livez")
    assert not [name for name in response.headers if name.startswith("access-control-")]


async def test_any_page_may_be_let_in():
    async with serving(access={"cors_origins": ("*",)}) as service:
        assert (await ask(service, OTHER, {})).headers[ALLOWS] == "*"
