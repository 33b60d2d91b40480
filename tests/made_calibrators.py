"""Calibrators made by hand, for tests of whoever serves one."""

import hashlib
from dataclasses import replace

import numpy as np

from cocoa_lab.calibration.calibrating import to_json
from cocoa_lab.distances import domain_to_bytes, fit_distance
from models.calibration import ALL, Binding, Calibration, Calibrator, Part, Threshold
from models.probes.domain import PromptDomain, beside
from models.similarity.rules import SCORED

# The fake models under the default request.
BINDING = Binding(
    model_id="fake",
    revision="1",
    generator="fake",
    input="prompt",
    strategy="greedy",
    num_samples=10,
    temperature=1.0,
    top_k=50,
    top_p=1.0,
    stop=(),
    max_new_tokens=64,
    share_cut=0.0,
    similarity="fake",
    comparer="fake pairs",
    nli=None,
    probes={},
    rules=SCORED,
)


def calibration(threshold=1.0, **fields):
    """Confidence falls from 1 at 0 to 0 at 4; up to `threshold` 5 % are wrong, never 1 %."""
    values = {
        "method": "isotonic",
        "knots": np.array([0.0, 2.0, 4.0]),
        "confidences": np.array([1.0, 0.75, 0.0]),
        "quantiles": np.linspace(0, 4, 201),
        "thresholds": (
            Threshold(0.01, None, labels_missing=700),
            Threshold(0.05, threshold, 0.5, 0.03),
        ),
        "num_labels": 500,
        "num_right": 300,
    }
    return Calibration(**values | fields)


def calibrator(groups=None, **changes):
    """One part of the fake deployment's, with changes of its binding."""
    binding = {name: getattr(BINDING, name) for name in BINDING.__dataclass_fields__}
    every = groups or {ALL: {"rb_cocoa_root_sp": calibration()}}
    part = Part(Binding(**binding | changes), every)
    return Calibrator("made", "made, 500 labels", 0.1, (part,))


def with_fields(made, threshold=1.0, **changes):
    """The calibrator with a part for fields, or other parts, of the same deployment's answers."""
    binding = replace(made.parts[0].binding, **{"unit": "field"} | changes)
    one = calibration(threshold, thresholds=(Threshold(0.1, threshold, 0.5, 0.06, None, 0.08),))
    return replace(made, parts=(*made.parts, Part(binding, {ALL: {"cocoa_sp": one}})))


def with_prompts(made, path, centre=0.0, generator="fake"):
    """A calibrator's file at a path, with prompts of the fake engine around a centre."""
    rows = np.random.default_rng(0).standard_normal((800, 8)) + centre
    domain = PromptDomain(generator, 2, (fit_distance(rows[:400], rows[400:]),))
    content = domain_to_bytes(domain)
    beside(path).write_bytes(content)
    made = replace(made, prompts=hashlib.sha256(content).hexdigest())
    path.write_text(to_json(made))
    return made
