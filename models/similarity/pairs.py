"""Pure: the pairs a statistic needs, and their scores as vectors and matrices over samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from models.records import Array, Pair

# What two equal texts score on each label; texts of which one is empty score 0 on all.
_EQUAL = {"similarity": 1.0, "entailment": 1.0, "neutral": 0.0, "contradiction": 0.0}


@dataclass(frozen=True, slots=True)
class PairRules:
    """Which pairs are known without a model: see `SimilarityConfig.strip` and `.exact_match`."""

    strip: bool = True
    exact_match: bool = True

    def normalise(self, text: str) -> str:
        """The text as it is compared."""
        return text.strip() if self.strip else text

    def is_known(self, a: str, b: str) -> bool:
        """Whether a rule gives the score of two normalised texts.

        A rule does where they are equal or one of them is empty.
        """
        return self.exact_match and (a == b or not a or not b)


@dataclass(frozen=True, slots=True)
class PairTable:
    """Scores of the pairs that a model was asked for; the rules fill in the rest.

    Attributes:
        labels: names of the K values of a pair.
        scores: pair to its K values.
        truncated: whether any of these pairs was cut to the model's length.
    """

    labels: tuple[str, ...]
    scores: Mapping[Pair, tuple[float, ...]]
    rules: PairRules
    truncated: bool = False

    def value(self, a: str, b: str, label: str) -> float:
        """Score of the ordered pair of texts on one label."""
        a, b = self.rules.normalise(a), self.rules.normalise(b)
        if self.rules.is_known(a, b):
            return _EQUAL[label] if a == b else 0.0
        return self.scores[a, b][self.labels.index(label)]

    def both_directions(self, a: str, b: str, label: str) -> float:
        """Mean over the two orders of the pair."""
        return (self.value(a, b, label) + self.value(b, a, label)) / 2


def answer_pairs(answer: str, samples: Sequence[str], rules: PairRules) -> list[Pair]:
    """Distinct ordered pairs of the answer and each sample, in both directions.

    At most 2 pairs a distinct sample.

    >>> answer_pairs("Paris", ["Rome", "Paris", " Rome "], PairRules())
    [('Paris', 'Rome'), ('Rome', 'Paris')]
    """
    answer = rules.normalise(answer)
    others = dict.fromkeys(map(rules.normalise, samples))
    return _unknown(
        [pair for other in others for pair in ((answer, other), (other, answer))], rules
    )


def matrix_pairs(texts: Sequence[str], rules: PairRules) -> list[Pair]:
    """Distinct ordered pairs of the texts: D(D - 1) for D distinct ones.

    >>> matrix_pairs(["Paris", "Rome", "Paris"], PairRules())
    [('Paris', 'Rome'), ('Rome', 'Paris')]
    """
    distinct = dict.fromkeys(map(rules.normalise, texts))
    return _unknown([(a, b) for a in distinct for b in distinct], rules)


def answer_relation(answer: str, samples: Sequence[str], table: PairTable, label: str) -> Array:
    """Values (M,) of the answer against each sample with multiplicity, both directions averaged."""
    distinct, index = _distinct(samples, table.rules)
    return np.array([table.both_directions(answer, text, label) for text in distinct])[index]


def similarity_matrix(texts: Sequence[str], table: PairTable) -> Array:
    """S (M, M), both directions averaged, diagonal 1."""
    directed = directed_matrix(texts, table, "similarity")
    matrix: Array = (directed + directed.T) / 2
    np.fill_diagonal(matrix, 1.0)
    return matrix


def directed_matrix(texts: Sequence[str], table: PairTable, label: str) -> Array:
    """Values (M, M) of text i against text j, not symmetrised."""
    distinct, index = _distinct(texts, table.rules)
    values = np.array([[table.value(a, b, label) for b in distinct] for a in distinct]).reshape(
        len(distinct), -1
    )
    return values[np.ix_(index, index)]


def exact_match(answer: str, samples: Sequence[str], rules: PairRules) -> Array:
    """1.0 where a sample equals the answer as it is compared, else 0.0: (M,)."""
    compared = rules.normalise(answer)
    return np.array([float(rules.normalise(sample) == compared) for sample in samples])


def num_distinct(texts: Sequence[str], rules: PairRules) -> int:
    """Number of distinct texts as they are compared."""
    return len(set(map(rules.normalise, texts)))


def _distinct(texts: Sequence[str], rules: PairRules) -> tuple[list[str], list[int]]:
    """The distinct texts as they are compared, and for each text which of them it is."""
    normalised = [rules.normalise(text) for text in texts]
    positions = {text: i for i, text in enumerate(dict.fromkeys(normalised))}
    return list(positions), [positions[text] for text in normalised]


def _unknown(pairs: Sequence[Pair], rules: PairRules) -> list[Pair]:
    return list(dict.fromkeys(pair for pair in pairs if not rules.is_known(*pair)))
