"""Redis, secrets and certificates in the chart: read from what is rendered."""

import json

import pytest

from tests.deploy.chart import (
    ROOT,
    VLLM,
    container_of,
    environment,
    names,
    pod_of,
    render,
    variable,
)

_VOLUME = {"name": "tls", "mountPath": "/tls", "source": {"secret": {"secretName": "tls"}}}
TLS_VOLUME = {"pods": {"volumes": [_VOLUME]}}


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
    ("worker", "secret"), [({"apiKey": "k"}, "cocoa-worker"), ({"existingSecret": "mine"}, "mine")]
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
    objects = render({"worker": worker, **TLS_VOLUME})
    url = environment(objects, "gateway")["COCOA_GENERATION__URL"]
    assert url == "https://cocoa-generation:8000"
    probe = container_of(objects, "generation")["readinessProbe"]
    assert probe["httpGet"]["scheme"] == "HTTPS"
    mutual = render({"worker": {**worker, "tlsCaFile": "/tls/ca.crt"}, **TLS_VOLUME})
    assert container_of(mutual, "generation")["readinessProbe"]["tcpSocket"] == {"port": "http"}


def test_prometheus_shows_its_certificate_to_workers_that_want_one():
    tls = {"cert": {"secret": {"name": "prometheus", "key": "tls.crt"}}}
    values = {
        "worker": {"tlsCertFile": "/tls/tls.crt", "tlsCaFile": "/tls/ca.crt"},
        "monitoring": {"podMonitor": {"enabled": True, "tlsConfig": tls}},
        "networkPolicy": {"enabled": False},
    }
    objects = render(values | TLS_VOLUME)
    (endpoint,) = objects["PodMonitor", "cocoa-generation"]["spec"]["podMetricsEndpoints"]
    assert (endpoint["scheme"], endpoint["tlsConfig"]) == ("https", tls)


def test_own_vllm_can_speak_tls_to_gateway_nodes_and_prometheus():
    given = {"enabled": True, "tlsSecret": "vllm-tls"}
    monitoring = {"podMonitor": {"enabled": True}}
    values = VLLM | {"vllm": given, "monitoring": monitoring, "networkPolicy": {"enabled": False}}
    objects = render(values)
    container = container_of(objects, "vllm")
    assert {"--ssl-certfile=/tls/tls.crt", "--ssl-keyfile=/tls/tls.key"} <= set(container["args"])
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    settings = environment(objects, "gateway")
    assert settings["COCOA_GENERATION__URL"] == "https://cocoa-vllm:8000"
    assert settings["COCOA_GENERATION__TLS_CA_FILE"] == "/vllm-ca/ca.crt"
    volumes = {one["name"]: one for one in pod_of(objects, "gateway")["volumes"]}
    # Not the key.
    wanted = {"secretName": "vllm-tls", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    assert volumes["vllm-ca"]["secret"] == wanted
    (endpoint,) = objects["PodMonitor", "cocoa-vllm"]["spec"]["podMetricsEndpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["serverName"] == "cocoa-vllm"
    assert endpoint["tlsConfig"]["ca"] == {"secret": {"name": "vllm-tls", "key": "ca.crt"}}
