"""The client's view of the parts of an answer."""

import pytest
from cocoa_client import fields_of, rejected_units, statements_of, units_by_uncertainty, value_of
from cocoa_client.models import GenerateResponse, UnitInfo


def unit(path, uncertainty, text="7", accept=None, kind="field"):
    decision = None if accept is None else {"accept": accept}
    return UnitInfo(
        kind=kind,
        text=text,
        path=path,
        estimator="cocoa_sp",
        uncertainty=uncertainty,
        scores={},
        reasons={},
        decision=decision,
    )


def response(*units):
    return GenerateResponse.model_construct(units=list(units) or None)


ANSWER = unit(None, 9.0, kind="answer")
LOW, HIGH, NONE = unit("/low", 0.1, accept=True), unit("/high", 2.0, accept=False), unit("/n", None)


def test_the_least_sure_come_first_and_what_has_no_score_before_them():
    assert units_by_uncertainty(response(ANSWER, LOW, HIGH, NONE)) == [NONE, HIGH, LOW]
    assert units_by_uncertainty(response()) == []


def test_fields_are_found_by_path_in_the_order_of_the_answer():
    assert list(fields_of(response(ANSWER, LOW, HIGH))) == ["/low", "/high"]


@pytest.mark.parametrize("kind", ["sentence", "claim"])
def test_statements_are_told_in_the_order_of_the_answer(kind):
    first, second = unit(None, 0.1, kind=kind), unit(None, 2.0, kind=kind)

    assert statements_of(response(ANSWER, first, second, LOW)) == [first, second]
    assert statements_of(response()) == []


def test_what_does_not_pass_is_told():
    assert rejected_units(response(ANSWER, LOW, HIGH, NONE)) == [HIGH]


@pytest.mark.parametrize(("text", "value"), [('"A\\u00e9"', "Aé"), ("118.5", 118.5), ("[]", [])])
def test_a_field_has_its_value(text, value):
    assert value_of(unit("/a", 1.0, text)) == value


def test_the_answer_as_a_whole_has_no_value():
    with pytest.raises(ValueError, match="kind answer"):
        value_of(ANSWER)
