import numpy as np
import pytest

from models.estimators import ESTIMATORS, needs, score
from models.units.unit import NO_TOKENS, UNIT_STATISTICS, Unit, contradiction, cut, summary, support

STATISTICS = {
    "answer_token_logprobs": np.array([-1.0, -2.0, -4.0]),
    "answer_token_entropies": np.array([0.1, 0.2, 0.4]),
    "similarity": np.array([0.0, 0.0]),
    "sample_texts": ["a", "b"],
}


def test_a_unit_is_scored_by_its_own_tokens_and_support():
    unit = Unit("sentence", "b.", np.array([1, 2]), supports=np.array([0.5, 1.0]))

    scores, reasons = score(["sp", "mte", "consistency", "cocoa_sp"], *cut(unit, STATISTICS))

    assert scores == pytest.approx({"sp": 6, "mte": 0.3, "consistency": 0.25, "cocoa_sp": 1.5})
    assert reasons == {}


def test_every_estimator_of_what_a_unit_supplies_is_defined_for_it():
    defined = {name for name in ESTIMATORS if needs([name]) <= UNIT_STATISTICS}
    unit = Unit("claim", "b.", np.array([1]), supports=np.array([0.5]))

    scores, reasons = score(defined, *cut(unit, STATISTICS))

    assert {"sp", "ppl", "mte", "consistency", "cocoa_mte", "prob_cocoa_ppl"} <= defined
    assert reasons == {}
    assert None not in scores.values()


def test_a_unit_without_tokens_keeps_its_support():
    unit = Unit("claim", "b.", np.array([], int), supports=np.array([0.5]))

    scores, reasons = score(["sp", "consistency"], *cut(unit, STATISTICS))

    assert scores == {"sp": None, "consistency": 0.5}
    assert reasons == {"sp": NO_TOKENS}


def test_a_better_reason_than_having_no_tokens_is_kept():
    unit = Unit("answer", "", np.array([], int))
    absent = {"answer_token_logprobs": "reasoning_unfinished"}

    _, reasons = score(["sp", "mte"], *cut(unit, STATISTICS, absent))

    assert reasons == {"sp": "reasoning_unfinished", "mte": NO_TOKENS}


def test_what_the_answer_lacks_its_units_lack():
    unit = Unit("sentence", "b.", np.array([0]))

    scores, reasons = score(["sp", "mte", "consistency"], *cut(unit, {}, {"similarity": "why"}))

    assert set(scores.values()) == {None}
    assert reasons["consistency"] == "why"


def test_support_is_unknown_without_samples():
    unit = Unit("sentence", "b.", np.array([0]))
    unsampled = Unit("sentence", "b.", np.array([0]), supports=np.array([]))

    assert (support(unit), contradiction(unit), support(unsampled)) == (None, None, None)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([], (None, None)), ([None], (None, None)), ([0.0, None, 1.0], (0.5, 1.0))],
)
def test_units_without_a_score_are_not_summed_up(scores, expected):
    assert summary(scores) == expected
