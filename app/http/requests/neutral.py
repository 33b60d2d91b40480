"""Fields that clients send unasked: they may hold the values that ask for nothing, and no other."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue, PlainValidator
from pydantic_core import PydanticCustomError

from app.http.requests.fields import few_values

# Why a parameter that changes what the model draws is refused: scores are of the law that it is.
_ANOTHER_LAW = "would draw by another law than the one whose log-probs are scored"


def only(*values: Any, why: str = "is not supported here") -> PlainValidator:
    """For a field that may hold these values alone; the first one is what to send."""

    def check(value: Any) -> Any:
        for one in values:
            # True equals 1 in Python.
            if one == value and isinstance(one, bool) == isinstance(value, bool):
                return value
        message = "{why}: leave it out, or send {neutral}"
        about = {"why": why, "neutral": str(values[0]).lower()}
        raise PydanticCustomError("not_supported", message, about)

    return PlainValidator(check, json_schema_input_type=Literal[values])


def empty(
    kind: type[list[Any]] | type[dict[str, Any]] | None = None, why: str = "is not supported here"
) -> PlainValidator:
    """For a field that may hold an empty list or object alone; for None, null alone."""

    def check(value: Any) -> Any:
        if value is not None and (kind is None or value != kind()):
            raise PydanticCustomError("not_supported", "{why}: leave it out", {"why": why})
        return value

    if kind is None:
        return PlainValidator(check, json_schema_input_type=None)
    return PlainValidator(check, json_schema_input_type=Annotated[kind, Field(max_length=0)])


No = Annotated[Any, only(False)]
NoTool = Annotated[Any, only("none", "auto", why="is the former name of tool_choice")]
EmptyList = Annotated[Any, empty(list)]
NoPenalty = Annotated[Any, only(0, why=_ANOTHER_LAW)]
NoFactor = Annotated[Any, only(1, why=_ANOTHER_LAW)]
NoCut = Annotated[Any, only(-1, 0, why="is that of samples: uncertainty.top_k")]
NoBias = Annotated[Any, empty(dict, _ANOTHER_LAW)]
NoReference = Annotated[Any, empty(why="nothing is stored here: send what was said as input")]
NoTruncation = Annotated[Any, only("disabled", why="no input is cut here")]
NoStore = Annotated[Any, only(False, why="nothing is stored here")]
NoSound = Annotated[Any, empty(why="answers are text here")]
NoModeration = Annotated[Any, empty(why="nothing is moderated here")]
NoPrediction = Annotated[Any, empty(why="an expected answer speeds up nothing here")]
NoSearch = Annotated[Any, empty(why="the model searches nothing here")]
NoFunctions = Annotated[Any, empty(list, "is the former name: send tools")]
FixedVerbosity = Annotated[Any, only("medium", why="the model is told nothing of it")]
UsualTier = Annotated[Any, only("auto", "default", why="there is one tier here")]
OneTried = Annotated[
    Any,
    only(1, why="is uncertainty.strategy most_probable_normalized among uncertainty.num_samples"),
]
# What concerns OpenAI's platform alone.
Label = Annotated[str, Field(max_length=512, description="Accepted and ignored.")]
Platform = Annotated[
    dict[str, JsonValue],
    Field(max_length=16, description="Accepted and ignored."),
    BeforeValidator(few_values),
]
