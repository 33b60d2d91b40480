"""Pods of the chart, and who reaches them: read from what is rendered."""

import json

import pytest

from tests.deploy.chart import (
    VALUE_SETS,
    VLLM,
    container_of,
    environment,
    kinds,
    names,
    pod_of,
    render,
    set_id,
)


def test_the_default_is_a_gateway_the_embedded_workers_and_a_redis():
    objects = render()
    deployments = {"cocoa-gateway", "cocoa-generation", "cocoa-similarity", "cocoa-redis"}
    assert names(objects, "Deployment") == deployments
    assert "Secret" not in kinds(objects)
    assert environment(objects, "gateway") == {
        "COCOA_HOST": "0.0.0.0",
        "COCOA_PORT": "8000",
        "COCOA_DRAIN_S": "70",
        "COCOA_GENERATION__URL": "http://cocoa-generation:8000",
        "COCOA_GENERATION__API": "cocoa",
        "COCOA_SIMILARITY__URL": "http://cocoa-similarity:8000",
        "COCOA_SIMILARITY__API": "cocoa",
        "COCOA_CACHE__URL": "redis://cocoa-redis:6379",
    }
    resources = [container_of(objects, one)["resources"] for one in ("gateway", "generation")]
    assert "nvidia.com/gpu" not in json.dumps(resources)


def test_urls_are_names_and_ports_of_services():
    objects = render(release="mine")
    settings = environment(objects, "gateway", "mine-cocoa")
    for setting in ("COCOA_GENERATION__URL", "COCOA_SIMILARITY__URL", "COCOA_CACHE__URL"):
        host, port = settings[setting].split("//")[1].split(":")
        (found,) = objects["Service", host]["spec"]["ports"]
        assert found["port"] == int(port)
        named = container_of(objects, host.removeprefix("mine-cocoa-"), "mine-cocoa")["ports"]
        assert found["targetPort"] in {one["name"] for one in named}


@pytest.mark.parametrize("values", VALUE_SETS, ids=set_id)
def test_a_service_and_a_policy_choose_pods_that_there_are(values):
    objects = render(values)
    labels = []
    for (kind, _), one in objects.items():
        if kind == "Deployment":
            template = one["spec"]["template"]["metadata"]["labels"]
            assert one["spec"]["selector"]["matchLabels"].items() <= template.items()
            labels.append(template)
    for (kind, name), one in objects.items():
        selector = {
            "Service": lambda spec: spec["selector"],
            "NetworkPolicy": lambda spec: spec["podSelector"]["matchLabels"],
            "PodDisruptionBudget": lambda spec: spec["selector"]["matchLabels"],
        }.get(kind)
        if selector is not None:
            chosen = [one_ for one_ in labels if selector(one["spec"]).items() <= one_.items()]
            assert len(chosen) == 1, (kind, name)


@pytest.mark.parametrize("values", VALUE_SETS, ids=set_id)
def test_every_pod_is_restricted(values):
    objects = render(values)
    for (kind, name), one in objects.items():
        if kind == "Deployment":
            pod = one["spec"]["template"]["spec"]
        elif kind == "Pod":
            pod = one["spec"]
        else:
            continue
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["runAsNonRoot"] is True
            assert security["runAsUser"] >= 10000
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]
            assert "/tmp" in {one["mountPath"] for one in container["volumeMounts"]}


@pytest.mark.parametrize("values", VALUE_SETS, ids=set_id)
def test_a_pod_drains_for_longer_than_the_deadline_and_ends_after_that(values):
    objects = render(values)
    for (kind, name), one in objects.items():
        if kind != "Deployment" or name.endswith("redis"):
            continue
        pod = one["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        waits = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
        drain = 70
        assert drain > 60  # the default of `timeout_s`
        assert pod["terminationGracePeriodSeconds"] > waits + drain


def test_a_longer_drain_moves_every_bound():
    objects = render({"drainS": 610, **VLLM})
    assert pod_of(objects, "gateway")["terminationGracePeriodSeconds"] == 630
    assert pod_of(objects, "vllm")["terminationGracePeriodSeconds"] == 625
    assert environment(objects, "gateway")["COCOA_DRAIN_S"] == "610"
    assert "--shutdown-timeout=610" in container_of(objects, "vllm")["args"]


@pytest.mark.parametrize("component", ["gateway", "generation", "similarity", "vllm"])
def test_a_model_has_ten_minutes_to_start(component):
    values = VLLM if component == "vllm" else None
    probe = container_of(render(values), component)["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 600


def test_a_gateway_whose_workers_are_away_is_not_restarted():
    container = container_of(render(), "gateway")
    assert container["startupProbe"]["httpGet"]["path"] == "/livez"
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_only_gateways_reach_workers_and_redis():
    objects = render()
    for component in ("generation", "similarity", "redis"):
        policy = objects["NetworkPolicy", f"cocoa-{component}"]["spec"]
        assert policy["policyTypes"] == ["Ingress"]
        (rule,) = policy["ingress"]
        (peer,) = rule["from"]
        assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "gateway"
        assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "cocoa"


def test_pods_are_made_anew_when_what_they_read_changes():
    def checksum(values, component):
        template = render(values)["Deployment", f"cocoa-{component}"]["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/config"]

    slower = {"generation": {"maxRows": 8}}
    assert checksum(None, "generation") != checksum(slower, "generation")
    assert checksum(None, "gateway") == checksum(slower, "gateway")
    first, second = ({"generation": {"url": "http://x", "apiKey": key}} for key in "ab")
    assert checksum(first, "gateway") != checksum(second, "gateway")
    first, second = ({"worker": {"apiKey": key}} for key in ("old,new", "new,old"))
    for component in ("gateway", "generation", "similarity"):
        assert checksum(first, component) != checksum(second, component)
