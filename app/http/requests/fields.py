"""Types of fields, and what every body of a request heeds."""

import json
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from models.estimators import ESTIMATORS
from models.ranges import LOGPROBS

Value = TypeVar("Value")

MAX_SAMPLES = 64
# Each unknown field is an error of its own, and their number is the client's.
_MAX_FIELDS = 64
_MAX_KWARGS_VALUES = 10_000


def _known_estimator(name: str) -> str:
    if name not in ESTIMATORS:
        raise PydanticCustomError(
            "unknown_estimator", "unknown estimator; GET /estimators lists all"
        )
    return name


def encodable(value: Value) -> Value:
    """JSON can spell half of a surrogate pair, which is no text and which no tokenizer takes."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise PydanticCustomError(
            "lone_surrogate", "Input should be a valid string, without lone surrogates"
        ) from None
    return value


def few_values(value: Any) -> Any:
    """Variables of a template that are checked, named and rendered in little time."""
    pending, num_values = [value], 0
    while pending:
        one = pending.pop()
        num_values += 1
        if num_values > _MAX_KWARGS_VALUES:
            message = "Input should hold at most {limit} values"
            raise PydanticCustomError("too_many_values", message, {"limit": _MAX_KWARGS_VALUES})
        if isinstance(one, dict):
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)
    return value


def as_list(value: Any) -> Any:
    """One stop string as the list of it."""
    return [value] if isinstance(value, str) else value


def number_or_auto(value: Any) -> Any:
    """How many samples, checked in one step, so that a wrong one is one error."""
    is_number = type(value) is int and 1 <= value <= MAX_SAMPLES
    if not is_number and value != "auto":
        raise PydanticCustomError(
            "num_samples", f'Input should be an integer from 1 to {MAX_SAMPLES}, or "auto"'
        )
    return value


EstimatorName = Annotated[
    str, AfterValidator(_known_estimator), Field(json_schema_extra={"enum": list(ESTIMATORS)})
]
# As those of the models; sums of any that pass are numbers.
Logprob = Annotated[float, Field(ge=LOGPROBS[0], le=0)]
TokenLogprobs = Annotated[list[Logprob], Field(min_length=1, max_length=8192, fail_fast=True)]
StopString = Annotated[str, Field(min_length=1, max_length=64)]
SampleNumber = Annotated[int, Field(ge=1, le=MAX_SAMPLES)]
StopStrings = Annotated[list[StopString], Field(max_length=8, fail_fast=True)]

# Of a schema that says what a cross-field check holds a request to.
NULL: JsonDict = {"type": "null"}


class Body(BaseModel):
    """What a client sends: a list tells its first fault alone, so that faults are few."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > _MAX_FIELDS:
            message = "Input should have at most {limit} fields"
            raise PydanticCustomError("too_many_fields", message, {"limit": _MAX_FIELDS})
        return value


class Message(Body):
    """One chat message."""

    role: Annotated[
        str,
        Field(min_length=1, max_length=32, description="Who speaks, as the template knows it."),
    ]
    content: Annotated[
        str, Field(description="What is said, in plain text."), AfterValidator(encodable)
    ]


def _or_null(field: JsonDict) -> JsonDict:
    """The schema of a field that may be null, too."""
    variants = field.pop("anyOf", None)
    about: JsonDict = {}
    for name in ("title", "description", "default"):
        if name in field:
            about[name] = field.pop(name)
    known = variants if isinstance(variants, list) else [field]
    return {"anyOf": [*known, *([] if NULL in known else [NULL])], **about}


class NullIsDefault(Body):
    """A body whose null fields are as good as absent."""

    @model_validator(mode="before")
    @classmethod
    def _null_is_default(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        given = {}
        for name, value in body.items():
            field = cls.model_fields.get(name)
            if value is not None or field is None or field.is_required():
                given[name] = value
        return given

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for name, field in properties.items():
            if "default" in field:
                properties[name] = _or_null(field)
        return schema
