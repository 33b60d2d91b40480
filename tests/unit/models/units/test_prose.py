from models.units.characters import spans_of_texts
from models.units.prose import sentences

TEXTS = ["Peru is", " big. ", "Peru", " is", " far", "."]
TEXT, TOKENS = "".join(TEXTS), spans_of_texts(TEXTS)


def test_ten_thousand_sentences_are_ten_thousand_units():
    texts = ["No", "."] * 10_000
    spans = [(i, i + 3) for i in range(0, 30_000, 3)]

    units = sentences("".join(texts), spans, spans_of_texts(texts))

    assert units[-1].tokens.tolist() == [19_998, 19_999]
