"""What the uncertainties of parts mean: confidences, decisions, and what is never accepted."""

from dataclasses import replace

import numpy as np
import pytest

from app.scoring.ask import Ask
from app.scoring.check import check
from app.scoring.judging import judge
from app.scoring.units import Scored, ScoredUnit, ScoredUnits
from models.calibration import ALL, Threshold
from models.errors import InvalidRequest, NotCalibrated
from models.records import Grammar, ProbeReading, SamplingParams
from models.statistics import STATISTICS
from models.units.characters import spans_of_texts
from models.units.fields import fields
from models.units.json_values import parsed
from models.units.parts import Parts
from models.units.unit import Unit
from tests.made_calibrators import calibration, calibrator, with_fields
from tests.results import ABLE, a_deployment, a_plan, sequence

TEXT = '{"a": 1, "b": "x"}'
ANSWER = sequence(TEXT)
ASK = Ask(prompt="?", sampling=SamplingParams(max_new_tokens=64), units="fields", target_error=0.1)
PLAN = a_plan(unit_estimators=("cocoa_sp",), unit_primary="cocoa_sp")
MADE = with_fields(calibrator())


def scored(*uncertainties, text=TEXT, **changes):
    """The answer, and its fields with these uncertainties."""
    whole = Unit("answer", text, np.arange(0))
    units = [ScoredUnit(whole, "sp", {"sp": 1.0}, {})]
    value = parsed(text)
    parts = fields(value, text, spans_of_texts(())) if value is not None else []
    for part, uncertainty in zip(parts, uncertainties, strict=True):
        units.append(ScoredUnit(part, "cocoa_sp", {"cocoa_sp": uncertainty}, {}))
    return ScoredUnits(tuple(units), Parts(text=text, value=value, **changes), None, None)


def judged(units, ask=ASK, answer=ANSWER, made=MADE, plan=PLAN, **options):
    plan = replace(plan, ask=ask, calibrator=made)
    return judge(plan, Scored({"sp": 1.0}, {}, units), answer, **options).parts


def check_units_asked(ask, plan, made):
    plan = replace(plan, ask=ask, available=frozenset(STATISTICS), calibrator=made)
    check(plan, a_deployment(calibrator=made, **ABLE))


def test_a_part_passes_up_to_the_threshold_and_has_the_confidence_of_its_curve():
    found = judged(scored(1.0, 1.01))

    assert [one.accept for one in found.units] == [True, False]
    curve = calibration()
    confidences = [one.confidence for one in found.units]
    assert confidences == pytest.approx([curve.confidence(1.0), curve.confidence(1.01)])
    assert [one.reason for one in found.units] == [None, "its uncertainty is above the threshold"]
    assert found.decision.accept is False
    assert judged(scored(0.5, 1.0)).decision.accept is True


@pytest.mark.parametrize(("floor", "action"), [(0.74, "verify"), (0.76, "hand_over")])
def test_parts_are_verified_or_handed_over_by_the_least_confidence_of_those_that_do_not_pass(
    floor, action
):
    known = judged(scored(0.5, 2.0), replace(ASK, hand_over_below=floor))
    unknown = judged(scored(2.0, None), replace(ASK, hand_over_below=floor))

    assert known.units[1].confidence == pytest.approx(0.75)
    assert (known.decision.action, unknown.decision.action) == (action, "hand_over")


@pytest.mark.parametrize(("estimator", "accept"), [("cocoa_sp_light", False), ("sp", True)])
def test_a_part_that_a_probe_cannot_read_does_not_pass_by_that_probe(estimator, accept):
    unit = Unit("sentence", "Far.", np.arange(0), reading=ProbeReading(0.1, 99.9, True))
    whole = ScoredUnit(Unit("answer", "Far.", np.arange(0)), "sp", {"sp": 1.0}, {})
    units = (whole, ScoredUnit(unit, estimator, {estimator: 0.1}, {}))
    groups = {ALL: {estimator: calibration(thresholds=(Threshold(0.1, 1.0),))}}
    made = with_fields(calibrator(), unit="sentence")
    made = replace(made, parts=(made.parts[0], replace(made.parts[1], groups=groups)))
    [part] = judged(
        ScoredUnits(units, Parts(), None, None),
        replace(ASK, units="sentences"),
        made=made,
        plan=replace(PLAN, unit_primary=estimator),
    ).units

    assert part.accept == accept
    assert accept or part.reason.startswith("out_of_domain")


def test_where_no_threshold_keeps_the_target_nothing_passes_and_what_is_missing_is_told():
    one = calibration(thresholds=(Threshold(0.1, None, labels_missing=300),))
    made = with_fields(calibrator())
    part = replace(made.parts[1], groups={ALL: {"cocoa_sp": one}})
    found = judged(scored(0.0, 0.0), made=replace(made, parts=(made.parts[0], part)))

    assert [one.accept for one in found.units] == [False, False]
    assert found.units[0].reason == "nothing passes at this target error"
    assert found.decision.reason.startswith("nothing passes at a target error of 10 %")
    assert "about 300 more labels are needed" in found.decision.guarantee


def test_behind_a_reasoning_nothing_is_calibrated_and_nothing_passes():
    plan = replace(PLAN, is_reasoned=True)
    ask = replace(ASK, on_unit_reject="remove")
    found = judged(scored(0.1, 0.1), ask, plan=plan)

    assert "behind a reasoning" in found.reason
    assert found.decision.accept is False
    assert found.refined_text == '{"a": null, "b": null}'


def test_a_schema_that_only_removal_finds_at_fault_is_refused_by_name():
    made = with_fields(calibrator(), schema_use="compared")
    ask = replace(ASK, on_unit_reject="remove", json_schema={"properties": {"b": {"type": 7}}})

    with pytest.raises(InvalidRequest) as caught:
        judged(scored(2.0, 2.0, schema=ask.json_schema), ask, made=made)
    assert caught.value.field == "json_schema"


TOOL = {"type": "function", "function": {"name": "weather"}}
OTHER = {
    "compared by a schema": (replace(ASK, json_schema={}), "json_schema compared"),
    "held to a schema": (replace(ASK, grammar=Grammar("json_schema", "{}")), "followed"),
    "calls of tools": (replace(ASK, tools=(TOOL,)), "for tools called: ask with tools none"),
    "fewer samples": (replace(ASK, sampling=SamplingParams(5, max_new_tokens=64)), "num_samples 5"),
    "a group without fields": (replace(ASK, calibration="poems"), "cocoa_sp of a field"),
}


@pytest.mark.parametrize(("ask", "why"), OTHER.values(), ids=list(OTHER))
def test_parts_of_another_kind_are_refused_with_the_reason(ask, why):
    with pytest.raises(NotCalibrated, match=why):
        check_units_asked(ask, PLAN, MADE)
