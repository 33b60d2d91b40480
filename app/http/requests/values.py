"""Values that fields have, and checks of them by themselves."""

import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, PlainValidator
from pydantic_core import PydanticCustomError

from app.spelling import closest, did_you_mean
from models.estimators import ESTIMATORS, known_estimators
from models.others import instead_of
from models.ranges import LOGPROBS
from models.units.json_schemas import tidied

Value = TypeVar("Value")

_MAX_SAMPLES = 64
_MAX_KWARGS_VALUES = 10_000


def _known_estimator(name: str) -> str:
    known = known_estimators()
    if name in known:
        return name
    if instead := instead_of(name):
        raise PydanticCustomError("instead", "{instead}", {"instead": instead})
    message = "unknown estimator{meant} GET /estimators lists all"
    meant = did_you_mean(closest(name, known)) or ";"
    raise PydanticCustomError("unknown_estimator", message, {"meant": meant})


def encodable(value: Value) -> Value:
    """The value, unless a string in it has half of a surrogate pair, which no tokenizer takes."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise PydanticCustomError(
            "lone_surrogate", "Input should be a valid string, without lone surrogates"
        ) from None
    return value


Text = Annotated[str, AfterValidator(encodable)]


def few_values(value: Any) -> Any:
    """The value, unless it holds so many values that checking and rendering it takes long."""
    pending, num_values = [value], 0
    while pending:
        nested = pending.pop()
        num_values += 1
        if num_values > _MAX_KWARGS_VALUES:
            message = "Input should hold at most {limit} values"
            raise PydanticCustomError("too_many_values", message, {"limit": _MAX_KWARGS_VALUES})
        if isinstance(nested, dict):
            pending.extend(nested.values())
        elif isinstance(nested, list):
            pending.extend(nested)
    return value


def _known_logprob(value: float) -> float:
    if value == -9999:  # as OpenAI and vLLM write it
        raise PydanticCustomError("not_known", "-9999 stands for a log-prob that is not known")
    return value


EstimatorName = Annotated[
    str, AfterValidator(_known_estimator), Field(json_schema_extra={"enum": list(ESTIMATORS)})
]
# The models' own range: sums of so many are finite.
Logprob = Annotated[float, Field(ge=LOGPROBS[0], le=0), AfterValidator(_known_logprob)]
TokenLogprobs = Annotated[list[Logprob], Field(min_length=1, max_length=8192, fail_fast=True)]
StopString = Annotated[str, Field(min_length=1, max_length=64)]
# JSON has one kind of number: 2.0 is an integer.
Whole = BeforeValidator(
    lambda value: int(value) if isinstance(value, float) and value.is_integer() else value
)
SampleNumber = Annotated[int, Field(ge=1, le=_MAX_SAMPLES), Whole]
_StopStrings = Annotated[list[StopString], Field(max_length=8, fail_fast=True)]
StopStrings = Annotated[
    _StopStrings,
    BeforeValidator(
        lambda value: [value] if isinstance(value, str) else value,
        json_schema_input_type=StopString | _StopStrings,
    ),
]
Values = Annotated[dict[str, JsonValue], BeforeValidator(few_values), AfterValidator(encodable)]
TemplateVariables = Annotated[Values, Field(max_length=32)]
# As OpenAI has them.
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
JsonSchema = Annotated[Values, AfterValidator(tidied)]

# -1 is how some clients say that they name none.
_Count = Annotated[int, Field(ge=0, lt=2**63), Whole]
CountOrNone = Annotated[
    _Count | None,
    BeforeValidator(
        lambda value: None if value == -1 else value,
        json_schema_input_type=_Count | Literal[-1] | None,
    ),
]
_Tokens = Annotated[int, Field(ge=1, lt=2**63), Whole]  # the model's context bounds them
NewTokens = Annotated[
    _Tokens | None,
    BeforeValidator(
        lambda value: None if value == -1 else value,
        json_schema_input_type=_Tokens | Literal[-1] | None,
    ),
]


def empty(
    kind: type[list[Any]] | type[dict[str, Any]] | None = None, why: str = "is not supported here"
) -> PlainValidator:
    """A validator that takes an empty list or object alone; with `kind` None, null alone."""

    def check(value: Any) -> Any:
        if value is not None and (kind is None or value != kind()):
            raise PydanticCustomError("not_supported", "{why}: leave it out", {"why": why})
        return value

    if kind is None:
        return PlainValidator(check, json_schema_input_type=None)
    return PlainValidator(check, json_schema_input_type=Annotated[kind, Field(max_length=0)])


NoSound = Annotated[Any, empty(why="answers are text here")]
NoFunctions = Annotated[Any, empty(list, "is the former name: send tools")]
# A field that concerns OpenAI's platform alone.
Platform = Annotated[Values, Field(max_length=16, description="Accepted and ignored.")]
