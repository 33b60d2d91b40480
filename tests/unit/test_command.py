"""The command `cocoa` beside other projects, and what the wheel says of itself."""

import importlib.util
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / ".github" / "workflows"


def ran(*path):
    """`cocoa --version`, with these folders first on Python's path."""
    command = [sys.executable, "-c", "import cocoa_serve; cocoa_serve.main()", "--version"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT)))}
    return subprocess.run(
        command, env=environment, cwd="/", capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("name", ["app", "models", "workers"])
@pytest.mark.parametrize("first", ["__init__.py", "other.py"], ids=["package", "namespace"])
def test_a_foreign_package_of_the_same_name_is_told_in_words(tmp_path, name, first):
    (tmp_path / name).mkdir()
    (tmp_path / name / first).write_text("")
    done = ran(tmp_path)
    if first == "other.py":  # a folder without __init__.py stands behind a package
        assert done.returncode == 0
        return
    assert done.returncode == 1
    assert done.stderr.startswith(f"cocoa: Python finds another package of the name {name}: ")
    assert str(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr


def test_alone_the_command_runs():
    done = ran()
    assert (done.returncode, done.stderr) == (0, "")


def test_the_wheel_has_all_that_the_command_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    module, _ = project["project"]["scripts"]["cocoa"].split(":")
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert f"{module}.py" in wheel["only-include"]
    # It would be copied beside a checkout that is installed as one, and find that to be another's.
    assert "force-include" not in wheel
    for image in ("gateway", "worker"):
        assert f"{module}.py" in (ROOT / "docker" / f"{image}.Dockerfile").read_text()
    assert f"!{module}.py" in (ROOT / ".dockerignore").read_text()
    assert {"authors", "classifiers", "urls", "keywords"} <= project["project"].keys()


def fill():
    """The module `.ci/fill.py`."""
    spec = importlib.util.spec_from_file_location("fill", ROOT / ".ci" / "fill.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


VALUES = ["acme/cocoa.serve", "a@acme.org", "b@acme.org"]


def test_what_a_release_fills_in_is_all_that_names_nobody():
    places, listed = fill(), ["git", "grep", "-l", "your-organisation", "--", ":!.ci", ":!tests"]
    found = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert sorted(found.split()) == sorted(places.FILES)
    made = {name: places.filled((ROOT / name).read_text(), VALUES) for name in places.FILES}
    project = tomllib.loads(made["pyproject.toml"])["project"]
    assert project["authors"][0]["email"] == "a@acme.org"
    assert all(
        one.startswith("https://github.com/acme/cocoa.serve") for one in project["urls"].values()
    )
    assert "b@acme.org" in made["SECURITY.md"]
    assert "git clone https://github.com/acme/cocoa.serve " in made["README.md"]


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("value", ["", "nobody", "security@your-organisation.example", "a b@c.d"])
def test_a_release_is_refused_without_who_answers_for_it(place, value):
    values = [*VALUES[:place], value, *VALUES[place + 1 :]]
    with pytest.raises(ValueError, match="cannot stand in the place of"):
        fill().filled("text", values)


def test_a_release_fills_in_before_it_builds():
    jobs = yaml.safe_load((WORKFLOWS / "release.yml").read_text())["jobs"]
    for name in ("wheels", "images"):
        steps = [step.get("run", "") for step in jobs[name]["steps"]]
        (at,) = (i for i, run in enumerate(steps) if ".ci/fill.py" in run)
        built = [i for i, run in enumerate(steps) if "pip wheel" in run or "docker build" in run]
        assert built
        assert at < min(built)


def test_a_change_is_tested_by_the_command_that_tests_a_clone():
    tested = yaml.safe_load((WORKFLOWS / "ci.yml").read_text())["jobs"]["test"]
    assert tested["steps"][-1]["run"] == ".ci/run"
    released = yaml.safe_load((WORKFLOWS / "release.yml").read_text())["jobs"]
    assert released["test"]["uses"] == "./.github/workflows/ci.yml"
    assert all(job.get("needs") == "test" for name, job in released.items() if name != "test")
