"""Which sources run, as git or an image says it."""

import subprocess
from pathlib import Path

import pytest

from app import revision
from app.revision import git_revision


def test_of_a_checkout_git_says_it_and_an_image_is_believed(monkeypatch, tmp_path):
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
    assert head.stdout.startswith(git_revision(""))
    assert git_revision("abc") == "abc"
    monkeypatch.setattr(revision, "__file__", str(tmp_path / "app" / "revision.py"))
    assert git_revision("") is git_revision("unknown") is None


@pytest.mark.parametrize("error", [FileNotFoundError(), subprocess.TimeoutExpired("git", 2.0)])
def test_without_git_nobody_knows(monkeypatch, error):
    def fail(*_, **__):
        raise error

    assert (Path(revision.__file__).parents[1] / ".git").exists()
    monkeypatch.setattr(subprocess, "run", fail)
    assert git_revision("") is None
