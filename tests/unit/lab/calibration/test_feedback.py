"""Labels of applications as arrays: of one deployment, the others counted."""

import numpy as np
import pytest

from app.feedback.protocol import FeedbackConfig, to_json
from cocoa_lab.calibration.calibrating import calibrate
from cocoa_lab.calibration.feedback import read_feedback
from cocoa_lab.calibration.fitting import CannotCalibrate
from models.calibration import ALL
from tests.made_labels import a_binding, a_label


@pytest.fixture
def read(tmp_path):
    """`read_feedback` of a file with these labels."""

    def read(labels, correct_at=None, tail=b""):
        path = tmp_path / "labels.jsonl"
        path.write_bytes(b"".join(to_json(one) + b"\n" for one in labels) + tail)
        return read_feedback(str(path), FeedbackConfig(), correct_at)

    return read


def test_labels_are_scores_tasks_and_what_is_right(read):
    first = a_label("a", 1.0, "capitals", scores={"sp": 0.5, "mte": None})
    second = a_label("b", 0.0, None, scores={"sp": 1.5, "ppl": 2.0})
    labels, binding, source, notes = read([first, second])
    assert labels.tasks == ["capitals", ""]
    assert labels.correct.tolist() == [1.0, 0.0]
    np.testing.assert_array_equal(labels.scores["sp"], [0.5, 1.5])
    np.testing.assert_array_equal(labels.scores["mte"], [np.nan, np.nan])
    np.testing.assert_array_equal(labels.scores["ppl"], [np.nan, 2.0])
    assert (binding, source, notes) == (a_binding(), "feedback, 2 labels", [])


def test_a_second_label_counts_once(read):
    labels, *_ = read([a_label("a", 0.0), a_label("b", 1.0), a_label("a", 1.0)])
    assert labels.correct.tolist() == [1.0, 1.0]


def test_the_share_of_cut_texts_is_that_of_all_answers_and_tells_none_apart(read):
    cut = [0.0, 0.5, 0.1]
    made = [a_label(f"{i}", binding=a_binding(share_cut=share)) for i, share in enumerate(cut)]
    labels, binding, _, notes = read(made)
    assert len(labels.correct) == 3
    assert binding.share_cut == pytest.approx(0.2)
    assert notes == []


def test_scores_of_other_models_or_samplings_are_left_out_and_counted(read):
    others = [{"generator": "other", "revision": "2"}, {"num_samples": 5}, {"num_samples": 5}]
    made = [a_label(f"{i}", binding=a_binding(**changes)) for i, changes in enumerate(others)]
    made += [a_label(f"kept {i}") for i in range(3)]
    labels, binding, source, notes = read(made)
    assert (binding, source) == (a_binding(), "feedback, 3 labels")
    assert notes == ["3 labels of other scores are left out, by revision, generator, num_samples"]
    assert len(labels.correct) == 3


def test_what_no_calibrator_can_speak_of_is_left_out_and_counted(read):
    made = [
        a_label("brought", binding=None),
        a_label("kept"),
    ]
    labels, _, _, notes = read(made, tail=b"junk\n")
    assert len(labels.correct) == 1
    assert notes == [
        "1 entries are no labels",
        "1 labels of samples or log-probs of clients' own are left out",
    ]


def test_quality_of_degrees_needs_to_know_from_where_an_answer_is_right(read):
    made = [a_label("a", 0.4), a_label("b", 0.8)]
    with pytest.raises(CannotCalibrate, match="--correct-at"):
        read(made)
    labels, *_ = read(made, correct_at=0.5)
    assert labels.correct.tolist() == [0.0, 1.0]


def test_without_labels_the_error_says_why(read):
    with pytest.raises(CannotCalibrate, match="no labels; 1 labels of samples"):
        read([a_label("a", binding=None)])


def test_chats_calibrate_chats(read):
    chats = [a_label(f"{i}", binding=a_binding(input="messages")) for i in range(2)]
    _, binding, _, notes = read([*chats, a_label("a prompt")])
    assert binding.input == "messages"
    assert notes == ["1 labels of other scores are left out, by input"]


def test_labels_without_a_task_are_in_the_group_of_all_alone(read):
    rng = np.random.default_rng(0)
    made = []
    for i in range(200):
        u = float(rng.exponential())
        task = ("capitals", None)[i % 2]
        made.append(a_label(f"{i}", float(rng.random() < np.exp(-u)), task, scores={"sp": u}))
    labels, binding, source, _ = read(made)
    fitted = calibrate(labels, binding, source, by_task=True).calibrator
    assert list(fitted.groups) == [ALL, "capitals"]
    assert fitted.groups[ALL]["sp"].num_labels == 200
    assert fitted.groups["capitals"]["sp"].num_labels == 100
