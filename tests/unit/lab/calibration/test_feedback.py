"""Labels of applications as arrays: of one deployment, the others counted."""

import numpy as np
import pytest

from app.plugins.labels.protocol import AnswerPart, FeedbackConfig, Label, PartLabel
from cocoa_lab.calibration.calibrating import calibrate
from cocoa_lab.calibration.feedback import read_feedback
from cocoa_lab.calibration.fitting import CannotCalibrate
from models.calibration import ALL
from models.codec import to_json
from tests.made_labels import a_binding, a_label, an_answer


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
    made = [a_label("brought", binding=None), a_label("kept")]
    [part], _, notes = read(made, tail=b"junk\n")
    assert len(part.labels.correct) == 1
    assert notes == [
        "1 entries are no labels",
        "1 labels of samples or log-probs of clients' own are left out",
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


def of_parts(answer_id, scores, *said):
    """A label of the parts of an answer, which are alike."""
    parts = tuple(AnswerPart(None, (i, i + 1), scores) for i in range(len(said)))
    answer = an_answer(answer_id, parts=parts, parts_binding=a_binding(unit="sentence"))
    labels = tuple(PartLabel(i, *one) for i, one in enumerate(said))
    return Label(answer, None, None, 1.0, labels)


def test_what_is_right_and_what_documents_say_are_labels_of_their_own(read):
    scores = {"sp": 0.5, "ungrounded": 0.25}
    first = of_parts("a", scores, (True, False), (None, True), (False, None))
    parts, source, _ = read([first, of_parts("b", scores, (None, False))])
    found = {part.labels.axis: part for part in parts}
    assert found["correct"].labels.correct.tolist() == [1, 0]
    assert found["correct"].labels.answers.tolist() == [0, 0]
    assert found["grounded"].labels.correct.tolist() == [0, 1, 0]
    assert found["grounded"].labels.answers.tolist() == [0, 0, 1]
    assert found["correct"].bindings == found["grounded"].bindings
    assert (len(parts), source) == (2, "feedback, 2 labels")
    [alone] = read([of_parts("b", scores, (None, False))])[0]
    assert alone.labels.axis == "grounded"


def test_no_score_is_calibrated_by_labels_of_the_other_kind(read):
    rng, made = np.random.default_rng(0), []
    for i in range(200):
        u, other = rng.random(2)
        scores = {"sp": other, "ungrounded": u}
        right, says = bool(rng.random() > other), bool(rng.random() > u)
        made.append(of_parts(f"{i}", scores, (right, says), (None, says)))
    parts, source, _ = read(made)
    fitted = calibrate({source: parts})
    num_labels = {}
    for part in fitted.calibrator.parts:
        for name, one in part.groups[ALL].items():
            num_labels[name] = one.num_labels
    assert num_labels == {"ungrounded": 400, "sp": 200}
    assert fitted.notes == []


def test_whole_answers_that_are_right_say_nothing_of_what_documents_say(read):
    rng, made = np.random.default_rng(0), []
    for i in range(200):
        u = float(rng.random())
        made.append(a_label(f"{i}", float(rng.random() > u), scores={"sp": u, "ungrounded": u}))
    parts, source, _ = read(made)
    [part] = calibrate({source: parts}).calibrator.parts
    assert part.groups[ALL].keys() == {"sp"}


@pytest.mark.parametrize(
    ("scores", "said", "why"),
    [
        ({"ungrounded": 0.5}, (None, True), "documents say cannot be .* 1 right and 0 wrong"),
        ({"ungrounded": 0.5}, (True, None), "no score that correct labels fit"),
    ],
)
def test_too_few_labels_of_what_documents_say_are_told_in_words(read, scores, said, why):
    parts, source, _ = read([of_parts("a", scores, said)])
    with pytest.raises(CannotCalibrate, match=why):
        calibrate({source: parts})


def test_labels_of_parts_of_an_earlier_version_are_read(read, tmp_path):
    older = to_json(of_parts("a", {"sp": 0.5}, (True, None)))
    older = older.replace(b',"grounded":null', b"")
    assert b"grounded" not in older
    [part], *_ = read([], tail=older + b"\n")
    assert (part.labels.axis, part.labels.correct.tolist()) == ("correct", [1.0])


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
