"""Samples in groups by meaning, and the sentence about them."""

from dataclasses import replace

import numpy as np
import pytest

from app.scoring.derive import Evidence
from app.scoring.explaining import groups_of, sentence, support_of
from app.scoring.questions import Subject
from tests.results import sequence


def evidence(texts, to_answer, matrix, *, answer="Paris", answer_sample=None, **fields):
    samples = tuple(sequence(text, 1, **fields) for text in texts)
    chosen = sequence(answer, 1, **fields) if answer_sample is None else samples[answer_sample]
    statistics = {"similarity": np.array(to_answer), "similarity_matrix": np.array(matrix)}
    return Evidence(Subject(chosen, answer_sample, samples), statistics, {}, False)


def blocks(*sizes):
    """A matrix of samples that are alike within blocks of these sizes."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return (owner[:, None] == owner).astype(float)


def told(groups):
    return [(group.text, group.is_answer, group.count) for group in groups]


def test_samples_group_by_meaning_the_answers_group_first_then_the_largest():
    found = groups_of(
        evidence(["It is Paris.", "Rome", "Lyon", "Lyon."], [0.9, 0.1, 0.2, 0.1], blocks(1, 1, 2))
    )
    assert told(found) == [("Paris", True, 1), ("Lyon", False, 2), ("Rome", False, 1)]
    assert [group.share for group in found] == [0.25, 0.5, 0.25]
    assert sum(group.count for group in found) == 4
    assert found[0].similarity == 0.9
    assert found[1].similarity == pytest.approx(0.15)


def test_the_mass_of_a_group_is_that_of_its_distinct_texts_and_of_the_answer():
    found = groups_of(evidence(["Paris", "Paris", "Rome"], [1, 1, 0.1], blocks(2, 1)))
    each = np.exp(-0.5)
    assert [group.mass for group in found] == pytest.approx([each, each])
    two = groups_of(evidence(["It is Paris."], [0.9], blocks(1)))
    assert [group.mass for group in two] == [1.0], "two of .61 are no more than 1"
    rows = [(-5.0, "Paris"), (-1.01, "Paris"), (-1.0, "Paris")]
    samples = tuple(sequence(text, 1, token_logprobs=np.array([one])) for one, text in rows)
    of_rows = evidence(["Paris"] * 3, [1, 1], blocks(3), answer_sample=0)
    for moved in (samples, samples[::-1]):
        subject = replace(of_rows.subject, samples=moved)
        [group] = groups_of(replace(of_rows, subject=subject))
        assert group.mass == pytest.approx(np.exp(-5.0) + np.exp(-1.01))


def test_without_log_probs_no_mass_is_known():
    found = groups_of(evidence(["Rome"], [0.1], blocks(1), token_logprobs=None))
    assert [group.mass for group in found] == [None, None]


def test_an_answer_that_nobody_repeats_has_a_group_without_samples():
    found = groups_of(evidence(["Rome", "Rome"], [0.1, 0.1], blocks(2)))
    assert told(found) == [("Paris", True, 0), ("Rome", False, 2)]
    assert sentence(found) == (
        'No sample means the same as the answer; the samples say "Rome" (2).'
    )


def test_the_sentence_names_three_others_and_counts_the_rest():
    texts = ["Rome", "Lyon", "Oslo", "Bonn " * 30, ""]
    found = groups_of(evidence(["Paris", *texts], [1.0] + [0.0] * 5, np.eye(6)))
    assert sentence(found) == (
        '1 of 6 samples means the same as the answer; the others say "Rome" (1), "Lyon" (1), '
        '"Oslo" (1), and 2 more.'
    )
    assert sentence(groups_of(evidence(["Paris"] * 2, [1, 1], blocks(2)))) == (
        "All 2 samples mean the same as the answer."
    )
    assert '"(nothing)" (1)' in sentence(groups_of(evidence([""], [0.0], blocks(1))))
    assert "…" in sentence(groups_of(evidence(["Bonn " * 30], [0.0], blocks(1))))


def test_without_samples_or_similarities_there_are_no_groups():
    assert groups_of(evidence([], [], np.empty((0, 0)))) is None
    unknown = evidence(["Rome"], [0.1], blocks(1))
    del unknown.statistics["similarity_matrix"]
    assert groups_of(unknown) is None


@pytest.mark.parametrize(
    ("to_answer", "changes", "expected"),
    [
        ([1.0, 0.5, 0.49, 0.0], {}, 0.5),
        ([0.2, 0.2, 0.2, 0.2], {}, 0.0),
        ([0.9, 0.9, 0.1], {"answer_sample": 1}, 2 / 3),
        ([0.9] * 4, {"answer": "a", "refusal": "No."}, 0.0),
    ],
    ids=["from half alike on", "nobody", "the answer is none of the others", "a refusal"],
)
def test_support_is_the_share_of_the_other_samples_that_mean_the_same(to_answer, changes, expected):
    texts = ["Paris", "It is Paris.", "Rome", "Lyon"]
    found = support_of(evidence(texts, to_answer, np.eye(4), **changes))
    assert found == pytest.approx(expected)
