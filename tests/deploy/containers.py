"""Images that are really built and containers that are really started, without a Docker engine.

Everything lies below `.deploy`, beside what else this machine has (`set_up.sh`).
"""

import json
import os
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.deploy.chart import DEPLOY, ROOT, run

VERSION = "0.4.0.dev0"
ENVIRONMENT = {
    **os.environ,
    "CONTAINERS_STORAGE_CONF": str(DEPLOY / "storage.conf"),
    "CONTAINERS_CONF": str(DEPLOY / "containers.conf"),
}
# How a container is started by hand: as restricted as the chart's.
RESTRICTED = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL")
RESTRICTED += ("--security-opt", "no-new-privileges")


def podman(*arguments, check=True, **options):
    """What podman prints."""
    done = run("podman", *arguments, env=ENVIRONMENT, **options)
    if check:
        assert done.returncode == 0, f"podman {arguments}: {done.stderr}"
    return done.stdout.strip()


def build(name, tag=VERSION):
    """Build docker/NAME.Dockerfile as it is, from nothing; the seconds that it took.

    A closed network's own places for packages are handed over, and mounted where they are folders.
    """
    options = []
    for variable, text in places().items():
        options += ["--build-arg", f"{variable}={text}"]
        for one in text.split():
            if folder := folder_of(one):
                options += ["--volume", f"{folder}:{folder}:ro"]
    command = ("buildah", "bud", "--isolation", "chroot", "--pull-never", "--format", "docker")
    sources = ("-f", ROOT / f"docker/{name}.Dockerfile", "-t", f"cocoa-{name}:{tag}", ROOT)
    started = time.monotonic()
    done = run(*command, *options, *sources, env=ENVIRONMENT)
    if "sealing memfd copy" in done.stderr:  # now and then buildah fails to start itself anew
        done = run(*command, *options, *sources, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return time.monotonic() - started


def folder_of(place):
    """The folder that a place for packages is in; None for one of another machine."""
    parts = urlsplit(place)
    path = Path(parts.path)
    if parts.scheme not in ("", "file") or not path.is_absolute() or not path.exists():
        return None
    # An index links to files beside it.
    return path if path.is_dir() and parts.scheme == "" else path.parent


def places():
    """Where pip takes packages from, by the build argument's name: from environment and file."""
    found = {}
    for setting in ("index-url", "extra-index-url", "find-links", "cert"):
        variable = f"PIP_{setting.upper().replace('-', '_')}"
        text = os.environ.get(variable) or run("pip", "config", "get", f"global.{setting}").stdout
        if text.strip():
            found[variable] = text.strip()
    return found


def exists(image):
    """Whether this machine has an image."""
    return run("podman", "image", "exists", image, env=ENVIRONMENT).returncode == 0


def inspect(image):
    """What an image is."""
    (found,) = json.loads(podman("image", "inspect", image))
    return found


def own_bytes(image):
    """Bytes of an image above those of its base."""
    return inspect(image)["Size"] - inspect("docker.io/library/python:3.11-slim")["Size"]
