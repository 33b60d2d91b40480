"""Token relevance: what each token adds to the meaning."""

import numpy as np

from models.similarity.pairs import PairTable, TextRules
from tests.fakes.pair_models import FakePairModel, pairs_read


def pairs_of(context, tokens):
    def read(table):
        return table.token_relevance(context, tokens)

    return pairs_read(read, ("similarity",), TextRules())


def relevance_of(context, tokens):
    pairs = pairs_of(context, tokens)
    values = FakePairModel().score(pairs).values
    scores = {pair: tuple(value) for pair, value in zip(pairs, values.tolist(), strict=True)}
    table = PairTable(("similarity",), scores, TextRules())
    return table.token_relevance(context, tokens)


def test_each_token_that_changes_the_text_costs_two_pairs():
    pairs = pairs_of("Where?", (" In", " Rome", ".", ""))

    assert len(pairs) == len(set(pairs)) == 6
    assert ("Where? In Rome.", "Where? In.") in pairs
    assert ("Where? In.", "Where? In Rome.") in pairs


def test_relevance_is_one_minus_the_mean_of_both_directions():
    tokens = (" In", " Rome")
    relevance = relevance_of("x", tokens)

    # "x In Rome" has 3 words of which "x Rome" has 2; the other way round all are there.
    np.testing.assert_allclose(relevance, [1 - (2 / 3 + 1) / 2] * 2)


def test_tokens_without_text_and_outer_blanks_have_no_relevance():
    tokens = (" ", "Rome", "\n", "")
    relevance = relevance_of("x", tokens)

    assert relevance[[0, 2, 3]].tolist() == [0.0, 0.0, 0.0]
    assert relevance[1] > 0


def test_an_answer_without_tokens_has_no_relevances():
    assert relevance_of("x", ()).shape == (0,)
