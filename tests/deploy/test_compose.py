"""compose.yaml: checked, and started with the images that were built here."""

import os
import shlex
import subprocess
import time

import httpx
import pytest
import yaml

from tests.deploy.chart import DEPLOY, ROOT, run
from tests.deploy.containers import ENVIRONMENT, podman
from tests.deploy.load import ask
from tests.deploy.test_docs import commands

COMPOSE = ("docker-compose", "-p", "cocoa-deploy", "-f", ROOT / "compose.yaml")
GPU = ("-f", ROOT / "docker/compose.gpu.yaml")
PORT = 18000


def compose(*arguments, files=COMPOSE, **variables):
    return run(*files, *arguments, env={**os.environ, **variables}, cwd=ROOT)


@pytest.mark.parametrize("files", [COMPOSE, (*COMPOSE, *GPU)], ids=["cpu", "gpu"])
@pytest.mark.parametrize("profile", [(), ("--profile", "observability")], ids=["plain", "watched"])
def test_the_compose_files_are_valid(files, profile):
    done = compose("config", files=(*files, *profile))
    assert done.returncode == 0, done.stderr
    services = yaml.safe_load(done.stdout)["services"]
    assert {"gateway", "similarity", "redis"} <= services.keys()
    assert ("vllm" in services) == (files is not COMPOSE)
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        # `docker compose` refuses to wait for one whose profile is not active.
        for other in service.get("depends_on", ()):
            assert other in services, name
            assert "profiles" not in services[other], name


def test_what_compose_scrapes_and_shows_is_there():
    observability = ROOT / "docker/observability"
    done = run("promtool", "check", "config", "compose.prometheus.yml", cwd=observability)
    assert done.returncode == 0, done.stdout + done.stderr
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    for service in services.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert not source.startswith("./") or (ROOT / source).exists(), volume


@pytest.fixture
def engine():
    """Podman in the place of a Docker engine."""
    socket = DEPLOY / "podman.sock"
    command = ["podman", "system", "service", "--time", "0", f"unix://{socket}"]
    log = (DEPLOY / "podman-service.log").open("w")
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=log, stderr=log)
    try:
        while not socket.exists():
            assert process.poll() is None
            time.sleep(0.1)
        yield f"unix://{socket}"
    finally:
        process.terminate()
        process.wait()
        log.close()
        socket.unlink(missing_ok=True)


@pytest.mark.usefixtures("gateway_image", "worker_image")
def test_one_command_starts_gateway_models_and_redis(engine):
    variables = {"DOCKER_HOST": engine, "COCOA_PUBLISH": f"127.0.0.1:{PORT}"}
    up = compose("up", "-d", "--no-build", **variables)
    try:
        assert up.returncode == 0, up.stderr
        url = f"http://127.0.0.1:{PORT}"
        wait_ready(url)
        full = ask(url, "What is the capital of France?", num_samples=10)
        light = ask(url, "What is the capital of France?", mode="light", num_samples=None)
        assert (full.status_code, light.status_code) == (200, 200), full.text + light.text
        print(f"\nfull: {full.json()['text']!r}, light: {light.json()['text']!r}")
        for command in commands():
            if command.startswith("curl "):
                done = run(*shlex.split(command.replace(":8000/", f":{PORT}/")))
                assert done.returncode == 0, done.stdout + done.stderr
        assert "cocoa_cache_breaker_open 0.0" in httpx.get(f"{url}/metrics").text
        for name in podman("ps", "--format", "{{.Names}}").splitlines():
            if "cocoa-deploy" in name:
                assert (
                    podman("inspect", "--format", "{{.HostConfig.ReadonlyRootfs}}", name) == "true"
                )
    finally:
        logs = compose("logs", "--tail", "5", **variables).stdout
        compose("down", "-v", "-t", "5", **variables)
        print(logs[-2000:] if up.returncode else "")


def wait_ready(url, timeout_s=400):
    end = time.monotonic() + timeout_s
    while True:
        try:
            if httpx.get(f"{url}/readyz").status_code == 200:
                return
        except httpx.HTTPError:
            pass
        assert time.monotonic() < end
        time.sleep(0.5)
