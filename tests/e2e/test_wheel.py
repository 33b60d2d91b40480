"""The wheel away from its checkout: it serves embedded models, and `cocoa doctor` is content."""

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.chaos.redis_server import free_port

ROOT = Path(__file__).parents[2]


@pytest.fixture
def from_wheel(tmp_path):
    """The environment of a process whose packages of ours are those of the wheel."""
    pip = [sys.executable, "-m", "pip"]
    build = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, *build, "-w", tmp_path, ROOT], check=True)
    [wheel] = tmp_path.glob("cocoa_serve-*.whl")
    installed = tmp_path / "installed"
    install = ["install", "--quiet", "--no-deps", "--no-index", "--target", installed]
    subprocess.run([*pip, *install, wheel], check=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COCOA_")}
    return kept | {"PYTHONPATH": str(installed), "COCOA_PORT": str(free_port())}


def test_the_wheel_alone_serves_the_embedded_models_and_the_doctor_finds_nothing_wrong(
    from_wheel, tmp_path
):
    def started(*command):
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        return subprocess.Popen(
            [sys.executable, "-P", *command], cwd=tmp_path, env=from_wheel, **output
        )

    where = started("-c", "import app, models, workers; print(app.__file__, models.__file__)")
    for file in where.communicate(timeout=60)[0].split():
        assert Path(file).is_relative_to(tmp_path)
    main = "from cocoa_serve import main; main()"
    served = started("-c", main, "serve")
    try:
        url = f"http://127.0.0.1:{from_wheel['COCOA_PORT']}"
        while served.poll() is None and not _is_ready(url):
            time.sleep(0.2)
        doctor = started("-c", main, "doctor")
        told = doctor.communicate(timeout=60)[0]
        assert doctor.returncode == 0, told
        assert f"{url} is ready" in told
        asked = started("-c", main, "ask", "What is the capital of Peru?")
        assert "Lima" in asked.communicate(timeout=60)[0]
    finally:
        served.terminate()
        served.communicate(timeout=60)


def _is_ready(url):
    try:
        return httpx.get(f"{url}/readyz").is_success
    except httpx.HTTPError:
        return False
