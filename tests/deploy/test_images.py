"""The images: built as they are, then looked into."""

import json
import re

import pytest

from tests.deploy.chart import ROOT, run
from tests.deploy.containers import ENVIRONMENT, RESTRICTED, inspect, own_bytes, podman

MEGABYTE = 1_000_000


@pytest.fixture(params=["gateway", "worker"])
def image(request):
    return request.getfixturevalue(f"{request.param}_image")


def in_container(image, code, *options):
    """What Python prints in a container without network."""
    command = ("run", "--rm", "--network", "none", *RESTRICTED, *options)
    return podman(*command, "--entrypoint", "python", image, "-c", code)


def test_the_gateway_adds_little_to_its_base(gateway_image):
    print_layers(gateway_image)
    assert own_bytes(gateway_image) <= 160 * MEGABYTE


def test_the_worker_is_little_more_than_torch_and_its_company(worker_image):
    print_layers(worker_image)
    assert own_bytes(worker_image) <= 2000 * MEGABYTE


def print_layers(image):
    """What each COPY of the last stage brings; buildah makes one layer of them."""
    print(f"\n{image}: {own_bytes(image) / MEGABYTE:.0f} MB above its base")
    made = [f"{one['created']} {one['created_by']}" for one in inspect(image)["History"]]
    print(f"  {len(made)} steps, {len(inspect(image)['RootFS']['Layers'])} layers")
    command = ("run", "--rm", "--network", "none", *RESTRICTED, "--entrypoint", "du", image)
    for line in podman(*command, "-sm", "/opt/venv", "/opt/cocoa").splitlines():
        print(f"  {line} (MiB)")


def test_the_gateway_has_nothing_that_loads_or_trains_a_model(gateway_image):
    heavy = ["torch", "transformers", "tokenizers", "safetensors", "scipy", "sklearn", "matplotlib"]
    code = f"import importlib.util as u; print([n for n in {heavy} if u.find_spec(n)])"
    assert in_container(gateway_image, code) == "[]"
    weights = "import pathlib; print(len(list(pathlib.Path('/opt').rglob('*.safetensors'))))"
    assert in_container(gateway_image, weights) == "0"


def test_the_worker_has_the_embedded_models_readable_by_any_user(worker_image):
    code = """
import os, pathlib
found = list(pathlib.Path('/opt/cocoa/models/embedded').rglob('*.safetensors'))
for path in found:
    path.read_bytes()
print(os.getuid(), len(found))
"""
    user, number = in_container(worker_image, code, "--user", "54321:54321").split()
    held = list((ROOT / "models/embedded").rglob("*.safetensors"))
    assert (user, int(number)) == ("54321", len(held))


def test_an_image_runs_as_a_numeric_user_on_a_root_that_it_cannot_write(image):
    assert inspect(image)["Config"]["User"] == "10001:10001"
    code = """
import os
print(os.getuid(), os.environ["MALLOC_ARENA_MAX"])
try:
    open("/opt/cocoa/written", "w")
except OSError as error:
    print(error.strerror)
"""
    assert in_container(image, code).splitlines() == ["10001 2", "Read-only file system"]


def test_an_image_says_what_it_is_and_how_to_ask_for_its_health(image):
    labels = inspect(image)["Labels"]
    for label in ("title", "version", "revision", "licenses"):
        assert labels[f"org.opencontainers.image.{label}"]
    assert inspect(image)["Healthcheck"]["Test"] == ["CMD", "python", "/opt/health.py"]


def test_an_image_lists_what_it_is_made_of(image):
    document = json.loads(in_container(image, "print(open('/opt/cocoa/sbom.cdx.json').read())"))
    assert document["bomFormat"] == "CycloneDX"
    versions = {one["name"].lower(): one["version"] for one in document["components"]}
    code = "from importlib.metadata import distributions as d\n"
    code += "for one in d(): print(one.name.lower(), one.version)"
    installed = dict(line.split() for line in in_container(image, code).splitlines())
    own = installed.pop("cocoa-serve")
    assert own in inspect(image)["Labels"]["org.opencontainers.image.version"]
    assert installed.items() <= versions.items()


def test_versions_in_an_image_are_those_of_the_constraints(image):
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    wanted = dict(line.split("==") for line in lines if "==" in line)
    code = "from importlib.metadata import distributions as d\n"
    code += "for one in d(): print(one.name.lower(), one.version)"
    installed = dict(line.split() for line in in_container(image, code).splitlines())
    for name, version in wanted.items():
        assert installed.get(name, version).split("+")[0] == version


def test_one_container_is_the_whole_service(worker_image):
    options = ("--network", "none", *RESTRICTED)
    name = podman("run", "--rm", "--detach", *options, worker_image)
    code = """
import json, time, urllib.request
url, body = "http://127.0.0.1:8000", json.dumps({"prompt": "What is the capital of France?"})
def asked(path, data=None):
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
    return urllib.request.urlopen(request, timeout=60).read()
for _ in range(300):
    try:
        asked("/readyz")
        break
    except OSError:
        time.sleep(1)
answer = json.loads(asked("/generate-with-uncertainty", body.encode()))
print(answer["text"].strip(), answer["confidence"] > 0.5, b"cocoa" in asked("/"))
"""
    try:
        assert podman("exec", name, "python", "-c", code) == "Paris True True"
    finally:
        podman("rm", "--force", name, check=False)


@pytest.mark.parametrize(
    ("name", "command", "code"),
    [("gateway", ["serve"], 2), ("worker", ["ask", "Hello", "--seed=6"], 0)],
)
def test_a_start_compiles_nothing(request, name, command, code):
    # With this seed a sample is cut with "…", whose width rich reads from a table of its own.
    image = request.getfixturevalue(f"{name}_image")
    options = ("--network", "none", *RESTRICTED, "--env", "PYTHONVERBOSE=1")
    done = run("podman", "run", "--rm", *options, image, *command, env=ENVIRONMENT)
    assert done.returncode == code
    used = re.findall(r"^# code object from '/opt/bytecode/", done.stderr, re.MULTILINE)
    assert len(used) > 500
    assert re.findall(r"^# code object from /.*", done.stderr, re.MULTILINE) == []


def test_a_second_build_makes_the_same_files(gateway_image, image_built_again):
    code = """
import hashlib, pathlib
for path in sorted(pathlib.Path("/opt").rglob("*")):
    if path.is_file():  # the time of a folder that COPY makes is the builder's
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        print(path, path.stat().st_mode, int(path.lstat().st_mtime), digest)
"""
    first = in_container(gateway_image, code)
    assert len(first.splitlines()) > 1000
    assert in_container(image_built_again, code) == first


@pytest.mark.parametrize("name", ["worker", "vllm"])
def test_any_user_may_write_where_models_are_fetched_to(name):
    text = (ROOT / f"docker/{name}.Dockerfile").read_text()
    assert "HF_HOME=/data" in text
    assert re.search(r"(mkdir|install -d) -m 1777 /data\b", text)


def test_a_gateway_without_workers_ends_as_with_wrong_settings(gateway_image):
    command = ("podman", "run", "--rm", "--network", "none", *RESTRICTED, gateway_image)
    done = run(*command, env=ENVIRONMENT)
    assert done.returncode == 2
    assert "pip install '.[models]' in the checkout" in done.stderr
