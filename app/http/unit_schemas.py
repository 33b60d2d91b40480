"""The parts of an answer as responses tell them: shapes, no logic."""

from typing import Annotated

from pydantic import Field

from app.http.described import ABSENT, Described
from models.units.unit import Kind

Range = Annotated[list[int], Field(min_length=2, max_length=2)]


class Alternative(Described):
    """What samples have in a field's place."""

    value: str | None
    """as JSON; null for samples that have none there"""
    share: float
    """of all samples, 0 to 1"""


class MissingField(Described):
    """What samples have and the answer lacks."""

    path: str
    """JSON Pointer; `-` for an element of an array"""
    share: float
    """of all samples, 0 to 1"""


class UnitInfo(Described):
    """A part of the answer, with its own scores; what its kind has not is absent."""

    kind: Kind
    """`answer` is all of it"""
    text: str
    """what it says; of a field the JSON text of its value"""
    path: str = ABSENT
    """JSON Pointer (RFC 6901) of a field"""
    span: Range = ABSENT
    """its first character in `text`, ≥ 0, and the one behind its last"""
    tokens: Range = ABSENT
    """its first token, ≥ 0, and the one behind its last; absent where it has none"""
    support: float = ABSENT
    """mean over the samples of how far each says the same, 0 to 1; absent without samples"""
    alternatives: list[Alternative] = ABSENT
    """values of the samples, the most frequent first"""
    missing: list[MissingField] = ABSENT
    """of the whole answer: fields that only samples have"""
    estimator: str | None
    """whose score is the uncertainty; null where none that was asked for is defined for parts"""
    uncertainty: float | None
    """its score, a real number; higher is less sure; null with the reason of that score"""
    scores: dict[str, float | None]
    """by estimator, those that are defined for this kind and known of the answer; real numbers,
    higher is less sure"""
    reasons: dict[str, str]
    """why a score is null"""
