"""Calibrators are served to the models that they were fitted on, and to no others."""

from dataclasses import replace

import pytest

from app.scoring.calibrators import check_deployment, load_calibrator
from cocoa_lab.calibration.calibrating import to_json
from models.calibration import ALL, Calibrator
from models.embedded import CALIBRATOR_PATH, CALIBRATORS
from models.estimators import ESTIMATORS
from models.similarity.rules import SCORED
from tests.made_calibrators import BINDING, calibration, calibrator
from tests.results import PROBES, a_deployment, similarity_info

NLI = similarity_info(identity="fake nli")


def deployment(nli=NLI, **generator):
    return a_deployment(nli=nli, **{"probes": PROBES} | generator).models


FOREIGN = {
    "the language model was other, and is fake": {"model_id": "other"},
    "its revision was 2, and is 1": {"revision": "2"},
    "its tokenizer, template or precision was x, and is fake": {"generator": "x"},
    "the similarity function fake was x, and is fake pairs": {"comparer": "x"},
    "the similarity function other was fake pairs, and is None": {"similarity": "other"},
    "the NLI model was x, and is fake nli": {"nli": "x"},
    "the probe of predicted_dissimilarity was x, and is abcdef": {
        "probes": {"predicted_dissimilarity": "x"}
    },
}


@pytest.mark.parametrize(("message", "changes"), FOREIGN.items(), ids=list(FOREIGN))
def test_another_deployments_calibrator_is_refused_with_what_differs(message, changes):
    binding = {"nli": "fake nli"} | changes
    with pytest.raises(ValueError, match=message):
        check_deployment(calibrator(**binding), deployment())
    check_deployment(calibrator(nli="fake nli"), deployment())


def test_a_calibrator_of_other_rules_is_refused_with_what_to_do():
    message = "other rules .* --rescore`, drawn answers anew with .*; labels of /feedback"
    with pytest.raises(ValueError, match=message):
        check_deployment(calibrator(nli="fake nli", rules=SCORED - 1), deployment())


OF_LAB = {
    "a similarity": ({"similarity": "rouge_l"}, "rouge_l is the lab's"),
    "an estimator": (
        {"groups": {ALL: {"lexical_similarity": calibration()}}},
        "lexical_similarity",
    ),
}


@pytest.mark.parametrize(("changes", "why"), OF_LAB.values(), ids=list(OF_LAB))
@pytest.mark.usefixtures("without_lab")
def test_what_the_lab_adds_is_left_out_without_it_with_one_warning_and_alone_refused(
    tmp_path, caplog, changes, why
):
    path, kept = tmp_path / "older.json", calibrator(nli="fake nli")
    of_lab = calibrator(nli="fake nli", **changes)
    path.write_text(to_json(replace(kept, parts=(*kept.parts, *of_lab.parts))))
    [part] = load_calibrator(str(path), deployment()).parts
    assert (part.binding, part.groups.keys()) == (kept.parts[0].binding, {ALL})
    [record] = caplog.records
    assert why in record.message
    assert "install the lab (`pip install ./lab` from the checkout)" in record.message
    path.write_text(to_json(of_lab))
    with pytest.raises(ValueError, match=f"nothing that is left: {why}"):
        load_calibrator(str(path), deployment())


def test_an_estimator_that_is_not_here_is_left_out_and_its_neighbours_are_served(tmp_path, caplog):
    path = tmp_path / "older.json"
    old = ("capped_sp", "unseen_rb_cocoa_sp")
    groups = {ALL: {name: calibration() for name in ("sp", *old)}}
    path.write_text(to_json(calibrator(groups, nli="fake nli")))
    [part] = load_calibrator(str(path), deployment()).parts
    assert list(part.groups[ALL]) == ["sp"]
    assert "there is no estimator capped_sp" in caplog.text
    assert "there is no estimator unseen_rb_cocoa_sp" in caplog.text


def test_beside_the_lab_its_estimator_and_its_similarity_are_calibrated(tmp_path):
    path = tmp_path / "made.json"
    groups = {ALL: {"lexical_similarity": calibration()}}
    path.write_text(to_json(calibrator(groups, nli="fake nli", similarity="rouge_l")))
    models = deployment()
    models = replace(
        models,
        similarity_scorers={
            **models.similarity_scorers,
            "rouge_l": models.similarity_scorers["fake"],
        },
    )
    [part] = load_calibrator(str(path), models).parts
    assert list(part.groups[ALL]) == ["lexical_similarity"]


def test_auto_is_each_embedded_language_models_own(monkeypatch, tmp_path):
    path = tmp_path / "long.json"
    path.write_text(to_json(calibrator(nli="fake nli", model_id="embedded-long")))
    monkeypatch.setitem(CALIBRATORS, "embedded-long", path)

    [part] = load_calibrator("auto", deployment(model_id="embedded-long")).parts
    assert part.binding.model_id == "embedded-long"
    assert load_calibrator("auto", deployment(model_id="embedded")) is None


@pytest.mark.parametrize(
    "path", sorted({CALIBRATOR_PATH, *CALIBRATORS.values()}), ids=lambda path: path.stem
)
def test_an_embedded_calibrator_speaks_of_the_services_own_estimators_alone(path):
    for part in Calibrator.load(path).parts:
        for by_estimator in part.groups.values():
            assert by_estimator.keys() <= ESTIMATORS.keys()


def test_auto_is_the_embedded_calibrator_beside_the_embedded_models_only(tmp_path, caplog):
    caplog.set_level("INFO")
    assert load_calibrator("auto", deployment()) is None
    assert "not served: the calibrator is another deployment's" in caplog.text
    assert load_calibrator("", deployment()) is None
    path = tmp_path / "made.json"
    path.write_text(to_json(calibrator(nli="fake nli")))
    [part] = load_calibrator(str(path), deployment()).parts
    assert part.binding == replace(BINDING, nli="fake nli")
    with pytest.raises(FileNotFoundError):
        load_calibrator(str(tmp_path / "none.json"), deployment())


@pytest.mark.parametrize(("served", "is_compared"), [("abc", True), ("", False), ("other", False)])
def test_a_model_that_does_not_compare_prompts_with_the_calibrators_is_logged(
    served, is_compared, tmp_path, caplog
):
    path = tmp_path / "made.json"
    path.write_text(to_json(replace(calibrator(nli="fake nli"), prompts="abc")))
    found = load_calibrator(str(path), deployment(prompts=served))

    assert found.prompts == "abc"
    assert deployment(prompts=served).compares_prompts_of(found) == is_compared
    assert ("prompts are not compared" in caplog.text) != is_compared


def test_a_calibrator_without_prompts_compares_none(tmp_path, caplog):
    path = tmp_path / "made.json"
    path.write_text(to_json(calibrator(nli="fake nli")))
    assert not deployment().compares_prompts_of(load_calibrator(str(path), deployment()))
    assert "prompts" not in caplog.text
