"""Values of the chart: all of them reach a pod, and mistakes are refused."""

import shutil

import pytest
import yaml

from tests.deploy.chart import (
    CHART,
    HELMS,
    ROOT,
    container_of,
    environment,
    helm,
    names,
    pod_of,
    render,
)


def test_everything_that_a_pod_can_be_told_reaches_it():
    objects = render(ROOT / "helm/examples/everything.yaml")
    pod = pod_of(objects, "gateway", "cocoa-all")
    assert pod["priorityClassName"] == "serving"
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert pod["tolerations"]
    assert pod["affinity"]["podAntiAffinity"]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    (spread,) = pod["topologySpreadConstraints"]
    labels = spread["labelSelector"]["matchLabels"]
    assert labels["app.kubernetes.io/component"] == "gateway"
    container = container_of(objects, "gateway", "cocoa-all")
    assert container["image"].startswith("registry.example.org/cocoa-gateway@sha256:")
    assert container["args"] == ["serve", "--host", "::"]
    assert {"name": "TZ", "value": "UTC"} in container["env"]
    assert pod_of(objects, "vllm", "cocoa-all")["runtimeClassName"] == "nvidia"
    assert objects["ConfigMap", "cocoa-extra"]["data"] == {"key": "value"}
    assert objects["Deployment", "cocoa-all-gateway"]["metadata"]["labels"]["team"] == "language"


def test_a_second_release_shares_the_first_ones_similarity_worker_and_redis():
    first, second = render(), render(ROOT / "helm/examples/second-model.yaml", release="second")
    assert names(second, "Deployment") == {"second-cocoa-gateway", "second-cocoa-generation"}
    settings = environment(second, "gateway", "second-cocoa")
    for setting in ("COCOA_SIMILARITY__URL", "COCOA_CACHE__URL"):
        assert ("Service", settings[setting].split("//")[1].split(":")[0]) in first


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"gateways": {}}, "gateways"),
        ({"gateway": {"replica": 3}}, "gateway"),
        ({"gateway": {"replicas": "three"}}, "gateway"),
        ({"generation": {"maxRow": 8}}, "generation"),
        ({"generation": {"maxRows": 0}}, "maxRows"),
        ({"generation": {"api": "grpc"}}, "api"),
        ({"cache": {"ttlS": "an hour"}}, "ttlS"),
        ({"vllm": {"keda": {"sample": 10}}}, "keda"),
        ({"ingress": {"pathType": "Prefixed"}}, "pathType"),
    ],
)
def test_a_mistake_in_values_is_refused_with_its_path(values, path):
    for version in HELMS:
        done = helm(version, "template", "cocoa", CHART, values=values)
        assert done.returncode != 0
        assert "values don't meet the specifications of the schema" in done.stderr
        assert path in done.stderr


def test_notes_hold_a_curl_and_the_test(tmp_path):
    # Helm shows notes where it installs, for which it wants a cluster: here they are an object.
    copy = tmp_path / "cocoa"
    shutil.copytree(CHART, copy)
    (copy / "templates/NOTES.txt").rename(copy / "files/notes.txt")
    template = 'kind: Notes\ntext: |\n  {{- tpl (.Files.Get "files/notes.txt") . | nindent 2 }}\n'
    (copy / "templates/notes.yaml").write_text(template)
    options = ["--namespace", "models", "--show-only", "templates/notes.yaml"]
    done = helm("helm4", "template", "cocoa", copy, *options)
    notes = yaml.safe_load(done.stdout)["text"]
    assert "curl --fail-with-body http://127.0.0.1:8000/generate-with-uncertainty" in notes
    assert "helm --namespace models test cocoa" in notes
