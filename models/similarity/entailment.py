"""Similarity by natural language inference."""

from collections.abc import Sequence
from typing import Literal

from models.records import Pair, PairScores
from models.similarity.protocol import ContextAndText, PairModel


class EntailmentModel:
    """p(entailment), or 1 - p(contradiction), of an NLI model.

    The NLI model is shared and not loaded again.
    """

    labels: tuple[str, ...] = ("similarity",)

    def __init__(
        self, nli: PairModel, kind: Literal["entailment", "contradiction"] = "entailment"
    ) -> None:
        self.model_id = nli.model_id
        self.revision = nli.revision
        self.max_length = nli.max_length
        self.flags = (kind, *nli.flags)
        self._nli = nli
        self._kind = kind

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """See `PairModel.score`."""
        scores = self._nli.score(pairs)
        column = scores.values[:, [self._nli.labels.index(self._kind)]]
        return PairScores(column if self._kind == "entailment" else 1.0 - column, scores.truncated)

    def fit_contexts(self, texts: Sequence[ContextAndText]) -> list[str]:
        """See `PairModel.fit_contexts`."""
        return self._nli.fit_contexts(texts)


_: type[PairModel] = EntailmentModel  # mypy holds the class to its protocol
