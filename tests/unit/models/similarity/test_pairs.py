"""Which pairs are asked, and how their scores become vectors and matrices."""

from operator import methodcaller

import numpy as np
import pytest

from models.similarity.pairs import PairRules, PairTable, TextRules
from tests.fakes.pair_models import pairs_read

RULES = TextRules()
NLI = ("entailment", "neutral", "contradiction")


def table_for(work, rules=RULES, labels=("similarity",)):
    """An asymmetric score for each pair that is read, so that a forgotten direction shows."""
    pairs = pairs_read(work, labels, rules)
    values = {(a, b): (len(a) + 1) / (len(a) + len(b) + 2) / 2 for a, b in pairs}
    return PairTable(
        labels, {pair: (value,) * len(labels) for pair, value in values.items()}, rules
    )


def similarity(answer, samples, rules=RULES):
    work = methodcaller("answer_relation", answer, samples, label="similarity")
    return work(table_for(work, rules))


@pytest.mark.parametrize(
    ("question", "a", "b", "is_same"),
    [
        ("Who won the final?", "Brazil beat Italy.", "Italy beat Brazil.", False),
        ("Who killed whom?", "Caesar was killed by Brutus.", "Brutus was killed by Caesar.", False),
        ("When was it?", "15 May 2001 was a Monday.", "3 July 2001 was a Monday.", False),
        ("Who hired whom?", "Anna hired Bert.", "Bert was hired by Anna.", True),
        ("Tell me a fact.", "Lima is the capital of Peru.", "Peru's capital is Lima.", None),
        ("Who won?", f"Brazil beat Italy {'so ' * 200}.", "Italy beat Brazil.", None),
    ],
)
def test_rules_see_function_words_of_texts_that_are_cut(question, a, b, is_same):
    rules = TextRules(PairRules(cuts=True), (question,))

    assert rules.value(a, b, "similarity") == is_same


def test_who_did_it_is_told_of_texts_with_the_same_words():
    samples = {
        "Bert hired Anna.": 0.0,
        "Bert was hired by Anna.": 1.0,
        "Anna was hired by Bert.": 0.0,
    }
    for order in (list(samples), list(samples)[::-1]):
        rules = TextRules(PairRules(cuts=True), ("What happened?",))
        values = [rules.value("Anna hired Bert.", text, "similarity") for text in order]
        assert values == [samples[text] for text in order]


def test_both_directions_are_averaged_and_samples_count_with_multiplicity():
    samples = ["Rome", "Paris", "", " Rome"]
    work = methodcaller("answer_relation", "Paris", samples, label="similarity")
    scores = table_for(work).scores

    mean = (scores["Paris", "Rome"][0] + scores["Rome", "Paris"][0]) / 2
    np.testing.assert_allclose(similarity("Paris", samples), [mean, 1.0, 0.0, mean])


def test_two_empty_texts_are_equal():
    assert similarity("", [" "]).tolist() == [1.0]


def test_the_rules_can_be_switched_off():
    rules = TextRules(PairRules(strip=False, exact_match=False))

    work = methodcaller("answer_relation", "A", ["A", " A"], label="similarity")
    read = pairs_read(work, ("similarity",), rules)
    assert sorted(read) == [(" A", "A"), ("A", " A"), ("A", "A")]
    table = PairTable(("similarity",), {("A", "A"): (0.92,)}, rules)
    assert table.answer_relation("A", ["A"], "similarity").tolist() == [0.92]


@pytest.mark.parametrize("num_distinct_texts", [1, 2, 5])
def test_a_matrix_asks_d_times_d_minus_one_pairs(num_distinct_texts):
    texts = ["abcde"[i % num_distinct_texts] for i in range(10)]

    pairs = pairs_read(methodcaller("similarity_matrix", texts), ("similarity",), RULES)
    assert len(pairs) == num_distinct_texts * (num_distinct_texts - 1)


def test_the_similarity_matrix_is_symmetric_with_diagonal_one():
    texts = ["Rome", "Paris is it", "Rome", ""]
    work = methodcaller("similarity_matrix", texts)
    matrix = work(table_for(work))

    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_array_equal(np.diagonal(matrix), 1.0)
    assert matrix[0, 2] == 1.0
    assert matrix[0, 3] == 0.0


@pytest.mark.parametrize(
    ("label", "equal"), [("entailment", 1.0), ("neutral", 0.0), ("contradiction", 0.0)]
)
def test_directed_matrices_keep_their_direction_and_know_equal_texts(label, equal):
    texts = ["Rome", "Paris is it", "Rome", ""]
    work = methodcaller("directed_matrix", texts, label=label)
    table = table_for(work, labels=NLI)
    matrix = work(table)

    assert matrix[0, 1] == table.scores["Rome", "Paris is it"][0] != matrix[1, 0]
    assert matrix[0, 2] == matrix[1, 1] == equal
    assert matrix[0, 3] == matrix[3, 0] == 0.0


def test_exact_match_compares_as_texts_are_compared():
    assert RULES.rules.matches("Rome", [" Rome", "Paris"]).tolist() == [1.0, 0.0]
