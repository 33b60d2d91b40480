"""docs/deploy.md: each command is run, or marked as needing a real cluster."""

import re
import shlex

import pytest

from tests.deploy.chart import DEPLOY, ROOT, run

PAGE = (ROOT / "docs/deploy.md").read_text()
MARK = "# needs a cluster"
# Run by the tests of images and of compose, which have no Docker engine.
BY_OTHERS = {
    "docker build -f docker/gateway.Dockerfile -t cocoa-gateway:0.4.0.dev0 .",
    "docker build -f docker/worker.Dockerfile -t cocoa-worker:0.4.0.dev0 .",
    "docker run --rm --detach --name cocoa --publish 127.0.0.1:8000:8000 cocoa-worker:0.4.0.dev0",
    "docker rm --force cocoa",
    "docker compose up --build -d",
    "docker compose down",
}


def commands():
    """Commands of all blocks that need no cluster."""
    found = []
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL):
        if not block.startswith(MARK):
            found += block.strip().splitlines()
    return found


def test_every_command_is_run_somewhere():
    assert set(commands()) >= BY_OTHERS
    known = ("helm ", "curl ")
    assert [one for one in commands() if one not in BY_OTHERS and not one.startswith(known)] == []


@pytest.mark.parametrize("version", ["helm3", "helm4"])
@pytest.mark.parametrize("command", [one for one in commands() if one.startswith("helm ")])
def test_a_command_of_helm_works_as_it_stands(command, version):
    words = shlex.split(command)
    done = run(DEPLOY / version / "helm", *words[1:], cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_the_examples_are_all_described():
    held = {one.name for one in (ROOT / "helm/examples").glob("*.yaml")}
    assert set(re.findall(r"^\| `([a-z-]+\.yaml)` \|", PAGE, re.MULTILINE)) == held
