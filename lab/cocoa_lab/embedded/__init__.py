"""What is asked of the embedded models, and the world that those of long answers write about.

How they were made stands in `models/embedded/README.md`. This module itself loads neither a model
nor torch.
"""

from pathlib import Path

from models.embedded import TESTBED_DIR

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
