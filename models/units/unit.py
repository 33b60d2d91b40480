"""A unit: a stretch of the answer's tokens, and how far each sample supports what it says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from models.records import Array, ProbeReading, Span

Kind = Literal["answer", "sentence", "claim", "field"]
# Which of the answer's tokens a unit has, ascending.
Indices = NDArray[np.intp]

_OF_TOKENS = ("answer_token_logprobs", "answer_token_entropies", "closed_book_token_logprobs")
NO_TOKENS = "the unit has no tokens"
NOT_READ = "no probe has read the unit"
# A sample denies what it is rather sure to contradict.
_DENIES = 0.5


@dataclass(frozen=True, slots=True)
class Unit:
    """A part of an answer."""

    # All statistics that a unit other than the answer has: an estimator that reads more is not
    # defined for it.
    SUPPLIED: ClassVar = frozenset({*_OF_TOKENS, "similarity", "grounded"})
    # The statistic of a sentence that a probe has read, in the place of samples.
    PREDICTED: ClassVar = "predicted_dissimilarity"

    kind: Kind
    text: str  # the sentence, the claim, or the JSON text of the value
    tokens: Indices  # indices of its tokens among the answer's
    # Its places in the answer's text; a claim may have several, or none.
    spans: tuple[Span, ...] = ()
    path: str | None = None  # JSON Pointer of a field
    # (M,) in [0, 1], how far each sample says the same; None without samples. For the answer it
    # is the similarity.
    supports: Array | None = None
    # (M,) in [0, 1], how far each sample denies it; None if not compared.
    contradictions: Array | None = None
    # Of a sentence, what a probe predicts of its `inconsistency`; None where none reads it.
    reading: ProbeReading | None = None
    # Texts of samples in its place, with shares of the samples, the most frequent first: of a
    # field their values as JSON, None for having none; of a sentence or claim a sentence of each
    # that denies it.
    alternatives: Mapping[str | None, float] = field(default_factory=dict)
    # Beside documents: the share of it that they say, in [0, 1], the id of the one that says most,
    # where that does, and numbers and names of it that stand in none.
    grounded: float | None = None
    document: str | None = None
    document_span: Span | None = None
    missing: tuple[str, ...] = ()
    # Ids of the documents that deny it, by an NLI model; None where none has judged.
    denied_by_documents: tuple[str, ...] | None = None

    @property
    def support(self) -> float | None:
        """Mean over the samples, in [0, 1]; None without samples."""
        return _mean(self.supports)

    @property
    def contradiction(self) -> float | None:
        """Mean over the samples, in [0, 1]; None without samples or if not compared."""
        return _mean(self.contradictions)

    def denied_by(self) -> list[int]:
        """The samples that deny it, rather than say it or say nothing of it."""
        if self.supports is None or self.contradictions is None:
            return []
        denies = (self.contradictions > _DENIES) & (self.contradictions > self.supports)
        return list(map(int, np.flatnonzero(denies)))

    def cut(
        self, statistics: Mapping[str, Any], absent: Mapping[str, str] | None = None
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """The answer's statistics cut to the unit, and the reasons for those that it lacks.

        Both go to `models.estimators.score`, which computes a unit's scores by the answer's
        formulas. `absent` has the reasons why the answer lacks some.
        """
        of_unit: dict[str, Any] = {}
        reasons = dict(absent or {})
        for name in filter(statistics.__contains__, _OF_TOKENS):
            if len(self.tokens):
                of_unit[name] = statistics[name][self.tokens]
            else:
                reasons.setdefault(name, NO_TOKENS)
        if self.supports is not None:
            of_unit["similarity"] = self.supports
        if self.grounded is not None:
            of_unit["grounded"] = self.grounded
        if self.reading is not None:
            of_unit[self.PREDICTED] = self.reading.value
        else:
            reasons[self.PREDICTED] = NOT_READ
        return of_unit, reasons


def _mean(values: Array | None) -> float | None:
    if values is None or not len(values):
        return None
    return float(values.mean())
