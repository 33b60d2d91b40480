"""Body of `POST /feedback`."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from app.feedback.protocol import CONTROL
from app.http.requests.fields import NULL, Body, encodable
from models.calibration import ALL


def _readable(task: str | None) -> str | None:
    if task is not None and re.search(f"[{CONTROL}]", task):
        raise PydanticCustomError("control_character", "must have no control characters")
    return task


def _not_all(task: str | None) -> str | None:
    if task == ALL:
        raise PydanticCustomError("reserved", f'"{ALL}" is the name of all tasks together')
    return task


_OF_TASK: JsonDict = {"not": {"const": ALL}, "pattern": f"^[^{CONTROL}]*$"}
# `_one_label` as JSON schemas.
_OF_CORRECT: JsonDict = {
    "required": ["correct"],
    "properties": {"correct": {"type": "boolean"}, "quality": NULL},
}
_OF_QUALITY: JsonDict = {
    "required": ["quality"],
    "properties": {"quality": {"type": "number"}, "correct": NULL},
}


class FeedbackRequest(Body):
    """A label of one answer: exactly one of `correct` and `quality`."""

    id: Annotated[str, Field(min_length=1, max_length=256), AfterValidator(encodable)]
    """`id` of the response."""
    correct: bool | None = None
    """Whether the answer is right."""
    quality: Annotated[float | None, Field(ge=0, le=1)] = None
    """How good the answer is: 1 is right, 0 is wrong."""
    task: Annotated[
        str | None,
        Field(min_length=1, max_length=64, json_schema_extra=_OF_TASK),
        AfterValidator(encodable),
        AfterValidator(_readable),
        AfterValidator(_not_all),
    ] = None
    """What kind of question it was, for a calibration by task."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [_OF_CORRECT, _OF_QUALITY]})

    @model_validator(mode="after")
    def _one_label(self) -> Self:
        if (self.correct is None) == (self.quality is None):
            raise PydanticCustomError(
                "one_of", "exactly one of correct and quality must be given", {"field": "correct"}
            )
        return self

    @property
    def as_quality(self) -> float:
        """The label as a number, 1 for right."""
        if self.quality is None:
            return float(self.correct or 0)
        return self.quality
