"""Fields that clients send unasked: they may hold the values that ask for nothing, and no other."""

from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator
from pydantic_core import PydanticCustomError


def only(*values: Any) -> PlainValidator:
    """For a field that may hold these values alone; the first one is what to send."""

    def check(value: Any) -> Any:
        for one in values:
            # True equals 1 in Python.
            if one == value and isinstance(one, bool) == isinstance(value, bool):
                return value
        message = "is not supported here: leave it out, or send {neutral}"
        raise PydanticCustomError("not_supported", message, {"neutral": str(values[0]).lower()})

    return PlainValidator(check, json_schema_input_type=Literal[values])


def empty(kind: type[list[Any]] | type[dict[str, Any]]) -> PlainValidator:
    """For a field that may hold an empty list or object alone."""

    def check(value: Any) -> Any:
        if value != kind():
            raise PydanticCustomError("not_supported", "is not supported here: leave it out")
        return value

    return PlainValidator(check, json_schema_input_type=Annotated[kind, Field(max_length=0)])


One = Annotated[Any, only(1)]
Zero = Annotated[Any, only(0)]
No = Annotated[Any, only(False)]
NoTool = Annotated[Any, only("none", "auto")]
EmptyList = Annotated[Any, empty(list)]
EmptyObject = Annotated[Any, empty(dict)]
Label = Annotated[str, Field(max_length=512, description="Accepted and ignored.")]
