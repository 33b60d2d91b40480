"""Figures of docs/results.md are those that the recordings give."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FORM, ROW = "atlas-steps", "a number behind steps"


def cells(table, name):
    [row] = [line for line in table.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_a_row_is_what_the_command_beside_it_tells(tmp_path):
    command = [sys.executable, "-m", "cocoa_lab.ladder", str(tmp_path), "--only", FORM]
    recorded = ["--recorded", str(ROOT / "lab" / "recordings" / "qwen15")]
    run = subprocess.run([*command, *recorded], capture_output=True, check=True, text=True)
    found = dict(zip(cells(run.stdout, "form"), cells(run.stdout, f"`{FORM}`"), strict=True))

    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    _, num_answers, right, halves, default, inconsistency, sp = cells(page, ROW)
    assert num_answers == found["n"]
    for told, name in ((right, "right"), (default, "default")):
        assert_rounded(told, found[name])
    assert_rounded(inconsistency, found["`rb_inconsistency`"].split()[0])
    assert_rounded(sp, found["`sp`"].split()[0])
    assert_rounded(halves, found["by halves"])


def assert_rounded(told, found):
    """Each number of a cell is the other's, which has three digits."""
    numbers = [told.split(), found.split()]
    for short, long in zip(*numbers, strict=True):
        wanted, exact = (float(number.strip("[],")) for number in (short, long))
        assert abs(wanted - exact) <= 0.5 * 10 ** -(len(short.strip("[],")) - 1) + 1e-9
