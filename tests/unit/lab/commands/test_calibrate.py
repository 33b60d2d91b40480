"""`cocoa calibrate --feedback`: from labels to a calibrator, and what it refuses."""

import numpy as np
import pytest
from typer.testing import CliRunner

from app.cli import app
from models.calibration import ALL, Calibrator
from models.codec import to_json
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
        scores = {"sp": 2 * u, "cocoa_sp": u}
        lines.append(to_json(a_label(f"{i}", correct, scores=scores, binding=binding)))
    path = tmp_path / "labels.jsonl"
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_labels_become_a_calibrator_of_their_deployment(run, labels):
    result, out = run("--feedback", labels)
    assert result.exit_code == 0, result.output
    assert "note: 5 labels of other models are left out, by generator" in result.output
    calibrator = Calibrator.load(out)
    [part] = calibrator.parts
    assert part.binding == a_binding()
    assert calibrator.source == "feedback, 115 labels"
    assert part.groups[ALL]["cocoa_sp"].num_labels == 115
    assert [line.split()[0] for line in result.output.splitlines() if " * " in line] == ["cocoa_sp"]
    assert "*: reported by default" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "give --results or --feedback"),
        (("--feedback", "a", "--results", "b"), "b holds no results of `cocoa evaluate`"),
        (("--feedback", "a", "--similarity", "b"), "choose among --results"),
        (("--results", "a", "--namespace", "b"), "--namespace chooses among --feedback"),
        (("--feedback", "missing.jsonl"), "/missing.jsonl: No such file"),
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


@pytest.fixture
def of_two(tmp_path):
    """A file of 120 labels of two namespaces, and some of no key; the second has other answers."""
    rng = np.random.default_rng(0)
    path = tmp_path / "labels.jsonl"
    with path.open("wb") as file:
        for i in range(130):
            u, namespace = float(rng.exponential()), ("search", "people")[i % 2]
            if i >= 120:
                namespace = ""
            correct = float((rng.random() < np.exp(-u)) == (namespace == "search"))
            made = a_label(f"{i}", correct, scores={"cocoa_sp": u}, namespace=namespace)
            file.write(to_json(made) + b"\n")
    return path


def test_labels_of_several_namespaces_are_never_merged(run, of_two):
    result, out = run("--feedback", of_two)
    assert result.exit_code == 1
    told = "labels of several namespaces, '' (10), 'people' (60), 'search' (60)"
    assert f"{told}: choose one with --namespace" in result.output
    assert not out.exists()


def test_a_named_namespace_is_taken_alone_and_told(run, of_two):
    result, out = run("--feedback", of_two, "--namespace", "search")
    assert result.exit_code == 0, result.output
    assert "note: 60 of 130 labels are of namespace 'search'" in result.output
    one = Calibrator.load(out).parts[0].groups[ALL]["cocoa_sp"]
    assert one.num_labels == 60
    assert one.confidence(0.1) > one.confidence(3.0)


def test_a_namespace_without_labels_is_refused_and_the_others_are_named(run, of_two):
    result, _ = run("--feedback", of_two, "--namespace", "moon")
    assert result.exit_code == 1
    assert "no labels of namespace 'moon', but of '' (10), 'people' (60)" in result.output


def test_control_characters_of_earlier_labels_never_reach_the_terminal(run, labels):
    with labels.open("ab") as file:
        made = a_label("hostile", task="\x1b[2Jgone\n\x9b\u202e", namespace="")
        file.write(to_json(made) + b"\n")
    result, _ = run("--feedback", labels, "--by", "task")
    assert result.exit_code == 0, result.output
    assert r"of \x1b[2Jgone\n\x9b\u202e is left out" in result.output
    assert not {"\x1b", "\x9b", "\u202e"} & set(result.output)
