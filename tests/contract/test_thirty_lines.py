"""A new engine is one class and one line in ENGINES: nothing else has to know of it."""

import inspect

import pytest

from models.engines import ENGINES
from tests.conftest import serving
from tests.contract.thirty import ThirtyLines, sequence

pytestmark = pytest.mark.anyio


async def test_an_engine_of_thirty_lines_serves_requests(monkeypatch):
    monkeypatch.setitem(ENGINES, "thirty", "tests.contract.thirty:ThirtyLines")
    async with serving(engine="thirty") as service:
        answered = (await service.generate(seed=1, return_samples=True)).json()
        scored = await service.client.post("/score", json={"prompt": "Hi", "answer": " It is Rome"})
        refused = (await service.generate(estimators=["mte"])).json()

    assert answered["text"] == " It is Paris"
    assert answered["scores"]["cocoa_sp"] == pytest.approx(
        answered["scores"]["sp"] * answered["scores"]["inconsistency"]
    )
    assert answered["reasons"]["mte"] == "answer_token_entropies is not available"
    assert scored.json()["scores"]["sp"] == pytest.approx(0.5 * 4)
    assert refused["error"]["code"] == "statistic_unavailable"


def test_it_really_has_no_more_than_thirty_lines():
    source = inspect.getsource(ThirtyLines) + inspect.getsource(sequence)
    assert len([line for line in source.splitlines() if line.strip()]) <= 30
