"""Similarities of words."""

from models.similarity.lexical import LexicalModel


def test_the_words_of_a_text_in_many_pairs_are_found_once():
    read = []

    def words_of(text):
        read.append(text)
        return text.split()

    model = LexicalModel("counting", words_of, lambda a, b: float(len(a) - len(b)))
    texts = ["a", "a b", "a b c"]
    scores = model.score([(a, b) for a in texts for b in texts])

    assert scores.values[:, 0].tolist() == [0, -1, -2, 1, 0, -1, 2, 1, 0]
    assert read == texts
