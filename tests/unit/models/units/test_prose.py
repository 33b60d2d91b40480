import pytest

from models.units.characters import spans_of_texts
from models.units.prose import claim, sentences

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


def test_ten_thousand_sentences_are_ten_thousand_units():
    texts = ["No", "."] * 10_000
    spans = [(i, i + 3) for i in range(0, 30_000, 3)]

    units = sentences("".join(texts), spans, spans_of_texts(texts))

    assert units[-1].tokens.tolist() == [19_998, 19_999]
