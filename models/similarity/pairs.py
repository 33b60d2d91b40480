"""Pure: scores of pairs as vectors and matrices over samples, and the pairs that these read."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Self

import numpy as np

from models.records import Array, Pair
from models.similarity.added import QuestionWords, added, question_words
from models.similarity.sameness import (
    MAX_CHARACTERS,
    Reading,
    Relation,
    reading,
    relation,
    relation_of_words,
)

# Scores of a pair known without a model, on each label; where one text is empty, 0 on all.
_KNOWN = {
    "same": {"similarity": 1.0, "entailment": 1.0, "neutral": 0.0, "contradiction": 0.0},
    "different": {"similarity": 0.0, "entailment": 0.0, "neutral": 0.0, "contradiction": 1.0},
    "empty": dict.fromkeys(("similarity", "entailment", "neutral", "contradiction"), 0.0),
}


@dataclass(frozen=True, slots=True)
class PairRules:
    """Rules by which some pairs are known without a model.

    Attributes:
        strip, exact_match: as of `SimilarityConfig`; without the latter no pair is known.
        cuts: whether only what texts add to their question is compared.
        question: that the texts answer, whose numbers distinguish no answers; "" without one.
        has_facts: whether `models.similarity.sameness` is applied as well.
    """

    strip: bool = True
    exact_match: bool = True
    cuts: bool = False
    question: str = ""
    has_facts: bool = True
    _read: dict[tuple[str, bool], Reading] = field(default_factory=dict, compare=False, repr=False)
    _compared: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    _wholes: dict[str, set[str]] = field(default_factory=dict, compare=False, repr=False)
    _asked: QuestionWords = field(default=QuestionWords(), compare=False, repr=False)

    @property
    def identity(self) -> tuple[bool | str, ...]:
        """The part of the rules that decides scores of answers, of whatever question."""
        return self.strip, self.exact_match, *(["added"] if self.cuts else [])

    def of_question(self, *questions: str) -> "PairRules":
        """The same for answers to the last of these questions of a chat."""
        asked = question_words(*questions) if self.cuts else QuestionWords()
        return PairRules(self.strip, self.exact_match, self.cuts, questions[-1], _asked=asked)

    def of_values(self) -> "PairRules":
        """The same for the values of fields, which are compared whole."""
        return PairRules(self.strip, self.exact_match)

    def of_texts_alone(self) -> "PairRules":
        """The same for texts that are no answers: only equal and empty ones are known."""
        return PairRules(self.strip, self.exact_match, has_facts=False)

    def normalise(self, text: str) -> str:
        """The text without blanks around it, where they are not compared."""
        if self.strip:
            return text.strip()
        return text

    def compared(self, text: str) -> str:
        """The text as it is compared."""
        if not self.cuts:
            return self.normalise(text)
        if text not in self._compared:
            self._compared[text] = added(text, self._asked)
            if len(text) <= MAX_CHARACTERS:
                self._wholes.setdefault(self._compared[text], set()).add(text)
        return self._compared[text]

    def value(self, a: str, b: str, label: str) -> float | None:
        """Score of two normalised texts where it is known: they are equal, or a rule gives it."""
        if not self.exact_match:
            return None
        if a == b:
            return _KNOWN["same"][label]
        if not a or not b:
            return _KNOWN["empty"][label]
        related = self._relation(a, b)
        return _KNOWN[related][label] if related else None

    def _relation(self, a: str, b: str) -> Relation | None:
        if not self.has_facts or max(len(a), len(b)) > MAX_CHARACTERS:
            return None
        known = self._reading(self.question[-MAX_CHARACTERS:]).numbers
        if not self.cuts:
            return relation(self._reading(a), self._reading(b), known)
        cut_a, cut_b = (self._reading(text, is_whole=False) for text in (a, b))
        if related := relation(cut_a, cut_b, known):
            return related
        # Whole texts show who beat whom. Where several were cut to one and disagree, none counts.
        wholes = [map(self._reading, self._wholes.get(text, ())) for text in (a, b)]
        relations = {relation_of_words(*pair) for pair in product(*wholes)} - {None}
        return relations.pop() if len(relations) == 1 else None

    def _reading(self, text: str, *, is_whole: bool = True) -> Reading:
        if (text, is_whole) not in self._read:
            self._read[text, is_whole] = reading(text, is_whole=is_whole)
        return self._read[text, is_whole]


@dataclass(frozen=True, slots=True)
class PairTable:
    """Scores of the pairs that a model compared; the rules fill in the rest.

    Attributes:
        labels: names of the K values of a pair.
        scores: pair to its K values.
        truncated: whether any of these pairs was cut to the model's length.
    """

    labels: tuple[str, ...]
    scores: Mapping[Pair, tuple[float, ...]]
    rules: PairRules
    truncated: bool = False

    @classmethod
    def noting(cls, labels: tuple[str, ...], rules: PairRules) -> Self:
        """A table without scores: `scores` gets each pair that is looked up, 0 on all labels.

        What reads it once, and again with scores, is told by it which pairs it needs, if no score
        decides whether others are read.

        >>> table = PairTable.noting(("similarity",), PairRules())
        >>> _ = answer_relation("Paris", ["Rome", " Paris"], table, "similarity")
        >>> list(table.scores)
        [('Paris', 'Rome'), ('Rome', 'Paris')]
        """
        return cls(labels, defaultdict(lambda: (0.0,) * len(labels)), rules)

    def value(self, a: str, b: str, label: str) -> float:
        """Score of the ordered pair of texts on one label."""
        [value] = self.values([(self.rules.compared(a), self.rules.compared(b))], label)
        return value

    def values(self, pairs: Iterable[Pair], label: str) -> list[float]:
        """Scores of ordered pairs of normalised texts on one label."""
        column, scores = self.labels.index(label), []
        for a, b in pairs:
            known = self.rules.value(a, b, label)
            scores.append(self.scores[a, b][column] if known is None else known)
        return scores

    def both_directions(self, a: str, b: str, label: str) -> float:
        """Mean over the two orders of the pair."""
        a, b = self.rules.compared(a), self.rules.compared(b)
        return sum(self.values([(a, b), (b, a)], label)) / 2


def answer_relation(answer: str, samples: Sequence[str], table: PairTable, label: str) -> Array:
    """Values (M,) of the answer against each sample with multiplicity, both directions averaged."""
    values: dict[str, float] = {}
    for text in set(samples):
        values[text] = table.both_directions(answer, text, label)
    return np.array(list(map(values.__getitem__, samples)))


def similarity_matrix(texts: Sequence[str], table: PairTable) -> Array:
    """S (M, M), both directions averaged, diagonal 1."""
    directed = directed_matrix(texts, table, "similarity")
    matrix: Array = (directed + directed.T) / 2
    np.fill_diagonal(matrix, 1.0)
    return matrix


def directed_matrix(texts: Sequence[str], table: PairTable, label: str) -> Array:
    """Values (M, M) of text i against text j, not symmetrised."""
    positions: dict[str, int] = {}
    index = []
    for text in map(table.rules.compared, texts):
        index.append(positions.setdefault(text, len(positions)))
    values: Array = np.array(table.values(product(positions, positions), label))
    return values.reshape(len(positions), len(positions))[np.ix_(index, index)]


def exact_match(answer: str, samples: Sequence[str], rules: PairRules) -> Array:
    """1.0 where a sample equals the answer as it is compared, else 0.0: (M,)."""
    compared = rules.normalise(answer)
    matches = np.zeros(len(samples))
    for i, sample in enumerate(map(rules.normalise, samples)):
        matches[i] = sample == compared
    return matches
