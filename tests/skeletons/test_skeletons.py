"""What CONTRIBUTING shows to be copied is what is tried here, and serves."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from models.estimators import known_estimators, score
from tests.conftest import serving
from tests.skeletons import endpoint, estimator

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["estimator", "endpoint"])
def test_contributing_shows_the_skeleton_in_forty_lines(name):
    text = (ROOT / "tests" / "skeletons" / f"{name}.py").read_text()
    assert f"```python\n{text}```" in (ROOT / "CONTRIBUTING.md").read_text()
    assert len(text.splitlines()) <= 40


async def test_an_estimator_is_scored_by_whoever_asks_for_it(monkeypatch):
    monkeypatch.setitem(known_estimators(), "spread", estimator.ROW)
    logprobs = [np.array([-1.0, -1.0]), np.array([-4.0])]
    assert score(["spread"], {"sample_token_logprobs": logprobs}) == ({"spread": 1.0}, {})
    async with serving() as service:
        answered = (await service.generate(estimators=["spread"], return_samples=True)).json()
    logprobs = [sample["logprob"] for sample in answered["samples"]]
    assert answered["uncertainty"] == pytest.approx(np.std(logprobs))


async def test_an_endpoint_answers_and_refuses(monkeypatch):
    monkeypatch.setattr("app.main.ops", endpoint)
    async with serving() as service:
        answered = await service.client.post("/ask", json={"text": "Where?"})
        refused = await service.client.post("/ask", json={"text": ""})
    assert answered.json()["surprise"] > 0
    assert refused.json()["error"]["field"] == "text"


SERVED = """
import asyncio, httpx
from app.main import create_app
from app.settings import load_settings

async def ask():
    transport = httpx.ASGITransport(create_app(load_settings()))
    async with httpx.AsyncClient(transport=transport, base_url="http://cocoa") as client:
        response = await client.get("/greeting")
    print(response.json()["greeting"], response.headers["X-Greeting"])

asyncio.run(ask())
"""


def test_a_plugin_serves_from_a_package_of_its_own(tmp_path):
    page = (ROOT / "docs" / "plugins.md").read_text()
    module = (ROOT / "tests" / "skeletons" / "plugin.py").read_text()
    assert f"```python\n{module}```" in page
    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    (source / "cocoa_greeting.py").write_text(module)
    project = page.partition("```toml\n")[2].partition("```")[0]
    (source / "pyproject.toml").write_text(project)
    install = ["pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([sys.executable, "-m", *install, "--target", site, source], check=True)
    paths = os.pathsep.join([str(site), str(ROOT)])
    environment = os.environ | {"PYTHONPATH": paths, "COCOA_GREETING": "welcome"}

    def served(environment):
        command = [sys.executable, "-c", SERVED]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    assert served(environment).stdout == "welcome welcome\n"
    refused = served(environment | {"PYTHONPATH": str(ROOT)})
    assert "COCOA_GREETING is no setting" in refused.stderr
