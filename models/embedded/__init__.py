"""Paths of the small models that ship with the project.

Importing this package loads neither a model nor torch.
"""

from pathlib import Path

_HERE = Path(__file__).resolve().parent

LANGUAGE_MODEL_DIR = _HERE / "language_model"
SECOND_LANGUAGE_MODEL_DIR = _HERE / "second_language_model"
LONG_LANGUAGE_MODEL_DIR = _HERE / "long_language_model"
SECOND_LONG_LANGUAGE_MODEL_DIR = _HERE / "second_long_language_model"
CROSS_ENCODER_DIR = _HERE / "cross_encoder"
NLI_DIR = _HERE / "nli"
PROBES_DIR = _HERE / "probes"
CALIBRATOR_PATH = _HERE / "calibrator.json"
TESTBED_DIR = _HERE / "testbed"
LONG_TESTBED_DIR = _HERE / "long_testbed"

# By the names that settings know them under.
LANGUAGE_MODELS = {
    "embedded": LANGUAGE_MODEL_DIR,
    "embedded-second": SECOND_LANGUAGE_MODEL_DIR,
    "embedded-long": LONG_LANGUAGE_MODEL_DIR,
    "embedded-long-second": SECOND_LONG_LANGUAGE_MODEL_DIR,
}
# By the same names; any other model has the first one beside it, which then does not fit.
CALIBRATORS = {"embedded-long": _HERE / "long_calibrator.json"}
# Which of them each probe in `PROBES_DIR` reads.
PROBED = {
    "inconsistency": "embedded",
    "semantic_entropy": "embedded",
    "sentence_inconsistency": "embedded-long",
}
# Those whose answers the embedded cross-encoder knows; the NLI model knows those of all.
SHORT_LANGUAGE_MODELS = ("embedded", "embedded-second")
