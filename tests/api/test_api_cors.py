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
    doors = {"keys": keys_in(tmp_path, one={"requests_per_minute": 2}), "cors_origins": (APP,)}
    async with serving(doors=doors) as running:
        yield running


async def ask(service, origin, headers):
    body = {"prompt": "Hi", "max_new_tokens": 8}
    return await service.client.post(GENERATE, json=body, headers={"Origin": origin} | headers)


async def test_by_default_no_page_is_let_in():
    async with serving() as service:
        response = await ask(service, APP, {})
        assert response.status_code == 200
        assert not [name for name in response.headers if name.startswith("access-control-")]
        preflight = await service.client.options(GENERATE, headers={"Origin": APP} | PREFLIGHT)
        assert_error(preflight, 405, "method_not_allowed")


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
    async with serving(doors={"cors_origins": ("*",)}) as service:
        assert (await ask(service, OTHER, {})).headers[ALLOWS] == "*"
