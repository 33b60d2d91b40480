"""`cocoa probe` over the fake models: what it does not overwrite."""

import json
import os

import pytest
from typer.testing import CliRunner

from app.cli import app
from models.probes.probe import TrainedProbe
from tests.made_collections import collected, made_examples

FAKE = {
    "COCOA_GENERATION__ENGINE": "fake",
    "COCOA_SIMILARITY__NAME": "fake",
    "COCOA_NLI__NAME": "fake_nli",
    "COCOA_NLI__MODEL": "fake",
}


@pytest.fixture(scope="module")
def probe_command():
    """Run `cocoa probe` over the fake models, without COCOA_ variables of the machine."""
    unset = {name: None for name in os.environ if name.upper().startswith("COCOA_")}

    def run(*arguments):
        variables = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"} | unset | FAKE
        return CliRunner().invoke(app, ["probe", *map(str, arguments)], env=variables)

    return run


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    folder = tmp_path_factory.mktemp("collection")
    collected(folder, made_examples(count=40))
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory, probe_command, collection):
    out = tmp_path_factory.mktemp("trained") / "probe"
    result = probe_command("train", collection, "--out", out, "--layer", "2")
    assert result.exit_code == 0, result.output
    return out


def labelled(path, count, task="facts"):
    lines = []
    for i in range(count):
        line = {"id": f"new-{i}", "task": task, "prompt": f"New {i}?", "reference": "Paris"}
        lines.append(json.dumps(line) + "\n")
    path.write_text("".join(lines))
    return path


def test_a_probe_is_not_overwritten_by_another_training(
    tmp_path, probe_command, collection, trained
):
    before = TrainedProbe.open(trained).card
    again = probe_command("train", collection, "--out", trained, "--layer", "2")
    assert again.exit_code == 0, again.output
    assert TrainedProbe.open(trained).card == before, "the same training gives the same probe"

    others = [
        [collection, "--layer", "2", "--seed", "1"],
        [collection, "--layer", "1"],
        [collection, "--layer", "2", "--target", "semantic_entropy"],
    ]
    for arguments in others:
        refused = probe_command("train", *arguments, "--out", trained)
        assert (refused.exit_code, "of another training" in refused.stderr) == (1, True)
        assert "--force" in refused.stderr
    assert TrainedProbe.open(trained).card == before

    copy = tmp_path / "copy"
    copy.mkdir()
    for path in trained.glob("*.*"):
        (copy / path.name).write_bytes(path.read_bytes())
    forced = probe_command("train", collection, "--out", copy, "--layer", "1", "--force")
    assert forced.exit_code == 0, forced.output
    assert TrainedProbe.open(copy).card.layer == 1
    assert probe_command("train", collection, "--out", copy, "--layer", "1").exit_code == 0


def test_a_probe_that_nobody_knows_the_training_of_is_kept(
    tmp_path, probe_command, collection, trained
):
    for name in ("card.json", "probe.safetensors"):
        (tmp_path / name).write_bytes((trained / name).read_bytes())
    refused = probe_command("train", collection, "--out", tmp_path, "--layer", "2")
    assert (refused.exit_code, "of another training" in refused.stderr) == (1, True)


def test_a_smaller_evaluation_of_a_probe_does_not_replace_a_larger_one(
    tmp_path, probe_command, trained
):
    dataset, out = labelled(tmp_path / "labelled.jsonl", 24), tmp_path / "out"
    once = ["evaluate", trained, "--out", out, "--dataset", dataset, "--num-resamples", "50"]
    for options in (["--limit", "12"], [], []):
        result = probe_command(*once, *options)
        assert result.exit_code == 0, result.output
    assert "cannot be judged" in result.stdout
    assert "Fewer than 50 prompts" in result.stdout
    refused = probe_command(*once, "--limit", "12")
    assert (refused.exit_code, "has 24 prompts, this run only 12" in refused.stderr) == (1, True)
    forced = probe_command(*once, "--limit", "12", "--force")
    assert forced.exit_code == 0, forced.output
    assert json.loads((out / "results.json").read_text())["num_answers"] == 12


def test_a_probe_of_another_model_is_refused_before_anything_is_collected(
    tmp_path, probe_command, trained
):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    card = json.loads((trained / "card.json").read_text()) | {"revision": "2"}
    (foreign / "card.json").write_text(json.dumps(card))
    (foreign / "probe.safetensors").write_bytes((trained / "probe.safetensors").read_bytes())
    dataset, out = labelled(tmp_path / "labelled.jsonl", 12), tmp_path / "out"
    result = probe_command("evaluate", foreign, "--out", out, "--dataset", dataset)
    assert result.exit_code == 2
    assert "the probe's revision is '2', this model's '1'" in result.stderr
    assert not out.exists()
