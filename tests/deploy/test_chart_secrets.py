"""Redis, secrets and certificates in the chart: read from what is rendered."""

import json

import pytest

from tests.deploy.chart import (
    ROOT,
    container_of,
    environment,
    names,
    render,
    variable,
)


def test_without_redis_each_gateway_has_a_cache_of_its_own():
    objects = render(ROOT / "helm/examples/no-redis.yaml")
    assert "cocoa-redis" not in names(objects, "Deployment")
    assert "COCOA_CACHE__URL" not in environment(objects, "gateway")
    assert environment(objects, "gateway")["COCOA_CACHE__MEMORY_BYTES"] == "268435456"


def test_a_url_of_redis_comes_from_a_secret_that_exists():
    objects = render(ROOT / "helm/examples/tls-redis.yaml")
    assert "cocoa-redis" not in names(objects, "Deployment")
    container = container_of(objects, "gateway")
    assert {"secretRef": {"name": "cocoa-redis"}} in container["envFrom"]
    assert environment(objects, "gateway")["COCOA_CACHE__CA_FILE"] == "/redis-ca/ca.crt"
    assert "/redis-ca" in {one["mountPath"] for one in container["volumeMounts"]}


def test_a_url_with_a_password_among_the_values_goes_into_a_secret():
    objects = render({"cache": {"url": "rediss://u:secret@redis:6380"}})
    assert "secret@" not in json.dumps(objects["ConfigMap", "cocoa-gateway"])
    assert "secret@" not in json.dumps(objects["Deployment", "cocoa-gateway"])
    stored = objects["Secret", "cocoa-gateway"]["stringData"]
    assert stored == {"COCOA_CACHE__URL": "rediss://u:secret@redis:6380"}
    assert "cocoa-redis" not in names(objects, "Deployment")


def test_own_redis_wants_the_password_that_the_gateway_knows():
    objects = render({"redis": {"existingSecret": "mine"}})
    wanted = {"secretKeyRef": {"name": "mine", "key": "REDIS_PASSWORD"}}
    assert variable(objects, "gateway", "COCOA_CACHE__PASSWORD")["valueFrom"] == wanted
    assert variable(objects, "redis", "REDIS_PASSWORD")["valueFrom"] == wanted
    assert "$(REDIS_PASSWORD)" in container_of(objects, "redis")["args"]
    # Whatever is in it: it is no part of a url.
    assert environment(objects, "gateway")["COCOA_CACHE__URL"] == "redis://cocoa-redis:6379"


@pytest.mark.parametrize(
    ("worker", "secret"),
    [({"apiKey": "k"}, "cocoa-worker"), ({"existingSecret": "mine"}, "mine")],
)
def test_gateway_and_workers_share_one_secret(worker, secret):
    objects = render({"worker": worker})
    wanted = {"secretKeyRef": {"name": secret, "key": "COCOA_WORKER__API_KEY"}}
    for process in ("generation", "similarity"):
        name = f"COCOA_{process.upper()}__API_KEY"
        assert variable(objects, "gateway", name)["valueFrom"] == wanted
        assert variable(objects, process, "COCOA_WORKER__API_KEY")["valueFrom"] == wanted
    assert (("Secret", "cocoa-worker") in objects) == ("apiKey" in worker)


def test_workers_with_a_certificate_are_asked_over_tls():
    worker = {"tlsCertFile": "/tls/tls.crt", "tlsKeyFile": "/tls/tls.key"}
    objects = render({"worker": worker})
    url = environment(objects, "gateway")["COCOA_GENERATION__URL"]
    assert url == "https://cocoa-generation:8000"
    probe = container_of(objects, "generation")["readinessProbe"]
    assert probe["httpGet"]["scheme"] == "HTTPS"
    mutual = render({"worker": {**worker, "tlsCaFile": "/tls/ca.crt"}})
    assert container_of(mutual, "generation")["readinessProbe"]["tcpSocket"] == {"port": "http"}
