import numpy as np
import pytest

from models.units.characters import spans_of_texts
from models.units.prose import claim, sentences, supported
from models.units.unit import contradiction, support

TEXTS = ["Peru is", " big. ", "Peru", " is", " far", "."]
TEXT, TOKENS = "".join(TEXTS), spans_of_texts(TEXTS)


@pytest.mark.parametrize(
    ("quotes", "spans", "indices"),
    [
        (["Peru", "Peru"], ((0, 4), (13, 17)), [0, 2]),
        (["far", "Peru"], (), []),
        (["Lima"], (), []),
        ([], (), []),
        (["big. Peru"], ((8, 17),), [1, 2]),
    ],
    ids=["each behind the one before", "not in this order", "not there", "none", "over a stop"],
)
def test_a_claim_has_the_tokens_of_its_quotes(quotes, spans, indices):
    unit = claim("Peru is great.", quotes, TEXT, TOKENS)

    assert unit.text == "Peru is great."
    assert unit.spans == spans
    assert unit.tokens.tolist() == indices


def test_the_chunk_that_entails_most_supports():
    units = sentences(TEXT, [(0, 12), (13, 25)], TOKENS)
    entailment = [np.array([[0.2, 0.9], [0.6, 0.1]]), np.empty((0, 2)), np.empty((0, 0))]
    contradiction_ = [np.array([[0.3, 0.0], [0.0, 0.6]]), np.empty((0, 2)), np.empty((0, 0))]

    first, second = supported(units, entailment, contradiction_)

    assert first.supports.tolist() == [0.6, 0.0, 0.0]
    assert support(second) == pytest.approx(0.3)
    assert contradiction(first) == pytest.approx(0.1)
    assert contradiction(second) == pytest.approx(0.2)


def test_ten_thousand_sentences_are_ten_thousand_units():
    texts = ["No", "."] * 10_000
    spans = [(i, i + 3) for i in range(0, 30_000, 3)]

    units = sentences("".join(texts), spans, spans_of_texts(texts))

    assert units[-1].tokens.tolist() == [19_998, 19_999]
