"""What the images install is what the package asks for, in the versions that are tested."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
BASE, MODELS = PROJECT["dependencies"] + EXTRAS["otel"], EXTRAS["models"]
WANTED = {
    "gateway": BASE,
    "gateway-mcp": BASE + EXTRAS["mcp"],
    "worker-cpu": BASE + MODELS,
    "worker-cuda": BASE + MODELS,
}


def locked(name):
    """Versions by package."""
    text = (ROOT / f"docker/requirements/{name}.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9.-]+)==([^ ;\\]+)", text, re.MULTILINE))


@pytest.mark.parametrize("image", WANTED)
def test_an_image_installs_all_that_the_package_asks_for(image):
    names = {re.match(r"[a-z0-9_-]+", one, re.IGNORECASE)[0] for one in WANTED[image]}
    assert names <= locked(image).keys(), "run `make lock`"


@pytest.mark.parametrize("image", WANTED)
def test_an_image_installs_the_versions_of_the_constraints(image):
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    tested = dict(line.split("==") for line in lines if "==" in line)
    for name, version in locked(image).items():
        assert version.split("+")[0] == tested.get(name, version.split("+")[0]), "run `make lock`"


@pytest.mark.parametrize("image", [*WANTED, "tools"])
def test_requirements_name_hashes_and_no_host(image):
    text = (ROOT / f"docker/requirements/{image}.txt").read_text(encoding="utf-8")
    assert "://" not in text
    assert "\n--" not in text
    packages = re.split(r"\n(?=[a-z])", text.strip())
    assert all("--hash=sha256:" in package for package in packages)


@pytest.mark.parametrize("image", ["gateway", "gateway-mcp"])
def test_the_gateway_installs_nothing_that_loads_a_model(image):
    heavy = {"torch", "transformers", "tokenizers", "scipy", "scikit-learn", "matplotlib"}
    assert not heavy & locked(image).keys()
