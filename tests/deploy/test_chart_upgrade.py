"""An upgrade from the values of 0.1.0 is accepted and changes nothing that Kubernetes cannot."""

from pathlib import Path

import pytest
import yaml

from tests.deploy.chart import HELMS, ROOT, VLLM, refusal, render

OLD = yaml.safe_load(Path(__file__).with_name("values-0.1.0.yaml").read_text())


def over(old, new):
    return old | {
        key: over(old[key], new[key]) if isinstance(old.get(key), dict) else new[key] for key in new
    }


@pytest.mark.parametrize("version", HELMS)
@pytest.mark.parametrize("changes", [{}, VLLM], ids=["default", "vllm"])
def test_the_values_of_the_first_version_still_mean_what_they_meant(changes, version):
    objects = render(over(OLD, changes), version)
    for (kind, name), one in objects.items():
        component = one["metadata"]["labels"].get("app.kubernetes.io/component")
        if kind == "Deployment":
            # Kubernetes refuses another one.
            assert one["spec"]["selector"]["matchLabels"] == {
                "app.kubernetes.io/name": "cocoa",
                "app.kubernetes.io/instance": "cocoa",
                "app.kubernetes.io/component": component,
            }
            assert name == f"cocoa-{component}"
            # It was said to be none.
            assert "topologySpreadConstraints" not in one["spec"]["template"]["spec"]
    by_default = render(changes, version)
    assert objects.keys() == by_default.keys()


def test_the_claim_of_models_stays_as_it_is():
    files = {"modelFiles": {"enabled": True, "accessModes": ["ReadWriteMany"]}}
    claim = render(over(OLD, files))["PersistentVolumeClaim", "cocoa-models"]
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "50Gi"}},
    }


def test_an_upgrade_that_leaves_the_new_values_out_is_told_how_to_have_them():
    # `helm upgrade --reuse-values` takes the old values in place of the chart's own.
    assert "--reset-then-reuse-values" in refusal({"pods": None})
    assert (ROOT / "docs/deploy.md").read_text().count("--reset-then-reuse-values")
