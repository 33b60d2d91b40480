"""The parts of an answer as responses tell them: shapes, no logic."""

from typing import Annotated

from pydantic import Field

from app.http.described import ABSENT, Described
from models.units.unit import Kind

Range = Annotated[list[int], Field(min_length=2, max_length=2)]


class Alternative(Described):
    """What samples have in the place of a part."""

    value: str | None
    """of a field as JSON, null for samples that have none there; of a sentence or claim a sentence
    of samples that deny it"""
    share: float
    """of all samples, 0 to 1"""


class MissingField(Described):
    """What samples have and the answer lacks."""

    path: str
    """JSON Pointer; `-` for an element of an array"""
    share: float
    """of all samples, 0 to 1"""


class UnitDecision(Described):
    """Whether a part may pass."""

    accept: bool
    """whether its uncertainty is at most the threshold of `units_decision`"""
    removed: bool = ABSENT
    """with `on_unit_reject` remove: whether `refined_text` is without it"""
    reason: str = ABSENT
    """why it does not pass, and why it stays where it was to be removed"""


class UnitInfo(Described):
    """A part of the answer, with its own scores; what its kind has not is absent."""

    kind: Kind
    """`answer` is all of it"""
    text: str
    """what it says; of a field the JSON text of its value, of a sentence as it stands in `text`"""
    path: str = ABSENT
    """JSON Pointer (RFC 6901) of a field"""
    span: Range = ABSENT
    """its first character in `text`, ≥ 0, and the one behind its last; of a claim those of its
    quotes, absent where one does not occur"""
    spans: list[Range] = ABSENT
    """of a claim with several quotes: where each stands in `text`, characters ≥ 0"""
    tokens: Range = ABSENT
    """its first token, ≥ 0, and the one behind its last; absent where it has none; of what lies
    between the quotes of a claim no token is its own"""
    support: float = ABSENT
    """mean over the samples of how far each says the same, 0 to 1; absent without samples"""
    contradiction: float = ABSENT
    """of a sentence or claim, by an NLI model: how far the samples deny it, 0 to 1, their mean"""
    contradicted_by: list[int] = ABSENT
    """of a sentence or claim: indices, ≥ 0, of the samples that deny it rather than say it"""
    out_of_domain: bool = ABSENT
    """of a sentence that a probe has read: whether it lies farther from what the probe was trained
    on than 99 of 100 held-out ones: do not trust its light scores"""
    alternatives: list[Alternative] = ABSENT
    """of a field the samples' values, of a sentence or claim what those say that deny it, at most
    three; the most frequent first"""
    missing: list[MissingField] = ABSENT
    """of the whole answer: fields that only samples have"""
    estimator: str | None
    """whose score is the uncertainty; null where none that was asked for is defined for parts"""
    uncertainty: float | None
    """its score, a real number; higher is less sure; null with the reason of that score"""
    confidence: float | None = ABSENT
    """of a part: probability that it is right, 0 to 1, by the calibrator; null where it has no
    uncertainty, or for `reasons` of the response"""
    decision: UnitDecision = ABSENT
    """of a part, with `target_error`"""
    scores: dict[str, float | None]
    """by estimator, those that are defined for this kind and known of the answer; real numbers,
    higher is less sure"""
    reasons: dict[str, str]
    """why a score is null"""
