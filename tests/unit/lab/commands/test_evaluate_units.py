"""`cocoa evaluate --units`, from labelled parts of answers to a service that decides on them."""

import json
import os
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from app.cli import app
from models.calibration import ALL, Calibrator
from tests.conftest import serving
from tests.fakes.engine import FakeEngine, _pseudo
from tests.unit.lab.commands.test_evaluate import FAKE

pytestmark = pytest.mark.anyio
NUM_ANSWERS = 300


@pytest.fixture(scope="module")
def cocoa():
    unset = {name: None for name in os.environ if name.upper().startswith("COCOA_")}

    def run(*arguments):
        variables = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"} | unset | FAKE
        return CliRunner().invoke(app, [*map(str, arguments)], env=variables)

    return run


def line_of(i, rng):
    """An answer of three fields; the fake model finds some words likelier, which are right."""
    values, units = {}, []
    for name in ("city", "river", "country"):
        word = f"w{rng.integers(10_000)}"
        values[name] = word
        end = '"}' if name == "country" else '",'
        [logprob] = _pseudo([f' "{word}{end}'], -1.0)
        right = rng.random() < (0.99 if logprob > -0.6 else 0.3)
        units.append({"path": f"/{name}", "label": bool(right)})
    return {"prompt": f"Place {i}?", "output": json.dumps(values), "units": units}


def sentences_of(i, rng):
    """An answer of two or three sentences, of which those of likelier words are right."""
    told, units = [], []
    for _ in range(rng.integers(2, 4)):
        text = f"S{rng.integers(10_000)} is."
        [logprob] = _pseudo([text.split()[0]], -1.0)
        right = bool(rng.random() < (0.99 if logprob > -0.6 else 0.3))
        told.append(text)
        units.append({"text": text, "label": right, "error": None if right else "confused"})
    return {"prompt": f"Tell me {i}.", "output": " ".join(told), "units": units}


@pytest.fixture(scope="module")
def sentences(cocoa, tmp_path_factory):
    """The folder of a run over sentences on two draws, and the calibrator of it."""
    folder, rng = tmp_path_factory.mktemp("sentences"), np.random.default_rng(0)
    lines = [sentences_of(i, rng) for i in range(NUM_ANSWERS // 2)]
    (folder / "mine.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = cocoa(
        *("evaluate", folder / "mine.jsonl", "--units", "sentences", "--out", folder / "out"),
        *("--estimators", "sp,cocoa_sp", "--num-samples", "3,2", "--num-resamples", 50),
    )
    assert told.exit_code == 0, told.output
    fitted = cocoa("calibrate", "--results", folder / "out", "--out", folder / "made.json")
    assert fitted.exit_code == 0, fitted.output
    return folder / "out", folder / "made.json", fitted.output


@pytest.fixture(scope="module")
def evaluated(cocoa, tmp_path_factory):
    """The folder of a run, and the calibrator that was fitted on it."""
    folder, rng = tmp_path_factory.mktemp("units"), np.random.default_rng(0)
    dataset, out = folder / "mine.jsonl", folder / "out"
    lines = [line_of(i, rng) for i in range(NUM_ANSWERS)]
    dataset.write_text("".join(json.dumps(line) + "\n" for line in lines))
    names = ["--estimators", "sp,cocoa_sp,inconsistency", "--num-resamples", 50]
    wanted = ["evaluate", dataset, "--units", "fields", "--out", out, *names]
    told = cocoa(*wanted)
    assert told.exit_code == 0, told.output
    fitted = cocoa("calibrate", "--results", out, "--out", folder / "made.json")
    assert fitted.exit_code == 0, fitted.output
    return out, folder / "made.json", told.output, fitted.output, wanted


def test_a_run_tells_metrics_with_intervals_a_curve_and_a_plot(evaluated):
    out, _, told, _, _ = evaluated
    results = json.loads((out / "results.json").read_text())

    assert (results["num_parts"], results["num_answers"]) == (3 * NUM_ANSWERS, NUM_ANSWERS)
    assert f"{3 * NUM_ANSWERS} labelled parts of kind field" in told
    assert results["binding"]["unit"] == "field"
    assert results["binding"]["strategy"] == "given"
    metrics = results["metrics"]["sp"]
    assert metrics["prr"]["low"] < metrics["prr"]["value"] < metrics["prr"]["high"]
    assert metrics["roc_auc"]["value"] > 0.7
    assert metrics["ece"]["value"] < 0.1
    curve = results["kept"]["cocoa_sp"]
    assert curve[0]["share"] == 1.0
    assert curve[0]["precision"] == pytest.approx(results["num_right"] / results["num_parts"])
    assert curve[len(curve) // 2]["precision"] > curve[0]["precision"]
    assert (out / "plots" / "precision.svg").is_file()
    report = (out / "report.md").read_text()
    assert "| share kept | precision | wrong per answer | respond ratio |" in report


def test_a_calibrator_of_fields_is_fitted_with_the_promise_of_answers(evaluated):
    _, made, _, told, _ = evaluated
    [part] = Calibrator.load(made).parts

    assert (part.binding.unit, part.binding.schema_use) == ("field", "none")
    one = part.groups[ALL]["cocoa_sp"]
    assert one.num_labels == 3 * NUM_ANSWERS
    assert one.threshold(0.1).share_pooled is not None
    assert "fields, prompt, given, fake, num_samples 10" in told
    assert "on average over answers" in " ".join(told.split())


async def test_the_service_decides_by_it_and_keeps_what_passes(evaluated):
    _, made, *_ = evaluated
    one = Calibrator.load(made).parts[0].groups[ALL]["cocoa_sp"]
    line = line_of(10**6, np.random.default_rng(7))
    wanted = {"units": "fields", "target_error": 0.1, "on_unit_reject": "remove"}
    async with serving(calibrator=str(made)) as service:
        body = {"prompt": "Place?", "answer": line["output"], "max_new_tokens": 64, **wanted}
        response = await service.client.post("/score", json=body)

    told = response.json()
    assert response.status_code == 200, told
    assert told["units_decision"]["threshold"] == one.threshold(0.1).uncertainty
    for unit in told["units"][1:]:
        assert unit["confidence"] == pytest.approx(one.confidence(unit["uncertainty"]))
        kept = json.loads(told["refined_text"])[unit["path"].removeprefix("/")]
        assert (kept is not None) is unit["decision"]["accept"]


def test_a_run_over_sentences_tells_fewer_samples_kinds_of_error_and_who_leads(sentences):
    out, _, _ = sentences
    results = json.loads((out / "results.json").read_text())

    assert results["binding"]["unit"] == "sentence"
    assert results["binding"]["num_samples"] == 3
    metrics = results["metrics"]
    assert set(metrics) == {
        "sp",
        "cocoa_sp",
        "contradiction",
        "contradiction / (support + contradiction)",
    }
    assert metrics["cocoa_sp"]["lead"] is None
    lead = metrics["cocoa_sp"]["prr"]["value"] - metrics["sp"]["prr"]["value"]
    assert metrics["sp"]["lead"]["value"] == pytest.approx(lead)
    assert results["prr_by_draw"]["2"]["sp"] == metrics["sp"]["prr"], "it reads no samples"
    assert results["prr_by_draw"]["2"].keys() == metrics.keys()
    num_wrong = results["num_parts"] - results["num_right"]
    assert results["errors"]["confused"]["num_parts"] == num_wrong
    assert results["errors"]["confused"]["roc_auc"] == metrics["cocoa_sp"]["roc_auc"]
    first = json.loads((out / "units.jsonl").read_text().partition("\n")[0])
    assert first["by_draw"].keys() == {"2"}
    assert first["by_draw"]["2"].keys() == first["scores"].keys()
    assert first["spans"] == [[0, len(first["text"])]]
    assert 0 <= first["support"] <= 1
    report = (out / "report.md").read_text()
    assert "| PRR at 50 % by number of samples | 3 | 2 |" in report
    assert "| error | parts | ROC-AUC |" in report


async def test_the_service_removes_sentences_by_a_calibrator_of_sentences(sentences):
    _, made, told = sentences
    part, _ = Calibrator.load(made).parts
    one = part.groups[ALL]["cocoa_sp"]
    assert (part.binding.unit, one.threshold(0.2).share_pooled is not None) == ("sentence", True)
    assert "sentences, prompt, given, fake, num_samples 3" in told
    line = sentences_of(10**6, np.random.default_rng(7))
    wanted = {"units": "sentences", "target_error": 0.2, "on_unit_reject": "remove"}
    async with serving(calibrator=str(made)) as service:
        body = {"prompt": "?", "answer": line["output"], "max_new_tokens": 64, "num_samples": 3}
        response = await service.client.post("/score", json=body | wanted)

    told = response.json()
    assert response.status_code == 200, told
    for unit in told["units"][1:]:
        assert unit["confidence"] == pytest.approx(one.confidence(unit["uncertainty"]))
        assert (unit["text"] in told["refined_text"]) is unit["decision"]["accept"]


async def test_each_number_of_samples_of_a_run_has_a_calibration_and_no_other_has(sentences):
    of_three, of_two = Calibrator.load(sentences[1]).parts
    assert (of_three.binding.num_samples, of_two.binding.num_samples) == (3, 2)
    assert of_two.groups is of_three.groups, "the fake's samples say the same"
    one = of_two.groups[ALL]["cocoa_sp"]

    line = sentences_of(10**6, np.random.default_rng(7))
    body = {"prompt": "?", "answer": line["output"], "max_new_tokens": 64, "units": "sentences"}
    async with serving(calibrator=str(sentences[1])) as service:
        told = (await service.client.post("/score", json=body | {"num_samples": 2})).json()
        wanted = {"num_samples": 4, "target_error": 0.2}
        refused = await service.client.post("/score", json=body | wanted)
    for unit in told["units"][1:]:
        assert unit["confidence"] == pytest.approx(one.confidence(unit["uncertainty"]))
    assert refused.status_code == 422
    assert "not calibrated for num_samples 4: ask with num_samples" in refused.text


@pytest.mark.parametrize(
    ("wanted", "refusal"),
    [
        (["--num-samples", "2"], ""),
        (["--num-samples", "7"], "holds no labelled answers of 7"),
        (["--num-samples", "auto"], "auto is gone: name numbers of samples, such as 5"),
        (["--strategy", "mbr"], "holds no labelled answers of mbr"),
    ],
    ids=" ".join,
)
def test_a_way_of_asking_is_chosen_among_those_of_parts(
    cocoa, sentences, tmp_path, wanted, refusal
):
    made = tmp_path / "made.json"
    fitted = cocoa("calibrate", "--results", sentences[0], "--out", made, *wanted)
    if refusal:
        assert refusal in " ".join(fitted.output.split())
        return
    [part] = Calibrator.load(made).parts
    assert part.binding.num_samples == 2
    assert part.groups[ALL].keys() == {"sp", "cocoa_sp"}


def test_a_run_goes_on_where_it_was_interrupted(cocoa, evaluated):
    out, *_, wanted = evaluated
    log, results = out / "generations.jsonl", out / "results.json"
    lines, before = log.read_bytes().splitlines(keepends=True), json.loads(results.read_text())
    log.write_bytes(b"".join(lines[:100]) + lines[100][:20])

    assert cocoa(*wanted).exit_code == 0
    assert sorted(log.read_bytes().splitlines(keepends=True)) == sorted(lines)
    assert json.loads(results.read_text()) == before


def test_what_was_recorded_is_scored_again_without_the_model(
    cocoa, sentences, tmp_path, monkeypatch
):
    def refuse(*_, **__):
        raise AssertionError

    monkeypatch.setattr(FakeEngine, "prepare", refuse)
    out = sentences[0]
    dataset, again = out.parent / "mine.jsonl", tmp_path / "again"
    wanted = ["evaluate", dataset, "--units", "sentences", "--out", again, "--rescore"]
    nothing = cocoa(*wanted)
    assert (nothing.exit_code, "holds no generations" in nothing.output) == (1, True)
    shutil.copytree(out, again, ignore=shutil.ignore_patterns("results.json"))
    told = cocoa(*wanted, "--estimators", "sp,cocoa_sp", "--num-resamples", 50)
    assert told.exit_code == 0, told.output
    before = json.loads((out / "results.json").read_text())
    results = json.loads((again / "results.json").read_text())
    assert results["settings"]["num_samples"] == "3", "as many as were recorded"
    assert results["metrics"] == before["metrics"]
    assert results["binding"]["generator"] == before["binding"]["generator"]


def test_another_output_of_the_same_prompt_is_not_taken_for_the_recorded_one(
    cocoa, evaluated, tmp_path
):
    *_, wanted = evaluated
    dataset = wanted[1]
    content = dataset.read_text()
    first, _, rest = content.partition("\n")
    changed = json.loads(first) | {"output": '{"city": "other"}'}
    dataset.write_text(json.dumps(changed) + "\n" + rest)
    result = cocoa(*wanted)
    dataset.write_text(content)

    assert result.exit_code == 1
    assert "is of another prompt or output" in result.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--quality", "contains"], "takes neither"),
        (["--estimators", "rb_cocoa_sp"], "'rb_cocoa_sp' is no estimator"),
        (["--num-samples", "many"], "'many' is no number"),
        (["--similarity", "other"], "must be one of"),
    ],
    ids=str,
)
def test_what_a_run_over_parts_does_not_have_is_refused(cocoa, evaluated, tmp_path, options, said):
    dataset = evaluated[4][1]
    result = cocoa("evaluate", dataset, "--units", "fields", "--out", tmp_path / "o", *options)

    assert result.exit_code in (1, 2)
    assert said in result.output


def test_claims_are_held_against_their_labels(cocoa, tmp_path):
    lines = []
    for i in range(12):
        said = f"S{i} is."
        units = [
            {"text": f"{said} So.", "label": i % 3 > 0, "quotes": [said]},
            {"text": f"Not {said}", "label": False},
        ]
        lines.append(json.dumps({"prompt": f"Tell me {i}.", "output": said, "units": units}))
    (tmp_path / "mine.jsonl").write_text("\n".join(lines))
    told = cocoa(
        *("evaluate", tmp_path / "mine.jsonl", "--units", "claims", "--out", tmp_path / "out"),
        *("--estimators", "sp,inconsistency", "--num-samples", 2, "--num-resamples", 20),
    )

    assert told.exit_code == 0, told.output
    units = [
        json.loads(line) for line in (tmp_path / "out" / "units.jsonl").read_text().split("\n")[:-1]
    ]
    assert len(units) == 24
    for quoted, other in zip(units[::2], units[1::2], strict=True):
        assert quoted["scores"]["sp"] is not None
        assert other["scores"]["sp"] is None
        assert None not in (quoted["scores"]["inconsistency"], other["scores"]["inconsistency"])
