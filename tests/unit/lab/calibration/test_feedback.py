"""Labels of applications as arrays: of one deployment, the others counted."""

import numpy as np
import pytest

from app.plugins.labels.protocol import FeedbackConfig
from cocoa_lab.calibration.calibrating import calibrate
from cocoa_lab.calibration.feedback import read_feedback
from cocoa_lab.calibration.fitting import CannotCalibrate
from models.calibration import ALL
from models.codec import to_json
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
    [part], source, notes = read([first, second])
    labels = part.labels
    assert labels.tasks == ["capitals", ""]
    assert labels.correct.tolist() == [1.0, 0.0]
    np.testing.assert_array_equal(labels.scores["sp"], [0.5, 1.5])
    np.testing.assert_array_equal(labels.scores["mte"], [np.nan, np.nan])
    np.testing.assert_array_equal(labels.scores["ppl"], [np.nan, 2.0])
    assert (part.bindings, source, notes) == ((a_binding(),), "feedback, 2 labels", [])


def test_a_second_label_counts_once(read):
    [part], *_ = read([a_label("a", 0.0), a_label("b", 1.0), a_label("a", 1.0)])
    assert part.labels.correct.tolist() == [1.0, 1.0]


def test_the_share_of_cut_texts_is_that_of_all_answers_and_tells_none_apart(read):
    cut = [0.0, 0.5, 0.1]
    made = [a_label(f"{i}", binding=a_binding(share_cut=share)) for i, share in enumerate(cut)]
    [part], _, notes = read(made)
    assert len(part.labels.correct) == 3
    assert part.bindings[0].share_cut == pytest.approx(0.2)
    assert notes == []


def test_scores_of_other_models_are_left_out_and_counted(read):
    other = a_binding(generator="other", revision="2")
    made = [a_label("another", binding=other), a_label("one"), a_label("two")]
    parts, source, notes = read(made)
    assert [part.bindings for part in parts] == [(a_binding(),)]
    assert source == "feedback, 2 labels"
    assert notes == ["1 labels of other models are left out, by revision, generator"]


def test_each_way_of_asking_is_a_part_and_the_most_frequent_one_the_first(read):
    ways = [{"input": "messages"}, {}, {"num_samples": 5}, {}, {"num_samples": 5}, {}]
    made = [a_label(f"{i}", binding=a_binding(**way)) for i, way in enumerate(ways)]
    light = {"probes": {"predicted_dissimilarity": "x"}}
    made.append(a_label("light", binding=a_binding(**light, similarity="other", comparer="y")))
    parts, source, notes = read(made)
    counts = [(part.bindings[0], len(part.labels.correct)) for part in parts]
    assert counts[:2] == [(a_binding(), 3), (a_binding(num_samples=5), 2)]
    assert len(counts) == 4
    assert (source, notes) == ("feedback, 7 labels", [])


def test_what_no_calibrator_can_speak_of_is_left_out_and_counted(read):
    older = a_binding(stop_mass=0.7)
    made = [a_label("brought", binding=None), a_label("older", binding=older), a_label("kept")]
    [part], _, notes = read(made, tail=b"junk\n")
    assert len(part.labels.correct) == 1
    assert older.gone.startswith("num_samples auto is gone")
    assert notes == [
        "1 entries are no labels",
        "1 labels of samples or log-probs of clients' own are left out",
        f"1 labels are left out: {older.gone}",
    ]


def test_quality_of_degrees_needs_to_know_from_where_an_answer_is_right(read):
    made = [a_label("a", 0.4), a_label("b", 0.8)]
    with pytest.raises(CannotCalibrate, match="--correct-at"):
        read(made)
    [part], *_ = read(made, correct_at=0.5)
    assert part.labels.correct.tolist() == [0.0, 1.0]


def test_without_labels_the_error_says_why(read):
    with pytest.raises(CannotCalibrate, match="no labels; 1 labels of samples"):
        read([a_label("a", binding=None)])


def test_labels_without_a_task_are_in_the_group_of_all_alone(read):
    rng = np.random.default_rng(0)
    made = []
    for i in range(200):
        u = float(rng.exponential())
        task = ("capitals", None)[i % 2]
        made.append(a_label(f"{i}", float(rng.random() < np.exp(-u)), task, scores={"sp": u}))
    parts, source, _ = read(made)
    fitted = calibrate({source: parts}, by_task=True).calibrator
    [part] = fitted.parts
    assert fitted.groups == list(part.groups) == [ALL, "capitals"]
    assert part.groups[ALL]["sp"].num_labels == 200
    assert part.groups["capitals"]["sp"].num_labels == 100
