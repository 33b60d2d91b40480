"""Figures of docs/results.md are those that the recordings give."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORM, ROW = "atlas-steps", "a number behind steps"


def cells(table, name):
    [row] = [line for line in table.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in row.strip("|").split("|")]


def told_by(module, *arguments):
    command = [sys.executable, "-m", f"cocoa_lab.{module}", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """The folder of a recorded form, and what the command tells of it."""
    folder = tmp_path_factory.mktemp("forms")
    recorded = ROOT / "lab" / "recordings" / "qwen15"
    return folder, told_by("ladder", folder, "--only", FORM, "--recorded", recorded)


def test_a_row_is_what_the_command_beside_it_tells(forms):
    _, told = forms
    found = dict(zip(cells(told, "form"), cells(told, f"`{FORM}`"), strict=True))

    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    _, num_answers, right, halves, default, inconsistency, sp = cells(page, ROW)
    assert num_answers == found["n"]
    for cell, name in ((right, "right"), (default, "default")):
        assert_rounded(cell, found[name])
    assert_rounded(inconsistency, found["`rb_inconsistency`"].split()[0])
    assert_rounded(sp, found["`sp`"].split()[0])
    assert_rounded(halves, found["by halves"])


def test_promises_of_one_recorded_form_are_held_to_another(forms):
    run = forms[0] / FORM
    asked = ("--num-labels", 30, "--target", 0.2)
    told = told_by("calibration.promises", run, "--made-of", run, *asked)
    # Which prompts are foreign is known where the model ran.
    assert cells(told, FORM)[-1] == "-"


def assert_rounded(cell, found):
    """Each number of a cell is the other's, which has three digits."""
    numbers = [cell.split(), found.split()]
    for short, long in zip(*numbers, strict=True):
        wanted, exact = (float(number.strip("[],")) for number in (short, long))
        assert abs(wanted - exact) <= 0.5 * 10 ** -(len(short.strip("[],")) - 1) + 1e-9
