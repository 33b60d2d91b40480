"""Calibrators made by hand, for tests of whoever serves one."""

import numpy as np

from models.calibration import ALL, Binding, Calibration, Calibrator, Threshold

# The fake models under the default request.
BINDING = Binding(
    model_id="fake",
    revision="1",
    generator="fake",
    input="prompt",
    strategy="greedy",
    num_samples=10,
    stop_mass=None,
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
)


def calibration(threshold=1.0, **fields):
    """Confidence falls from 1 at 0 to 0 at 4; up to `threshold` 5 % are wrong, never 1 %."""
    values = {
        "method": "isotonic",
        "knots": np.array([0.0, 2.0, 4.0]),
        "confidences": np.array([1.0, 0.75, 0.0]),
        "quantiles": np.linspace(0, 4, 201),
        "thresholds": (Threshold(0.01, None), Threshold(0.05, threshold, 0.5, 0.03)),
        "num_labels": 500,
        "num_right": 300,
    }
    return Calibration(**values | fields)


def calibrator(groups=None, **changes):
    """One of the fake deployment, with changes of its binding."""
    binding = {name: getattr(BINDING, name) for name in BINDING.__dataclass_fields__}
    every = groups or {ALL: {"rb_cocoa_sp": calibration()}}
    return Calibrator("made", Binding(**binding | changes), "made, 500 labels", 0.1, every)
