import numpy as np
import pytest

from app.scoring.units import summary
from models.estimators import score
from models.units.unit import Unit


def test_what_the_answer_lacks_its_units_lack():
    unit = Unit("sentence", "b.", np.array([0]))

    scores, reasons = score(["sp", "mte", "inconsistency"], *unit.cut({}, {"similarity": "why"}))

    assert set(scores.values()) == {None}
    assert reasons["inconsistency"] == "why"


def test_support_is_unknown_without_samples():
    unit = Unit("sentence", "b.", np.array([0]))
    unsampled = Unit("sentence", "b.", np.array([0]), supports=np.array([]))

    assert (unit.support, unit.contradiction, unsampled.support) == (None, None, None)


@pytest.mark.parametrize(
    ("scores", "expected"),
    [([], (None, None)), ([None], (None, None)), ([0.0, None, 1.0], (0.5, 1.0))],
)
def test_units_without_a_score_are_not_summed_up(scores, expected):
    assert summary(scores) == expected
