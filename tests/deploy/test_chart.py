"""The chart without a cluster: rendered by both helms, checked against the API and by linters."""

import json

import pytest

from tests.deploy.chart import (
    CHART,
    DEPLOY,
    EXAMPLES,
    HELMS,
    ROOT,
    VALUE_SETS,
    helm,
    render,
    run,
    set_id,
)

# What fails on purpose, and why. Any other failed check fails the test.
UNCHECKED = {
    "CKV_K8S_11": "a CPU limit throttles a model that could have idle cores",
    "CKV_K8S_15": "tags are versions, which do not move",
    "CKV_K8S_21": "the namespace is the release's",
    "CKV_K8S_35": "the service reads its secrets from variables, or from files where one says so",
    "CKV_K8S_43": "digests are for whoever builds the images: `image.digest`",
    "CKV_K8S_8": "the pod of `helm test` ends by itself",
    "CKV_K8S_9": "the pod of `helm test` ends by itself",
    "CKV2_K8S_6": "the pod of `helm test` has no port",
}


def test_there_are_eight_value_sets_beside_the_default():
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("version", HELMS)
@pytest.mark.parametrize("values", VALUE_SETS, ids=set_id)
def test_helm_lints_and_renders(values, version, tmp_path):
    lint = helm(version, "lint", "--strict", CHART, values=values)
    assert lint.returncode == 0, lint.stdout + lint.stderr
    assert render(values, version)


@pytest.mark.parametrize("values", VALUE_SETS, ids=set_id)
def test_both_helms_render_the_same(values):
    assert render(values, "helm3") == render(values, "helm4")


@pytest.fixture(scope="module")
def all_rendered(tmp_path_factory):
    files = []
    for values in VALUE_SETS:
        rendered = tmp_path_factory.mktemp("rendered") / f"{set_id(values)}.yaml"
        rendered.write_text(helm("helm4", "template", "cocoa", CHART, values=values).stdout)
        files.append(rendered)
    return files


@pytest.mark.parametrize("kubernetes", ["1.29", "1.33", "1.37"])
def test_the_api_accepts_what_is_rendered(kubernetes, all_rendered):
    command = (DEPLOY / "venv/bin/kubernetes-validate", "--strict", "-k", kubernetes)
    done = run(*command, *all_rendered)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("values", [None, EXAMPLES[0]], ids=set_id)
def test_checkov_finds_nothing_but_what_is_meant(values, tmp_path):
    assert EXAMPLES[0].stem == "everything"
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text(helm("helm4", "template", "cocoa", CHART, values=values).stdout)
    options = ["--framework", "kubernetes", "--skip-download", "--compact", "--quiet", "-o", "json"]
    done = run(DEPLOY / "venv/bin/checkov", *options, "-f", rendered)
    report = json.loads(done.stdout)
    assert report["summary"]["passed"] > 100
    failed = {(one["check_id"], one["resource"]) for one in report["results"]["failed_checks"]}
    assert {one for one in failed if one[0] not in UNCHECKED} == set()
    of_pods_only = ("CKV_K8S_8", "CKV_K8S_9", "CKV2_K8S_6")
    on_test_pod = {name for check, name in failed if check in of_pods_only}
    assert all(name.startswith("Pod.") for name in on_test_pod)


def test_hadolint_finds_nothing():
    done = run(DEPLOY / "venv/bin/hadolint", *sorted((ROOT / "docker").glob("*.Dockerfile")))
    assert done.returncode == 0, done.stdout


def test_the_chart_can_be_packaged_with_alerts_and_dashboard_inside(tmp_path):
    done = helm("helm4", "package", CHART, "--destination", tmp_path)
    assert done.returncode == 0, done.stderr
    (package,) = tmp_path.glob("*.tgz")
    held = run("tar", "-xzOf", package, "cocoa/files/alerts.yml").stdout
    assert held == (ROOT / "docker/observability/alerts.yml").read_text()
