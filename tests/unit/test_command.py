"""The command `cocoa` beside other projects, and what the wheel says of itself."""

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


def test_a_change_is_tested_by_the_command_that_tests_a_clone():
    tested = yaml.safe_load((WORKFLOWS / "ci.yml").read_text())["jobs"]["test"]
    assert tested["steps"][-1]["run"] == ".ci/run"
    released = yaml.safe_load((WORKFLOWS / "release.yml").read_text())["jobs"]
    assert released["test"]["uses"] == "./.github/workflows/ci.yml"
    assert all(job.get("needs") == "test" for name, job in released.items() if name != "test")
