"""Keys over HTTP: who gets in, how much they may use, and what they see of each other."""

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from app.http.middleware import at_ops_port
from app.plugins.labels.protocol import FeedbackConfig
from tests.api.errors_told import assert_error
from tests.api.keyed import GIVEN, PROMPT, generate, metric, with_keys
from tests.conftest import GENERATE, serving, until
from tests.log_lines import logged
from tests.made_keys import bearer, key_of, keys_in, keys_toml

pytestmark = pytest.mark.anyio

OPEN = ("/livez", "/readyz", "/metrics", "/docs", "/redoc", "/openapi.json")
ASSET = "/static-offline-docs/swagger-ui.css"


@pytest.fixture
async def service(anyio_backend, tmp_path):
    """The service with two keys without limits."""
    async with with_keys(tmp_path, one={}, other={}) as running:
        yield running


async def test_without_keys_everybody_may_ask():
    async with serving() as service:
        assert (await service.generate()).status_code == 200
        assert (await service.client.get("/version")).status_code == 200


async def test_a_key_gets_in(service):
    assert (await generate(service, "one")).status_code == 200
    for scheme in ("bearer", "BEARER", "Bearer  "):
        headers = {"Authorization": f"{scheme} {key_of('one')} "}
        response = await service.client.get("/version", headers=headers)
        assert response.status_code == 200


KEY = key_of("one").encode()
# id: headers of a request that has no key which is good
WITHOUT = {
    "no header": [],
    "an unknown key": [(b"authorization", b"Bearer nosuch")],
    "an empty key": [(b"authorization", b"Bearer ")],
    "no scheme": [(b"authorization", KEY)],
    "another scheme": [(b"authorization", b"Basic " + KEY)],
    "half a key": [(b"authorization", b"Bearer " + KEY[:-1])],
    "a key and more": [(b"authorization", b"Bearer " + KEY + b"x")],
    "no text": [(b"authorization", b"Bearer \xff\xfe")],
    "two keys": [(b"authorization", b"Bearer " + KEY)] * 2,
    "another header": [(b"x-api-key", KEY)],
}


@pytest.mark.parametrize("headers", WITHOUT.values(), ids=WITHOUT)
async def test_without_a_key_that_is_good_the_answer_is_401_and_says_how(service, headers):
    response = await service.client.post(GENERATE, json={"prompt": PROMPT}, headers=headers)
    assert_error(response, 401, "unauthorized")
    assert response.headers["www-authenticate"] == "Bearer"
    assert service.engine.num_calls == 1, "only the warm-up"
    assert await metric(service, 'cocoa_errors_total{code="unauthorized"} 1.0')


async def test_a_body_is_not_waited_for_without_a_key(service):
    async def never():
        yield b"{"
        raise AssertionError("it was read")

    response = await service.client.post(GENERATE, content=never())
    assert_error(response, 401, "unauthorized")


async def test_every_path_needs_a_key_but_health_metrics_and_documentation(service):
    for path in (*OPEN, ASSET):
        assert (await service.client.get(path)).status_code == 200, path
    document = (await service.client.get("/openapi.json")).json()
    others = {path: methods for path, methods in document["paths"].items() if path not in OPEN}
    known = {GENERATE, "/score", "/feedback", "/version", "/estimators", "/v1/chat/completions"}
    assert known <= others.keys()
    for path, methods in others.items():
        for method in methods:
            response = await service.client.request(method, path)
            error = response.json()["error"]  # at /v1 in OpenAI's shape
            assert (response.status_code, error["code"]) == (401, "unauthorized"), path
    assert_error(await service.client.get("/nosuch"), 401, "unauthorized")
    assert_error(await service.client.get("/nosuch", headers=bearer("one")), 404, "not_found")


async def test_the_document_says_which_paths_need_a_key(service):
    document = (await service.client.get("/openapi.json")).json()
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert ("security" in operation) == (path not in OPEN)
    assert document["components"]["securitySchemes"] == {
        "key": {"type": "http", "scheme": "bearer"}
    }


async def test_a_key_ends_at_its_time(tmp_path):
    ends = datetime.now(UTC) + timedelta(minutes=1)
    began = ends - timedelta(minutes=2)
    async with with_keys(tmp_path, one={"expires": ends}, other={"expires": began}) as service:
        assert (await generate(service, "one")).status_code == 200
        message = assert_error(await generate(service, "other"), 401, "unauthorized")
        assert "expired" in message


async def test_keys_change_with_their_file_and_a_broken_one_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("app.plugins.keys.ring._POLL_S", 0.01)
    async with with_keys(tmp_path, one={}) as service:

        async def status(name):
            return (await generate(service, name)).status_code

        async def put(content):
            (tmp_path / "new").write_text(content)
            (tmp_path / "new").rename(tmp_path / "keys.toml")

        await put(keys_toml(other={}))
        async with asyncio.timeout(30):
            while await status("other") == 401:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert await status("one") == 401
        await put("broken")
        async with asyncio.timeout(30):
            while not await metric(service, "cocoa_keys_file_broken 1.0"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert await status("other") == 200
        await put(keys_toml(one={}, third={}))
        async with asyncio.timeout(30):
            while await status("one") == 401:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert await metric(service, "cocoa_keys_file_broken 0.0")
        assert await metric(service, "cocoa_keys 2.0")


@pytest.mark.parametrize(("mode", "other"), [("full", "light"), ("light", "full")])
async def test_a_key_may_be_good_for_one_mode(tmp_path, mode, other):
    async with with_keys(tmp_path, one={"modes": [mode]}) as service:
        allowed = await generate(service, "one", mode=mode)
        refused = await generate(service, "one", mode=other)
        message = assert_error(refused, 403, "forbidden", "mode")
        assert other in message
        # Light mode has no probe here; the key is not what it lacks.
        assert allowed.status_code == (200 if mode == "full" else 422)
        score = await service.client.post("/score", json=GIVEN, headers=bearer("one"))
        assert score.status_code == (200 if mode == "full" else 403)


async def test_a_key_for_full_alone_gets_no_light_scores_by_their_names(tmp_path):
    named = {"estimators": ["sp", "cocoa_sp_light"]}
    async with with_keys(tmp_path, one={"modes": ["full"]}, other={}) as service:
        refused = await generate(service, "one", **named)
        assert "light" in assert_error(refused, 403, "forbidden", "estimators")
        # Any other key only lacks the probe that there is none of here.
        lacking = await generate(service, "other", **named)
        assert_error(lacking, 422, "probe_missing", "estimators")


async def test_what_one_key_has_cached_another_does_not_find(service):
    body = {"seed": 1, "estimators": ["cocoa_sp"]}
    assert not (await generate(service, "one", **body)).json()["cached"]
    before = len(service.pair_model.batches)
    other = (await generate(service, "other", **body)).json()
    assert not other["cached"]
    assert len(service.pair_model.batches) > before, "nor the scores of pairs"
    for name in ("one", "other"):
        assert (await generate(service, name, **body)).json()["cached"]


async def test_keys_of_one_namespace_share_what_is_cached(tmp_path):
    names = {"one": {"namespace": "people"}, "other": {"namespace": "people"}, "people": {}}
    async with with_keys(tmp_path, **names) as service:
        assert not (await generate(service, "one", seed=1)).json()["cached"]
        assert (await generate(service, "other", seed=1)).json()["cached"]
        assert (await generate(service, "people", seed=1)).json()["cached"]


async def test_nobody_joins_the_work_of_another_key(service):
    opened = asyncio.Event()
    service.before_generating(lambda request: opened.wait())
    asked = [asyncio.create_task(generate(service, name, seed=1)) for name in ("one", "other")]
    await until(lambda: service.admission.num_admitted == 2)
    asked.append(asyncio.create_task(generate(service, "one", seed=1)))
    await until(lambda: service.metric("cocoa_joined_requests_total") == 1)
    assert service.admission.num_admitted == 2
    opened.set()
    assert {response.status_code for response in await asyncio.gather(*asked)} == {200}


async def test_an_answer_can_be_labelled_by_its_namespace_alone(tmp_path):
    config = FeedbackConfig(path=str(tmp_path / "labels.jsonl"))
    keys = keys_in(tmp_path, one={"namespace": "people"}, two={"namespace": "people"}, other={})
    async with serving(feedback=config, access={"keys": keys}) as service:
        answer = (await generate(service, "one")).json()

        async def label(name):
            body = {"id": answer["id"], "correct": True}
            return await service.client.post("/feedback", json=body, headers=bearer(name))

        assert_error(await label("other"), 404, "unknown_answer", "id")
        assert (await label("two")).status_code == 200
        # A request id of one's own takes the place of nobody else's answer.
        headers = bearer("other") | {"X-Request-ID": answer["id"]}
        await service.client.post(
            GENERATE, json={"prompt": "Another", "max_new_tokens": 8}, headers=headers
        )
        assert (await label("other")).status_code == 200
    kept = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines()]
    assert [one["answer"]["namespace"] for one in kept] == ["people", "other"]


async def test_the_line_of_a_request_has_the_name_of_its_key(service):
    with logged() as lines:
        await generate(service, "one")
        await generate(service, "nosuch")
        told = [json.loads(line) for line in lines()]
    assert [line.get("key") for line in told if line["message"] == "request"] == ["one", None]


async def test_a_key_is_in_no_line_of_the_log_no_metric_and_no_error(service):
    with logged("debug") as lines:
        told = []
        for name in ("one", "nosuch"):
            told += [
                await generate(service, name),
                await generate(service, name, num_samples=0),
                await service.client.get(f"/{key_of(name)}", headers=bearer(name)),
                await service.client.post(GENERATE, content=b"{", headers=bearer(name)),
            ]
        told.append(await service.client.get("/metrics"))
        log = "\n".join(lines())
    assert "secret-of" not in log + "".join(response.text for response in told)
    assert await metric(service, 'cocoa_key_requests_total{key="one"} 4.0')


async def test_names_of_keys_are_in_the_metrics_of_the_ops_port_alone(service):
    await generate(service, "one")
    public = (await service.client.get("/metrics")).text
    assert "cocoa_keys 2.0" in public
    assert "one" not in re.findall('key="(.*?)"', public)
    assert "\ncocoa_key_limits_breaker_open 0.0\n" in public, "it names no key"
    for name in ("requests", "tokens", "refusals"):
        assert f"cocoa_key_{name}" not in public
    assert await metric(service, 'cocoa_key_requests_total{key="one"} 1.0')


async def test_at_a_port_of_its_own_operation_needs_no_key_and_is_nowhere_else(tmp_path):
    access = {"keys": keys_in(tmp_path, one={}), "ops_port": 0}
    async with serving(access=access) as service:
        ops = type(service.client)(
            transport=type(service.client._transport)(at_ops_port(service.app)),
            base_url="http://ops",
        )
        async with ops:
            for path in (*OPEN, ASSET, "/version"):
                assert (await ops.get(path)).status_code == 200, path
            for path in (GENERATE, "/score", "/feedback"):
                assert_error(await ops.post(path, json={}), 404, "not_found")
            assert_error(await ops.get("/estimators"), 404, "not_found")
        for path in (*OPEN, ASSET):
            response = await service.client.get(path, headers=bearer("one"))
            assert_error(response, 404, "not_found")
        assert (await generate(service, "one")).status_code == 200
        assert_error(await service.client.get("/version"), 401, "unauthorized")
