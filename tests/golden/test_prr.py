"""PRR by an independent implementation of uq-reference's definition (see "source" in prr.json)."""

import json
from pathlib import Path

import pytest

from cocoa_lab.metrics import prr

GOLDEN = json.loads((Path(__file__).parent / "prr.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["name"])
def test_prr_reproduces_its_golden_value(case):
    value = prr(case["uncertainty"], case["quality"], case["max_rejection"])

    if case["prr"] is None:
        assert value is None
    else:
        assert value == pytest.approx(case["prr"], rel=0, abs=1e-9)
