"""`cocoa calibrate --feedback`: from labels to a calibrator, and what it refuses."""

import numpy as np
import pytest
from typer.testing import CliRunner

from app.cli import app
from app.feedback.protocol import to_json
from models.calibration import ALL, Calibrator
from tests.made_labels import a_binding, a_label


@pytest.fixture
def run(tmp_path):
    """Run the command with these arguments, and --out."""
    out = tmp_path / "calibrator.json"

    def run(*arguments):
        return CliRunner().invoke(app, ["calibrate", "--out", str(out), *map(str, arguments)]), out

    return run


@pytest.fixture
def labels(tmp_path):
    """A file of 120 labels, five of them of another model."""
    rng = np.random.default_rng(0)
    lines = []
    for i in range(120):
        u = float(rng.exponential())
        binding = a_binding(generator="other") if i < 5 else a_binding()
        correct = float(rng.random() < np.exp(-u))
        lines.append(to_json(a_label(f"{i}", correct, scores={"cocoa_sp": u}, binding=binding)))
    path = tmp_path / "labels.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_labels_become_a_calibrator_of_their_deployment(run, labels):
    result, out = run("--feedback", labels)
    assert result.exit_code == 0, result.output
    assert "note: 5 labels of other scores are left out, by generator" in result.output
    calibrator = Calibrator.load(out)
    assert calibrator.binding == a_binding()
    assert calibrator.source == "feedback, 115 labels"
    assert calibrator.groups[ALL]["cocoa_sp"].num_labels == 115


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "either --results or --feedback"),
        (("--feedback", "a", "--results", "b"), "either --results or --feedback"),
        (("--feedback", "a", "--similarity", "b"), "choose among --results"),
        (("--feedback", "missing.jsonl"), "No such file"),
        (("--feedback", "redis://user:sesame@127.0.0.1:1"), "Redis: unreachable"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_told_in_a_line(run, arguments, told):
    result, out = run(*arguments)
    assert result.exit_code != 0
    assert told in result.output
    assert "sesame" not in result.output
    assert not out.exists()
