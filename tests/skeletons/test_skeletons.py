"""What CONTRIBUTING shows to be copied is what is tried here, and serves."""

from pathlib import Path

import numpy as np
import pytest

from models.estimators import known_estimators, score
from tests.conftest import serving
from tests.skeletons import door, estimator

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["estimator", "door"])
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


async def test_a_door_answers_and_refuses(monkeypatch):
    monkeypatch.setattr("app.main.ops", door)
    async with serving() as service:
        answered = await service.client.post("/ask", json={"text": "Where?"})
        refused = await service.client.post("/ask", json={"text": ""})
    assert answered.json()["surprise"] > 0
    assert refused.json()["error"]["field"] == "text"
