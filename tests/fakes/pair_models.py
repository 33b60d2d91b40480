"""Deterministic pair models without weights, for tests of everything above them."""

import re
from collections.abc import Sequence
from typing import Self

import numpy as np

from models.records import Pair
from models.similarity.pairs import PairTable
from models.similarity.protocol import (
    NLI_LABELS,
    NliConfig,
    NliPairModel,
    PairModel,
    PairScores,
    SimilarityConfig,
)

_MAX_LENGTH = 512


class FakePairModel:
    """Share of the first text's words that the second has.

    It is not symmetric, so that directions matter.
    """

    labels: tuple[str, ...] = ("similarity",)
    model_id = "fake"
    revision: str | None = "1"
    max_length: int | None = _MAX_LENGTH
    flags: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.batches: list[int] = []

    @classmethod
    def load(cls, config: SimilarityConfig | NliConfig) -> Self:
        """The fake has nothing to load."""
        return cls()

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """A text that contains `<poison>` raises."""
        self.batches.append(len(pairs))
        if any("<poison>" in text for pair in pairs for text in pair):
            raise ValueError("poisoned pair")
        rows = [self._values(a.lower().split(), b.lower().split()) for a, b in pairs]
        values = np.array(rows, dtype=np.float64)
        lengths = np.array([len(a.split()) + len(b.split()) + 3 for a, b in pairs], dtype=int)
        return PairScores(values.reshape(-1, len(self.labels)), lengths > (self.max_length or 0))

    def fit_contexts(self, texts: Sequence[Pair]) -> list[str]:
        """A word is a token."""
        fitted = []
        for context, text in texts:
            budget = (_MAX_LENGTH - 3) // 2 - len(text.split())
            fitted.append(" ".join(context.split()[-budget:]) if budget > 0 else "")
        return fitted

    def _values(self, words: list[str], others: list[str]) -> list[float]:
        return [_share(words, others)]


class FakeNliModel(FakePairModel):
    """Entailment is the shared share of words; half of the rest contradicts."""

    labels = NLI_LABELS

    def _values(self, words: list[str], others: list[str]) -> list[float]:
        share = _share(words, others)
        return [share, (1 - share) / 2, (1 - share) / 2]

    def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """A word is a token."""
        ends = []
        for text in texts:
            ends.append([word.end() for word in re.finditer(r"\S+", text)])
        return ends


def _share(words: list[str], others: list[str]) -> float:
    return sum(word in others for word in words) / len(words) if words else float(not others)


# mypy holds the classes to their protocols
_: type[PairModel] = FakePairModel
_nli: type[NliPairModel] = FakeNliModel


def pairs_read(work, labels, rules):
    """The pairs whose scores some work reads, each once."""
    table = PairTable.noting(labels, rules)
    work(table)
    return list(table.scores)
