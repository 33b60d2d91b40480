"""Results that lie in a folder already: which run may take their place."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cocoa_lab.log import AnotherRun

RESULTS = "results.json"
GENERATIONS = "generations.jsonl"
UNITS = "units.jsonl"  # of a run over parts


def check_replaceable(out: Path, settings: Mapping[str, Any], num_prompts: int) -> None:
    """Let a run replace the results of one like it that has no more prompts.

    Args:
        out: folder of `RESULTS`, which holds its own `settings` and `num_prompts`. A file that is
            no JSON was cut off in the middle, and may go.
        settings: those of this run that are known so far.
        num_prompts: of this run.

    Raises:
        AnotherRun: names what differs.
    """
    try:
        found = json.loads((out / RESULTS).read_bytes())
    except (FileNotFoundError, ValueError):
        return
    if not isinstance(found, dict) or not isinstance(theirs := found.get("settings"), dict):
        raise AnotherRun(f"{out / RESULTS} is none of this command's; --force overwrites it")
    for name, value in settings.items():
        if theirs.get(name) != value:
            raise AnotherRun(
                f"{out / RESULTS} has {name} = {theirs.get(name)!r}, this run has {value!r}; "
                "--force overwrites it"
            )
    if (before := found.get("num_prompts", 0)) > num_prompts:
        raise AnotherRun(
            f"{out / RESULTS} has {before} prompts, this run only {num_prompts}; "
            "--force overwrites it"
        )
