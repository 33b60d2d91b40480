"""One table of statistics: complete for the estimators, consistent in itself."""

import pytest

from models.estimators import ESTIMATORS, needs
from models.statistics import (
    SENTENCES_READ,
    STATISTICS,
    derivable,
    reads_samples,
    sources_of,
    supplied_by,
)


def test_every_statistic_that_an_estimator_reads_is_in_the_table_and_is_read_or_a_source():
    read = needs(ESTIMATORS)
    assert read <= STATISTICS.keys()
    made_of = sources_of(read)
    # Shown with an answer's tokens, read by a further way to choose the answer, or by sentences.
    shown = supplied_by("answer", "samples") | {SENTENCES_READ}
    assert STATISTICS.keys() == read | made_of | shown


@pytest.mark.parametrize("name", STATISTICS)
def test_what_a_statistic_is_derived_from_is_supplied_and_not_derived_again(name):
    for source in STATISTICS[name].derived_from:
        assert not STATISTICS[source].derived_from


@pytest.mark.parametrize("name", STATISTICS)
def test_a_statistic_is_derived_exactly_where_neither_generator_nor_parts_supply_it(name):
    sources = supplied_by("answer", "samples", "reasoning", "probe", "question", "parts")
    assert bool(STATISTICS[name].derived_from) != (name in sources)


@pytest.mark.parametrize("name", sorted(supplied_by("answer")))
def test_what_is_known_of_the_answers_tokens_is_known_of_the_samples_tokens_too(name):
    one = STATISTICS[name]
    other = STATISTICS[one.of_samples]
    assert (other.source, other.field, other.shape) == ("samples", one.field, ("M", "T_m"))


def test_texts_alone_give_what_compares_them_and_nli_only_where_there_is_a_model():
    texts = frozenset({"sample_texts"})
    without = {"sample_texts", "similarity", "similarity_matrix", "exact_match"}
    assert derivable(texts, has_nli=False) == without
    assert derivable(texts, has_nli=True) == without | supplied_by("nli")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (set(), False),
        ({"answer_token_logprobs", "predicted_dissimilarity", "token_relevance"}, False),
        ({"similarity"}, True),
        ({"answer_token_logprobs", "sample_texts"}, True),
        ({"sample_token_relevance"}, True),
    ],
    ids=["nothing", "of the answer", "derived", "itself", "relevance"],
)
def test_reading_samples_is_told_through_what_is_derived_from_them(names, expected):
    assert reads_samples(frozenset(names)) is expected
