"""Answers and labels made by hand, for tests of who keeps or reads them."""

import time

from app.feedback.records import Answer, Label
from models.calibration import Binding


def a_binding(**fields):
    """That of the fake models, with changes."""
    values = {
        "model_id": "fake",
        "revision": "1",
        "generator": "fake generator",
        "strategy": "greedy",
        "num_samples": 10,
        "stop_mass": None,
        "temperature": 1.0,
        "top_k": 50,
        "top_p": 1.0,
        "stop": ("\n",),
        "max_new_tokens": 64,
        "share_cut": 0.0,
        "similarity": "fake",
        "comparer": "fake pairs",
        "nli": None,
        "probes": {},
    }
    return Binding(**values | fields)


def an_answer(answer_id="a", **fields):
    """One that was served just now, with changes."""
    values = {
        "served_at": time.time(),
        "input": "prompt",
        "estimator": "cocoa_sp",
        "scores": {"cocoa_sp": 0.25, "mte": None},
        "binding": a_binding(),
        "calibrator": "0123456789ab",
    }
    return Answer(answer_id, **values | fields)


def a_label(answer_id="a", quality=1.0, task=None, **fields):
    """One of an answer, with changes of the answer."""
    return Label(an_answer(answer_id, **fields), quality, task, time.time())
