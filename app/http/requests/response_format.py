"""The format that an answer is held to, as OpenAI's clients name it."""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from app.http.requests.fields import JsonSchema, NullIsDefault, refuse_if
from app.scoring.ask import Units
from models.errors import InvalidRequest
from models.grammars import grammar_of
from models.records import Grammar
from models.units.json_schemas import BadSchema

_ANY_OBJECT = {"type": "object"}


class TextFormat(NullIsDefault):
    """Any text."""

    type: Literal["text"]


class JsonObjectFormat(NullIsDefault):
    """Any JSON object."""

    type: Literal["json_object"]


class NamedSchema(NullIsDefault):
    """A schema with its name."""

    name: Annotated[str, Field(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    """Of the caller's choice; it changes nothing."""
    description: Annotated[str, Field(max_length=4096)] | None = None
    """Accepted and not shown to the model."""
    schema_: Annotated[JsonSchema | None, Field(alias="schema")] = None
    """What each answer is valid under. Default: any JSON object."""
    strict: bool = False
    """Answers are held to the schema either way."""

    @model_validator(mode="after")
    def _check_strict(self) -> Self:
        refuse_if(self.strict and self.schema_ is None, "schema", "is needed with strict")
        return self


class JsonSchemaFormat(NullIsDefault):
    """JSON that is valid under a schema."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


def _kind(given: Any) -> str | None:
    kind = getattr(given, "type", None)
    if isinstance(given, dict):
        kind = given.get("type")
    if kind in ("text", "json_object", "json_schema"):
        return f"#{kind}"
    return None


FORMATS = Discriminator(
    _kind,
    custom_error_type="response_format",
    custom_error_message='Input should be an object whose type is "text", "json_object" or '
    '"json_schema"',
)
ResponseFormat = Annotated[
    Annotated[TextFormat, Tag("#text")]
    | Annotated[JsonObjectFormat, Tag("#json_object")]
    | Annotated[JsonSchemaFormat, Tag("#json_schema")],
    FORMATS,
]


def schema_of(wanted: ResponseFormat | None) -> dict[str, Any] | None:
    """What an answer in a format is valid under; None for any text."""
    if wanted is None or wanted.type == "text":
        return None
    if isinstance(wanted, JsonSchemaFormat) and wanted.json_schema.schema_ is not None:
        return wanted.json_schema.schema_
    return _ANY_OBJECT


def held_to(
    wanted: ResponseFormat | None, json_schema: dict[str, Any] | None, units: Units | None
) -> dict[str, Any]:
    """What an `Ask` says of a format: its grammar, what its fields are compared by, its units.

    Args:
        wanted: format of the answer; None for any text.
        json_schema: that fields are compared by, where the request names one.
        units: as the request says it; None leaves fields to an answer with a schema.

    Raises:
        InvalidRequest: the answer cannot be held to it, or two schemas are named.
    """
    schema = schema_of(wanted)
    if schema is None:
        return {}
    if schema is _ANY_OBJECT:
        return {"grammar": _grammar(schema)}
    if json_schema is not None:
        message = (
            "must be left out where response_format has a schema, by which fields are compared"
        )
        raise InvalidRequest(message, field="json_schema")
    return {"grammar": _grammar(schema), "json_schema": schema, "units": units or "fields"}


def _grammar(schema: dict[str, Any]) -> Grammar:
    try:
        return grammar_of(schema)
    except BadSchema as error:
        raise InvalidRequest(str(error), field="grammar") from None
