"""Answers and labels made by hand, for tests of who keeps or reads them."""

import time
from dataclasses import replace

from app.plugins.labels.protocol import Answer, Label
from tests.made_calibrators import BINDING


def a_binding(**fields):
    """That of the fake models, with changes."""
    return replace(BINDING, **fields)


def an_answer(answer_id="a", **fields):
    """One that was served just now, with changes."""
    values = {
        "served_at": time.time(),
        "estimator": "cocoa_sp",
        "scores": {"cocoa_sp": 0.25, "mte": None},
        "binding": a_binding(),
        "calibrator": "0123456789ab",
    }
    return Answer(answer_id, **values | fields)


def a_label(answer_id="a", quality=1.0, task=None, **fields):
    """One of an answer, with changes of the answer."""
    return Label(an_answer(answer_id, **fields), quality, task, time.time())
