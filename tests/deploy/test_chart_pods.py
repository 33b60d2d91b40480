"""Pods of the chart, and who reaches them: read from what is rendered."""

import json

import pytest

from tests.deploy.chart import (
    HELMS,
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
        "COCOA_OPS_PORT": "8001",
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


def test_a_slow_model_has_longer_and_its_gateway_waits_for_it():
    objects = render(VLLM | {"vllm": {"enabled": True, "startupSeconds": 3600}})
    probe = container_of(objects, "vllm")["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 3600
    for component in ("gateway", "vllm"):
        spec = objects["Deployment", f"cocoa-{component}"]["spec"]
        assert spec["progressDeadlineSeconds"] == 4200
    own = render({"gateway": {"progressDeadlineSeconds": 7200}})
    assert own["Deployment", "cocoa-gateway"]["spec"]["progressDeadlineSeconds"] == 7200
    assert own["Deployment", "cocoa-generation"]["spec"]["progressDeadlineSeconds"] == 1200


def test_gateways_are_spread_over_nodes():
    (spread,) = pod_of(render(), "gateway")["topologySpreadConstraints"]
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert spread["labelSelector"]["matchLabels"]["app.kubernetes.io/component"] == "gateway"
    alone = render({"gateway": {"topologySpreadConstraints": []}})
    assert "topologySpreadConstraints" not in pod_of(alone, "gateway")


@pytest.mark.parametrize("values", [None, VLLM], ids=["embedded", "vllm"])
def test_no_volume_of_a_pod_grows_without_bound(values):
    for (kind, _), one in render(values).items():
        if kind == "Deployment":
            for volume in one["spec"]["template"]["spec"]["volumes"]:
                assert volume["emptyDir"]["sizeLimit"]


def test_a_cluster_that_gives_users_to_pods_is_given_none():
    nothing = dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"))
    for version in HELMS:
        for (kind, _), one in render({"podSecurityContext": nothing}, version).items():
            if kind == "Deployment":
                pod = one["spec"]["template"]["spec"]
                assert pod["securityContext"]["runAsNonRoot"] is True
                told = pod["securityContext"] | pod["containers"][0]["securityContext"]
                assert not nothing.keys() & told.keys()
                assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


def test_a_value_of_all_pods_can_be_another_in_one():
    values = {
        "pods": {
            "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
            "annotations": {"example.org/owner": "language"},
            "nodeSelector": {"zone": "a", "disk": "fast"},
            "podDisruptionBudget": {"enabled": True},
        },
        "generationWorker": {
            "dnsPolicy": "ClusterFirst",
            "nodeSelector": {"zone": "b"},
            "annotations": {"helm.sh/resource-policy": "keep"},
            "podDisruptionBudget": {"enabled": False},
            "extraContainers": [{"name": "sidecar", "image": "sidecar:1"}],
            "initContainers": [{"name": "first", "image": "first:1"}],
            "livenessProbe": {"periodSeconds": 60},
            "readinessProbe": {"exec": {"command": ["ready"]}},
            "strategy": {"type": "Recreate"},
        },
    }
    objects = render(values)
    other, own = pod_of(objects, "gateway"), pod_of(objects, "generation")
    assert other["dnsConfig"] == own["dnsConfig"] == values["pods"]["dnsConfig"]
    assert (other.get("dnsPolicy"), own["dnsPolicy"]) == (None, "ClusterFirst")
    assert other["nodeSelector"] == {"zone": "a", "disk": "fast"}
    assert own["nodeSelector"] == {"zone": "b", "disk": "fast"}
    assert names(objects, "PodDisruptionBudget") == {"cocoa-gateway", "cocoa-similarity"}
    container, sidecar = own["containers"]
    assert sidecar["name"] == "sidecar"
    assert own["initContainers"][0]["name"] == "first"
    assert container["livenessProbe"]["periodSeconds"] == 60
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert container["readinessProbe"]["exec"] == {"command": ["ready"]}
    assert "httpGet" not in container["readinessProbe"]
    assert objects["Deployment", "cocoa-generation"]["spec"]["strategy"] == {"type": "Recreate"}
    # So that an upgrade to another server leaves the worker until that one is ready.
    for kind in ("Deployment", "Service", "ConfigMap", "NetworkPolicy"):
        annotations = objects[kind, "cocoa-generation"]["metadata"]["annotations"]
        assert annotations == {"example.org/owner": "language", "helm.sh/resource-policy": "keep"}


def test_vllm_gives_its_gpu_up_first_or_last():
    by_default = render(VLLM)["Deployment", "cocoa-vllm"]["spec"]["strategy"]
    assert by_default == {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    spare = {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    objects = render(VLLM | {"vllm": {"enabled": True, "strategy": spare}})
    assert objects["Deployment", "cocoa-vllm"]["spec"]["strategy"] == spare


def test_images_come_from_one_registry():
    for component in ("gateway", "redis"):
        objects = render({"global": {"imageRegistry": "registry.example.org/mirror"}})
        image = container_of(objects, component)["image"]
        assert image.startswith("registry.example.org/mirror/")
        assert image.count("/") == 2


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
