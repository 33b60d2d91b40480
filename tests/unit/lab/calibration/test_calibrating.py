"""Which ways of asking a calibrator has parts for, and which of them share their calibrations."""

import asyncio
import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from cocoa_lab.calibration.calibrating import calibrate, to_json
from cocoa_lab.calibration.fitting import CannotCalibrate, fit
from cocoa_lab.calibration.labels import Labelled, Labels, read_labels
from cocoa_lab.examples import example_of
from cocoa_lab.overwriting import GENERATIONS, RESULTS
from cocoa_lab.recordings import RecordingHeader, _to_json
from cocoa_lab.scoring import ask_of, record
from models.calibration import ALL, Calibrator
from models.errors import InvalidRequest
from models.similarity.rules import SCORED
from tests.made_calibrators import BINDING

CHATS, FIVE = replace(BINDING, input="messages"), replace(BINDING, num_samples=5)


def labelled(count, *bindings, shift=0.0, right=None):
    """Labels of prompts 0, 1, …, whose scores are moved."""
    rng = np.random.default_rng(0)
    u = rng.exponential(size=300)
    correct = (rng.random(300) < np.exp(-u)).astype(float)[:count]
    if right is not None:
        correct = np.full(count, right)
    ids = [f"{i}" for i in range(count)]
    return Labelled(Labels([""] * count, correct, {"sp": u[:count] + shift}, ids), bindings)


def ways(fitted):
    """Bindings, grouped by the calibrations that they share."""
    found = {}
    for part in fitted.calibrator.parts:
        found.setdefault(id(part.groups), []).append(part.binding)
    return list(found.values())


def test_ways_that_are_one_thing_to_the_model_share_the_calibrations_of_most_labels():
    chats, prompts = labelled(100, CHATS, shift=1e-6), labelled(300, BINDING)
    fitted = calibrate({"made": [chats, prompts]})
    assert ways(fitted) == [[BINDING, CHATS]]
    assert fitted.calibrator.parts[0].groups[ALL]["sp"].num_labels == 300


def test_a_source_whose_labels_are_not_fitted_is_not_named():
    chats, prompts = labelled(100, CHATS), labelled(300, BINDING)
    other = labelled(300, FIVE, shift=0.5)
    fitted = calibrate({"chats": [chats], "prompts": [prompts], "other": [other]})
    assert fitted.calibrator.source == "prompts and other"


def with_prompts(part, start=0):
    prompts = [f"prompt {start + row}" for row in range(len(part.labels.correct))]
    return replace(part, labels=replace(part.labels, prompts=prompts))


def test_labels_of_one_way_count_together_whatever_run_they_are_of():
    january = with_prompts(labelled(200, BINDING))
    february = with_prompts(labelled(300, replace(BINDING, share_cut=0.05)), start=200)
    fitted = calibrate({"january": [january], "february": [february]})
    [[binding]] = ways(fitted)
    assert binding.share_cut == pytest.approx(0.03)
    assert fitted.calibrator.parts[0].groups[ALL]["sp"].num_labels == 500
    assert fitted.calibrator.source == "january and february"
    assert fitted.notes == []


def test_a_prompt_that_two_runs_have_asked_is_one_label():
    once, again = labelled(200, BINDING), labelled(300, BINDING)
    fitted = calibrate({"once": [with_prompts(once)], "again": [with_prompts(again)]})
    assert fitted.calibrator.parts[0].groups[ALL]["sp"].num_labels == 300
    way = "prompt, greedy, fake, num_samples 10"
    assert fitted.notes == [f"200 labels repeat a prompt of others, and do not count ({way})"]
    [same] = calibrate({"once": [with_prompts(once)] * 2}).calibrator.parts
    assert same.groups[ALL]["sp"].num_labels == 200


def test_what_one_of_two_runs_has_scored_counts_for_itself():
    one, other = labelled(200, BINDING), labelled(100, BINDING)
    one.labels.scores["ppl"] = one.labels.scores["sp"]
    [part] = calibrate({"one": [one], "other": [other]}).calibrator.parts
    assert {name: found.num_labels for name, found in part.groups[ALL].items()} == {
        "sp": 300,
        "ppl": 200,
    }


def test_scores_of_another_probe_have_calibrations_of_their_own():
    one = labelled(200, replace(BINDING, probes={"g": "a"}))
    other = labelled(100, replace(BINDING, probes={"g": "b"}), shift=0.5)
    assert len(ways(calibrate({"one": [one], "other": [other]}))) == 2
    without = labelled(100, BINDING)
    [[binding]] = ways(calibrate({"one": [one], "without": [without]}))
    assert binding.probes == {"g": "a"}


def test_parts_of_answers_to_one_prompt_are_as_of_one_answer_in_two_runs():
    binding = replace(BINDING, unit="sentence")
    [first, second] = [labelled(100, binding), labelled(100, binding)]
    answers = np.arange(100) // 2
    of_one = replace(first.labels, answers=answers, prompts=[f"{one}" for one in answers])
    of_other = replace(of_one, prompts=[f"{one}" for one in answers + 25])
    sources = {"one": [replace(first, labels=of_one)], "other": [replace(second, labels=of_other)]}
    [labels] = calibrate(sources).labels
    assert len(labels.correct) == 200
    assert len(np.unique(labels.answers)) == 75


def test_a_draw_of_the_same_scores_shares_them_though_it_tells_fewer():
    both = labelled(300, BINDING)
    both.labels.scores["ppl"] = both.labels.scores["sp"] + 1
    assert ways(calibrate({"made": [both, labelled(300, FIVE)]})) == [[BINDING, FIVE]]
    fewer_first = calibrate({"made": [labelled(300, FIVE), both]})
    assert ways(fewer_first) == [[FIVE], [BINDING]], "what it does not tell may differ"


def test_an_estimator_of_the_lab_is_left_out_since_a_service_need_not_have_it():
    both = labelled(300, BINDING)
    both.labels.scores["lexical_similarity"] = both.labels.scores["sp"] + 1
    fitted = calibrate({"made": [both]})
    assert list(fitted.calibrator.parts[0].groups[ALL]) == ["sp"]
    assert any(note.startswith("lexical_similarity is left out: ") for note in fitted.notes)


def test_whole_answers_come_before_parts_of_them():
    fields = labelled(300, replace(FIVE, unit="field"), shift=0.5)
    assert ways(calibrate({"made": [fields, labelled(100, BINDING)]}))[0] == [BINDING]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(labelled(300, FIVE, shift=0.01), id="other scores"),
        pytest.param(labelled(99, FIVE), id="too few prompts to see it"),
        pytest.param(
            Labelled(replace(labelled(300).labels, ids=["x"] * 300), (FIVE,)), id="other prompts"
        ),
    ],
)
def test_other_ways_have_calibrations_of_their_own(other):
    assert ways(calibrate({"made": [labelled(300, BINDING), other]})) == [[BINDING], [FIVE]]


def test_a_way_with_too_few_labels_is_told_and_the_others_are_fitted():
    few = labelled(300, FIVE, right=1.0)
    fitted = calibrate({"made": [few, labelled(300, BINDING)]})
    assert ways(fitted) == [[BINDING]]
    [note] = fitted.notes
    assert note.startswith("prompt, greedy, fake, num_samples 5 cannot be calibrated: 300 right")
    with pytest.raises(CannotCalibrate, match="300 right and 0 wrong"):
        calibrate({"made": [few]})


def test_a_file_is_short_and_equal_scores_are_still_equal_to_its_quantiles(tmp_path):
    rng = np.random.default_rng(0)
    u = np.repeat([0.1, np.log(2), 1.3], [100, 300, 100])
    correct = (rng.random(500) < np.exp(-u)).astype(float)
    part = Labelled(Labels([""] * 500, correct, {"sp": u}), (BINDING,))
    path = tmp_path / "one.json"
    path.write_text(to_json(calibrate({"made": [part]}).calibrator))
    one = Calibrator.load(path).parts[0].groups[ALL]["sp"]
    assert one.percentile(np.log(2)) == pytest.approx(50, abs=1)
    assert one.quantiles[50] == 0.693147
    assert one.thresholds == fit(u, correct).thresholds
    assert path.stat().st_size < 3500


def a_run(folder, stop=(), inputs=("prompt",), **sampling):
    """Results of a run whose lines are of these inputs, each with two strategies and two draws."""
    header = {
        "model": "fake",
        "revision": "1",
        "sampling": {"num_samples": 10, "temperature": 1.0, "top_k": 50, "top_p": 1.0} | sampling,
    }
    origin = {
        "rules": SCORED,
        "generator": "fake",
        "comparers": {"fake": "fake pairs"},
        "nli": None,
        "max_new_tokens": 64,
        "share_cut": 0.0,
        "stop": list(stop),
    }
    results = {
        "header": header,
        "origin": origin,
        "settings": {"dataset": "/home/me/mine.jsonl", "num_samples": "10,5"},
        "tasks": [{"quality": "contains"}],
    }
    (folder / RESULTS).write_text(json.dumps(results))
    lines = []
    for i, asked in enumerate(inputs):
        for strategy in ("greedy", "mbr"):
            for draw in ("10", "5"):
                way = {"strategy": strategy, "similarity": "fake", "draw": draw, "input": asked}
                line = {"id": f"{i}", "task": "t", "quality": 1.0}
                line["scores"] = {"sp": None, "inconsistency": None}
                lines.append(json.dumps(line | way))
    (folder / "scores.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_a_run_has_labels_for_each_way_of_asking_and_for_given_answers(tmp_path):
    parts, source = read_labels(a_run(tmp_path, inputs=("prompt", "messages", "prompt")))
    assert source == "mine.jsonl, 3 labels by contains"
    given = replace(BINDING, strategy="given")
    found = [(part.bindings, list(part.labels.ids)) for part in parts]
    assert len(found) == 8
    assert {tuple(part.labels.scores) for part in parts} == {("sp", "inconsistency")}
    assert ((BINDING, given), ["0", "2"]) in found
    assert ((CHATS, replace(given, input="messages")), ["1"]) in found
    assert ((FIVE, replace(given, num_samples=5)), ["0", "2"]) in found
    assert ((replace(BINDING, strategy="mbr"),), ["0", "2"]) in found


def test_answers_that_a_stop_string_ended_say_nothing_of_given_ones(tmp_path):
    parts, _ = read_labels(a_run(tmp_path, stop=["."]), strategy="greedy", draw="10")
    assert [part.bindings for part in parts] == [(replace(BINDING, stop=(".",)),)]


def test_draws_that_do_not_repeat_are_refused(tmp_path):
    with pytest.raises(CannotCalibrate, match="do not repeat"):
        read_labels(a_run(tmp_path, distinct=True), strategy="greedy", draw="10")


def test_a_run_over_parts_has_labels_for_each_draw_of_scores_that_read_samples(tmp_path):
    binding = replace(BINDING, unit="sentence")
    about = {"settings": {"dataset": "mine.jsonl"}, "num_parts": 1, "num_answers": 1}
    (tmp_path / RESULTS).write_text(json.dumps(about | {"binding": asdict(binding)}))
    part = {"id": "0", "task": "t", "path": None, "spans": [[0, 3]], "correct": 1.0}
    part["scores"] = {"sp": 0.5, "cocoa_sp": 0.4}
    part["by_draw"] = {"5": {"sp": 0.5, "cocoa_sp": 0.3}, "auto-5": {"cocoa_sp": 0.2}}
    (tmp_path / "units.jsonl").write_text(json.dumps(part) + "\n")

    of_ten, of_five = read_labels(tmp_path)[0]
    assert of_ten.bindings == (binding,)
    assert of_ten.labels.scores == {"sp": [0.5], "cocoa_sp": [0.4]}
    assert of_five.bindings == (replace(binding, num_samples=5),)
    assert of_five.labels.scores == {"cocoa_sp": [0.3]}
    [alone] = read_labels(tmp_path, draw="5")[0]
    assert alone.labels.scores == {"sp": [0.5], "cocoa_sp": [0.3]}, "no other part speaks of it"


def test_lines_of_one_prompt_are_one_draw(tmp_path):
    folder = a_run(tmp_path, inputs=("prompt",) * 6)
    lines = [{"format": 4, "dataset": "mine.jsonl"}]
    lines += [{"id": f"{i}", "prompt": ("Where?", "Where? ", "When?")[i % 3]} for i in range(5)]
    (folder / GENERATIONS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    parts, source = read_labels(folder, draw="10")
    assert [list(part.labels.ids) for part in parts] == [["0", "2", "5"]] * 2
    assert source == "mine.jsonl, 3 labels by contains (3 lines repeat a prompt)"


def test_one_prompt_over_other_documents_is_another_draw(tmp_path):
    class Refusing:
        async def generate(self, request):
            raise InvalidRequest("no")

    header = RecordingHeader("mine.jsonl", "m", None, 0, {"num_samples": 1}, (), False)
    folder = a_run(tmp_path, inputs=("prompt",) * 4)
    lines = [{"format": 4, "dataset": "mine.jsonl"}]
    for i, text in enumerate(("Rome", "Lima", "Rome", None)):
        given = {"id": f"{i}", "task": "t", "prompt": "Where?", "reference": "x"}
        if text:
            given["documents"] = [{"text": text}]
        example = example_of(given, labelled=True)
        recording = record(example, ask_of(example, header), header, Refusing())
        lines.append(_to_json(asyncio.run(recording)))
    (folder / GENERATIONS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [part.labels.ids for part in read_labels(folder, draw="10")[0]] == [["0", "1", "3"]] * 2


def test_parts_of_the_answers_to_one_prompt_are_as_of_one_answer(tmp_path):
    about = {"settings": {"dataset": "mine.jsonl"}, "num_parts": 3, "num_answers": 3}
    (tmp_path / RESULTS).write_text(json.dumps(about | {"binding": asdict(BINDING)}))
    lines = [{"id": f"{i}", "prompt": "When?" if i else "Where?"} for i in range(3)]
    (tmp_path / GENERATIONS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    part = {"task": "t", "path": "/a", "spans": [], "correct": 1.0, "scores": {"sp": 0.5}}
    (tmp_path / "units.jsonl").write_text(
        "".join(json.dumps({"id": f"{i}", **part}) + "\n" for i in range(3))
    )
    [of_parts] = read_labels(tmp_path)[0]
    assert of_parts.labels.answers.tolist() == [0, 1, 1]


@pytest.mark.parametrize("temperature", [0.2, None])
def test_a_run_is_bound_to_the_temperature_of_its_draws(tmp_path, temperature):
    parts, _ = read_labels(a_run(tmp_path, temperature=0.2), temperature=temperature)
    assert {binding.temperature for part in parts for binding in part.bindings} == {0.2}
    with pytest.raises(CannotCalibrate, match=r"was drawn at temperature 0\.2"):
        read_labels(tmp_path, temperature=1.0)


def test_what_a_run_does_not_hold_is_named(tmp_path):
    with pytest.raises(CannotCalibrate, match="no labelled answers of mbr, nli"):
        read_labels(a_run(tmp_path), strategy="mbr", similarity="nli")


def test_a_run_that_was_scored_by_other_rules_is_refused_with_what_to_do(tmp_path):
    path = a_run(tmp_path) / RESULTS
    results = json.loads(path.read_text())
    results["origin"]["rules"] = SCORED - 1
    path.write_text(json.dumps(results))
    with pytest.raises(CannotCalibrate, match=r"other rules .* --rescore"):
        read_labels(tmp_path)
