"""The sentences of an answer that is still being written, with what is known of them by then."""

import numpy as np

from app.http.unit_schemas import UnitInfo
from app.http.units import unit_info
from app.scoring.units import ScoredUnit
from models.estimators import score
from models.records import Token
from models.units.characters import spans_of_texts
from models.units.prose import sentences
from models.units.sentences import sentence_spans
from models.units.unit import cut

# What a sentence's own tokens say, before any sample is compared.
_ESTIMATOR = "sp"


class EndedSentences:
    """Tells each sentence once the next one has begun; the last one is told by the result alone."""

    def __init__(self, max_units: int) -> None:
        self._num_left = max_units
        self._told_until = 0
        self._text = ""
        self._texts: list[str] = []
        self._logprobs: list[float] = []

    def add(self, token: Token) -> list[UnitInfo]:
        """The sentences that end before this token; none without log-probs, as from a cache."""
        if token.logprob is None or token.reasoning is not None:
            return []
        may_begin = _may_begin_a_sentence(self._text, token.text)
        self._texts.append(token.text)
        self._text += token.text
        self._logprobs.append(token.logprob)
        if not may_begin or not self._num_left:
            return []
        return self._ended()

    def _ended(self) -> list[UnitInfo]:
        *spans, _ = sentence_spans(self._text) or [(0, 0)]
        spans = [span for span in spans if span[0] >= self._told_until][: self._num_left]
        if not spans:
            return []
        self._num_left -= len(spans)
        self._told_until = spans[-1][1]
        # A token without a text of its own lies on what became certain after it.
        held = [index for index, text in enumerate(self._texts) if not text]
        known = {"answer_token_logprobs": np.array(self._logprobs)}
        told = []
        for unit in sentences(self._text, spans, spans_of_texts(self._texts, held)):
            scores, reasons = score([_ESTIMATOR], *cut(unit, known))
            told.append(unit_info(ScoredUnit(unit, _ESTIMATOR, scores, reasons)))
        return told


def _may_begin_a_sentence(text: str, following: str) -> bool:
    """Whether a sentence may end between the two: sentences are then looked for, as that costs."""
    said = text.rstrip()
    if not said or not following:
        return False
    return not said[-1].isalnum() or "\n" in text[len(said) :] + following
