"""Schemas of strangers, for seconds; `tests/chaos/schemas.py` sends thousands of them."""

import os
import signal
from pathlib import Path

from tests.chaos.cocoa_process import cocoa_serve, until
from tests.chaos.schemas import soak
from tests.chaos.soak import EMBEDDED, START_S


def test_generated_schemas_are_followed_or_refused_in_words_and_the_process_lives():
    figures = soak(150, seed=7)
    print(figures)
    assert figures.wrong == []
    assert figures.outcomes[200] > 15
    assert figures.outcomes[422] > 15


def held_to(value):
    schema = {"type": "array", "items": {"const": value}, "maxItems": 1}
    return {"type": "json_schema", "json_schema": {"name": "one", "schema": schema}}


def trying_processes(process):
    """Those below the service that try grammars, by their id."""
    found = set()
    for task in Path(f"/proc/{process.popen.pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            if b"models.grammar.trial" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.add(child)
    return found


def test_a_killed_process_that_tries_grammars_costs_no_request_and_is_replaced():
    with cocoa_serve(**EMBEDDED, COCOA_NLI__MODEL="") as process:
        process.wait_ready(START_S)
        until(lambda: trying_processes(process))  # before any schema comes
        seen = set()
        for number in range(3):
            [killed] = trying_processes(process)
            seen.add(killed)
            os.kill(killed, signal.SIGKILL)
            told = process.generate("What is it?", response_format=held_to(number))
            assert told.status_code == 200, told.text
        assert len(seen) == 3
        assert any("the process that tries grammars ended" in line for line in process.log)
        [last] = trying_processes(process)
    until(lambda: not Path(f"/proc/{last}").exists())  # nothing is left of a service that ended
