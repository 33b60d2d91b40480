"""The chart rendered by the real helm, and what is found in it."""

import subprocess
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / ".deploy"
CHART = ROOT / "helm/cocoa"
EXAMPLES = sorted((ROOT / "helm/examples").glob("*.yaml"))
HELMS = ("helm3", "helm4")
VALUE_SETS = [None, *EXAMPLES]
VLLM = {
    "vllm": {"enabled": True},
    "generation": {"model": "Qwen/Qwen3-8B"},
    "similarity": {"model": "cross-encoder/stsb-roberta-large"},
}


def run(*command, **options):
    """The finished command, whose output is text."""
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )


def helm(version, *arguments, values=None):
    """The finished helm; `values` are a map, its YAML, or a file."""
    options, text = [], None
    if isinstance(values, dict):
        values = yaml.safe_dump(values)
    if isinstance(values, str):
        options, text = ["-f", "-"], values
    elif values is not None:
        options = ["-f", values]
    return run(DEPLOY / version / "helm", *arguments, *options, input=text)


def render(values=None, version="helm4", release="cocoa"):
    """The rendered objects, by kind and name; all tests share those of equal values."""
    if isinstance(values, dict):
        values = yaml.safe_dump(values)
    return _rendered(values, version, release)


@cache
def _rendered(values, version, release):
    done = helm(version, "template", release, CHART, "--namespace", "cocoa", values=values)
    assert done.returncode == 0, done.stderr
    found = {}
    for one in yaml.load_all(done.stdout, yaml.CSafeLoader):
        if one is not None:
            key = (one["kind"], one["metadata"]["name"])
            assert key not in found, f"{key} twice"
            found[key] = one
    return found


def refusal(values):
    """What helm says where it refuses the values."""
    done = helm("helm4", "template", "cocoa", CHART, values=values)
    assert done.returncode != 0
    return done.stderr


def pod_of(objects, component, name="cocoa"):
    """The pod's specification of a Deployment."""
    return objects["Deployment", f"{name}-{component}"]["spec"]["template"]["spec"]


def container_of(objects, component, name="cocoa"):
    """The only container of a Deployment."""
    (container,) = pod_of(objects, component, name)["containers"]
    return container


def environment(objects, component, name="cocoa"):
    """Variables of a container whose values are known here: by ConfigMap, Secret, and itself."""
    container = container_of(objects, component, name)
    found = {}
    for source in container.get("envFrom", []):
        if "configMapRef" in source:
            found |= objects["ConfigMap", source["configMapRef"]["name"]]["data"]
        elif ("Secret", source["secretRef"]["name"]) in objects:
            found |= objects["Secret", source["secretRef"]["name"]]["stringData"]
    for variable in container.get("env", []):
        if "value" in variable:
            found[variable["name"]] = variable["value"]
    return found


def variable(objects, component, name):
    """One variable as the container has it."""
    (found,) = [one for one in container_of(objects, component)["env"] if one["name"] == name]
    return found


def kinds(objects):
    """The kinds of all objects."""
    return {kind for kind, _ in objects}


def names(objects, kind):
    """The names of objects of a kind."""
    return {name for one, name in objects if one == kind}


def set_id(values):
    return "default" if values is None else values.stem
