"""A calibrator's file, and what its plain arrays say."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocoa_lab.calibration.calibrating import to_json
from models.calibration import ALL, Calibrator, Threshold
from tests.made_calibrators import calibration, calibrator
from tests.same import assert_same


def saved(path, made):
    path.write_text(to_json(made))
    return path


def test_a_file_brings_back_what_was_written_and_is_named_by_its_content(tmp_path):
    made = calibrator({ALL: {"rb_cocoa_root_sp": calibration()}, "facts": {}})
    back = Calibrator.load(saved(tmp_path / "one.json", made))
    other = Calibrator.load(saved(tmp_path / "two.json", calibrator(num_samples=5)))

    assert_same(back.parts, made.parts)
    assert (back.source, back.delta) == (made.source, made.delta)
    assert len(back.id) == 12 != other.id != back.id


def test_parts_that_share_their_calibrations_stand_once_in_a_file(tmp_path):
    [first] = calibrator().parts
    [other] = calibrator({ALL: {"sp": calibration(threshold=2.0)}}, num_samples=5).parts
    shared = replace(first, binding=replace(first.binding, input="messages", unit="field"))
    path = saved(tmp_path / "three.json", replace(calibrator(), parts=(first, shared, other)))

    back = Calibrator.load(path)

    assert_same(back.parts, (first, shared, other))
    assert path.read_text().count('"knots"') == 2


@pytest.mark.parametrize(
    ("uncertainty", "confidence"), [(0, 1.0), (1, 0.875), (2, 0.75), (4, 0.0), (9, 0.0), (-1, 1.0)]
)
def test_confidence_is_linear_between_knots_and_flat_beyond(uncertainty, confidence):
    assert calibration().confidence(uncertainty) == pytest.approx(confidence)


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=2))
def test_a_higher_uncertainty_never_has_a_higher_confidence_or_a_lower_percentile(two):
    low, high = sorted(two)
    one = calibration()
    assert one.confidence(low) >= one.confidence(high)
    assert one.percentile(low) <= one.percentile(high)


def test_a_percentile_counts_ties_half():
    tied = calibration(quantiles=np.array([0.0, 0.0, 1.0, 1.0]))
    found = [tied.percentile(value) for value in (-1, 0, 0.5, 1, 2)]
    assert found == [0, 25, 50, 75, 100]


def test_nothing_passes_without_a_threshold_or_a_score():
    assert Threshold(0.05, 1.0).accepts(1.0)
    assert not Threshold(0.05, 1.0).accepts(1.0001)
    assert not Threshold(0.05, 1.0).accepts(None)
    assert not Threshold(0.01, None).accepts(0.0)


def changed(change):
    value = json.loads(to_json(calibrator()))
    change(value)
    return json.dumps(value)


def in_calibration(name, value):
    return lambda one: calibration_in(one).update({name: value})


def calibration_in(value):
    return value["parts"][0]["groups"][ALL]["rb_cocoa_root_sp"]


def binding_in(value):
    return value["parts"][0]["bindings"][0]


BAD = {
    "no JSON": "{",
    "another format": changed(lambda one: one.update(format=3)),
    "a list": "[]",
    "200,000 opened lists": "[" * 200_000,
    "true for a confidence": changed(in_calibration("confidences", [True, 0.5, 0.0])),
    "no parts": changed(lambda one: one.update(parts=[])),
    "no bindings": changed(lambda one: one["parts"][0].update(bindings=[])),
    "no group of all": changed(lambda one: one["parts"][0].update(groups={"facts": {}})),
    "an unknown binding": changed(lambda one: binding_in(one).update(moon="full")),
    "a binding too few": changed(lambda one: binding_in(one).pop("top_k")),
    "NaN": changed(in_calibration("knots", [0.0, float("nan"), 4.0])),
    "confidence above 1": changed(in_calibration("confidences", [1.5, 0.5, 0.0])),
    "confidence that rises": changed(in_calibration("confidences", [0.5, 0.75, 0.0])),
    "knots that descend": changed(in_calibration("knots", [0.0, 4.0, 2.0])),
    "fewer confidences than knots": changed(in_calibration("confidences", [1.0])),
    "no knots": changed(lambda one: calibration_in(one).update(knots=[], confidences=[])),
    "quantiles that descend": changed(in_calibration("quantiles", [1.0, 0.0])),
    "an unknown field": changed(in_calibration("moon", 1.0)),
}


@pytest.mark.parametrize("content", BAD.values(), ids=list(BAD))
def test_what_is_no_calibrator_is_refused_with_its_path(tmp_path, content):
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"bad\.json is no calibrator"):
        Calibrator.load(path)
