import numpy as np

from models.estimators import score
from models.units.unit import Unit, contradiction, cut, support


def test_what_the_answer_lacks_its_units_lack():
    unit = Unit("sentence", "b.", np.array([0]))

    scores, reasons = score(["sp", "mte", "consistency"], *cut(unit, {}, {"similarity": "why"}))

    assert set(scores.values()) == {None}
    assert reasons["consistency"] == "why"


def test_support_is_unknown_without_samples():
    unit = Unit("sentence", "b.", np.array([0]))
    unsampled = Unit("sentence", "b.", np.array([0]), supports=np.array([]))

    assert (support(unit), contradiction(unit), support(unsampled)) == (None, None, None)
