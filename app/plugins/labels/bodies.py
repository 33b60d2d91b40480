"""Body and response of `POST /feedback`."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from app.http.described import ABSENT, Described
from app.http.requests.body import Body, having, refuse_if
from app.http.requests.values import Text, Whole
from app.plugins.labels.protocol import CONTROL, MAX_PARTS
from models.calibration import ALL


def _readable(task: str | None) -> str | None:
    if task is not None and re.search(f"[{CONTROL}]", task):
        raise PydanticCustomError("control_character", "must have no control characters")
    if task == ALL:
        raise PydanticCustomError("reserved", f'"{ALL}" is the name of all tasks together')
    return task


_OF_TASK: JsonDict = {"not": {"const": ALL}, "pattern": f"^[^{CONTROL}]*$"}
# `_one_label` as JSON schemas.
_OF_CORRECT = having(["correct"], ["quality"], correct="boolean")
_OF_QUALITY = having(["quality"], ["correct"], quality="number")
_OF_UNITS = having(["units"], ["quality", "correct"], units="array")
_RIGHT = having(["correct"], [], correct="boolean")
_GROUNDED = having(["grounded"], [], grounded="boolean")
_BY_PATH = having(["path"], ["span"], path="string")
_BY_SPAN = having(["span"], ["path"], span="array")
_OF_PART: JsonDict = {"allOf": [{"anyOf": [_BY_PATH, _BY_SPAN]}, {"anyOf": [_RIGHT, _GROUNDED]}]}


class UnitFeedback(Body):
    """A label of one part: exactly one of `path` and `span` names it, as the response did."""

    path: Annotated[Text, Field(max_length=4096)] | None = None
    """JSON Pointer of a field."""
    span: Annotated[
        list[Annotated[int, Field(ge=0), Whole]] | None, Field(min_length=2, max_length=2)
    ] = None
    """Its first character, and the one behind its last."""
    correct: bool | None = None
    """Whether the part is right."""
    grounded: bool | None = None
    """Whether the documents say it, be they right or wrong: of an answer over documents alone."""

    model_config = ConfigDict(json_schema_extra=_OF_PART)

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        is_named_once = (self.path is None) != (self.span is None)
        refuse_if(not is_named_once, "path", "exactly one of path and span must be given")
        is_unlabelled = self.correct is None and self.grounded is None
        refuse_if(is_unlabelled, "correct", "at least one of correct and grounded must be given")
        return self

    @property
    def named(self) -> str | tuple[int, int]:
        if self.path is not None:
            return self.path
        start, end = self.span or (0, 0)
        return start, end


class FeedbackRequest(Body):
    """A label of one answer: `correct` or `quality`, or labels of `units` of it, or both."""

    id: Annotated[Text, Field(min_length=1, max_length=256)]
    """`id` of the response."""
    correct: bool | None = None
    """Whether the answer is right."""
    quality: Annotated[float | None, Field(ge=0, le=1)] = None
    """How good the answer is: 1 is right, 0 is wrong."""
    units: Annotated[
        list[UnitFeedback] | None, Field(min_length=1, max_length=MAX_PARTS, fail_fast=True)
    ] = None
    """Which of its parts are right, or grounded; the response must have told its `units`."""
    task: Annotated[
        Text | None,
        Field(min_length=1, max_length=64, json_schema_extra=_OF_TASK),
        AfterValidator(_readable),
    ] = None
    """What kind of question it was, for a calibration by task."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [_OF_CORRECT, _OF_QUALITY, _OF_UNITS]})

    @model_validator(mode="after")
    def _one_label(self) -> Self:
        is_both = self.correct is not None and self.quality is not None
        is_none = self.correct is None and self.quality is None and self.units is None
        why = "exactly one of correct and quality must be given, or units"
        refuse_if(is_both or is_none, "correct", why)
        return self

    @property
    def as_quality(self) -> float | None:
        """The label of the whole as a number, 1 for right; None where there is none."""
        if self.correct is not None:
            return float(self.correct)
        return self.quality


class FeedbackKept(Described):
    """A label that is durable."""

    id: str
    """of the answer"""
    quality: float | None
    """0 to 1: 1 is right, 0 is wrong; null where nothing was said of the whole"""
    units: int = ABSENT
    """parts of it that were labelled, ≥ 1"""
    task: str | None
    """the calibrator's group that it counts to"""
