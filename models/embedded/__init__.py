"""Where the files of the small models that ship with the project are.

Importing this package loads neither a model nor torch.
"""

from pathlib import Path

_HERE = Path(__file__).resolve().parent

LANGUAGE_MODEL_DIR = _HERE / "language_model"
SECOND_LANGUAGE_MODEL_DIR = _HERE / "second_language_model"
CROSS_ENCODER_DIR = _HERE / "cross_encoder"
NLI_DIR = _HERE / "nli"
PROBES_DIR = _HERE / "probes"
CALIBRATOR_PATH = _HERE / "calibrator.json"
TESTBED_DIR = _HERE / "testbed"

# By the names that settings know them under.
LANGUAGE_MODELS = {
    "embedded": LANGUAGE_MODEL_DIR,
    "embedded-second": SECOND_LANGUAGE_MODEL_DIR,
}

TASKS = ("facts", "arithmetic", "translation")


def as_question(prompt: str) -> str:
    """A prompt in the form that the second language model was trained on."""
    return f"Question: {prompt}\nAnswer:"


def held_out_path(task: str) -> Path:
    """JSONL file of the held-out prompts of one of `TASKS`.

    Raises:
        ValueError: `task` is not one of `TASKS`.
    """
    if task not in TASKS:
        raise ValueError(f"unknown task {task!r}, expected one of {', '.join(TASKS)}")
    return TESTBED_DIR / f"{task}.jsonl"
