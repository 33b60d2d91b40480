"""`cocoa check`: promises held to other answers than a calibrator was made of."""

import numpy as np
import pytest
from typer.testing import CliRunner

from app.cli import app
from cocoa_lab.calibration.checking import held_to
from models.calibration import Threshold
from tests.unit.lab.test_controls import RIGHT, results_of

pytestmark = pytest.mark.usefixtures("undrawn")

RNG = np.random.default_rng(2)
GOOD = 1 - RIGHT + 0.9 * RNG.random(len(RIGHT))  # ranks without a mistake


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "120"})


@pytest.fixture(scope="module")
def calibrator(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    results_of(folder, GOOD)
    result = run("calibrate", "--results", folder, "--out", folder / "calibrator.json")
    assert result.exit_code == 0, result.output
    return folder / "calibrator.json"


def test_a_promise_that_holds_is_told_from_one_that_does_not(calibrator, tmp_path):
    kept = run("check", calibrator, "--results", calibrator.parent)
    assert kept.exit_code == 0, kept.output
    assert "prompt, greedy, fake, num_samples 3" in kept.output
    assert "100 of 100" in kept.output  # none is wrong: as good as any draw
    results_of(tmp_path, RNG.random(len(RIGHT)))
    broken = run("check", calibrator, "--results", tmp_path, "--estimators", "sp")
    [row] = [line.split() for line in broken.output.splitlines() if "sp" in line and "20 %" in line]
    assert float(row[-3]) < 1  # of 100 draws


def test_another_way_of_asking_is_refused_by_name(calibrator, tmp_path):
    results_of(tmp_path, GOOD)
    text = (tmp_path / "results.json").read_text()
    (tmp_path / "results.json").write_text(text.replace('"generator": "fake"', '"generator": "b"'))
    result = run("check", calibrator, "--results", tmp_path)
    assert result.exit_code == 1
    assert "is of other models or ways of asking: prompt, greedy, fake" in result.output


@pytest.mark.parametrize(
    ("num_wrong", "chance"), [(0, "100 of 100"), (10, "54.9 of 100"), (20, "0.198 of 100")]
)
def test_chance_is_that_of_so_many_wrong_ones_where_the_promise_just_holds(num_wrong, chance):
    correct = np.ones(150)
    correct[:num_wrong] = 0
    uncertainty = np.concatenate([np.zeros(100), np.ones(50)])
    held = held_to(Threshold(0.1, 0.5), uncertainty, correct)
    assert (held.accepted, held.chance) == ("100 of 150", chance)
    assert held.wrong.startswith(str(num_wrong))
    assert held_to(Threshold(0.1, None), uncertainty, correct).accepted == "no threshold"
