"""Tools that a model may call, as OpenAI's clients send them."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator
from pydantic_core import PydanticCustomError

from app.http.requests.body import Body, Kept, named_in, refuse_if
from app.http.requests.scores import ScoresWanted
from app.http.requests.values import JsonSchema, Text, Values
from models.errors import InvalidRequest
from models.grammar.calls import grammar_of_calls
from models.grammar.grammars import grammar_of
from models.records import Grammar
from models.units.json_schemas import BadSchema, tidied
from models.units.tool_calls import schema_of_one

_ANY_OBJECT = {"type": "object"}


class TextFormat(Kept):
    """Any text."""

    type: Literal["text"]


class JsonObjectFormat(Kept):
    """Any JSON object."""

    type: Literal["json_object"]


class NamedSchema(Kept):
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


class JsonSchemaFormat(Kept):
    """JSON that is valid under a schema."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


OfSchema = TypeVar("OfSchema", bound=Body)
# By the class of formats that have a schema.
FormatOf = Annotated[
    Annotated[TextFormat, Tag("#text")]
    | Annotated[JsonObjectFormat, Tag("#json_object")]
    | Annotated[OfSchema, Tag("#json_schema")],
    Discriminator(
        lambda given: f"#{named_in(given)}",
        custom_error_type="response_format",
        custom_error_message='Input should be an object whose type is "text", "json_object" or '
        '"json_schema"',
    ),
]
ResponseFormat = FormatOf[JsonSchemaFormat]


def schema_of(wanted: ResponseFormat | None) -> dict[str, Any] | None:
    """The schema of answers in a format; None for any text."""
    if wanted is None or wanted.type == "text":
        return None
    if isinstance(wanted, JsonSchemaFormat) and wanted.json_schema.schema_ is not None:
        return wanted.json_schema.schema_
    return _ANY_OBJECT


ToolName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_.-]{1,64}$")]


def _typed(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        return tidied(schema, names_types=True)
    except BadSchema as error:
        raise PydanticCustomError("schema", "{why}", {"why": str(error)}) from None


class Function(Kept):
    """What a tool is called, does and takes."""

    name: ToolName
    description: Text | None = None
    parameters: Annotated[Values, AfterValidator(_typed)] | None = None
    """A JSON schema of its arguments; types may be called as in programs, `str` or `FLOAT`.
    Default: it takes none."""
    strict: bool | None = None
    """Whether calls are held to `parameters`: with it those of all tools are, as are calls that
    are required."""


class Tool(Kept):
    """Something that the model may call."""

    type: Literal["function"]
    function: Function


class FunctionNamed(Kept):
    """A tool by its name."""

    name: ToolName


class ToolNamed(Kept):
    """The tool that must be called."""

    type: Literal["function"]
    function: FunctionNamed


ToolChoice = Annotated[
    Annotated[Literal["none", "auto", "required"], Tag("#mode")]
    | Annotated[ToolNamed, Tag("#tool")],
    Discriminator(lambda choice: "#mode" if isinstance(choice, str) else "#tool"),
]


def tools_of(tools: Sequence[Tool]) -> tuple[dict[str, Any], ...]:
    plain: list[dict[str, Any]] = []
    for tool in tools:
        # Templates may fail where one of them is missing.
        function = {
            "name": tool.function.name,
            "description": tool.function.description or "",
            "parameters": tool.function.parameters or {"type": "object", "properties": {}},
        }
        plain.append({"type": "function", "function": function})
    return tuple(plain)


class ToolsWanted(Body):
    """Which tools the model may call or must, and what else answers are held to."""

    tools: Annotated[list[Tool], Field(max_length=128)] = []  # noqa: RUF012 - pydantic copies it
    """That the model may call, where its chat template shows them. By default answers are then
    scored without samples, and the values of a call are units."""
    tool_choice: ToolChoice = "auto"
    """`none` shows the model no tools; `required`, or the name of a tool, holds the answer to one
    call of any tool, or of this one."""
    parallel_tool_calls: bool = True
    """Whether an answer may call several tools; one that must call, calls one."""
    response_format: ResponseFormat | None = None
    """What the answer and each sample are held to, unless they call tools. With a schema
    the units are `fields` by default."""

    @property
    def tools_shown(self) -> tuple[dict[str, Any], ...]:
        if self.tool_choice == "none":
            return ()
        return tools_of(self.tools)

    @property
    def tools_required(self) -> tuple[dict[str, Any], ...]:
        """The tools of which the model must call one; none where it need not call any."""
        if self.tool_choice == "required":
            return self.tools_shown
        if isinstance(self.tool_choice, str):
            return ()
        name = self.tool_choice.function.name
        return tuple(tool for tool in self.tools_shown if tool["function"]["name"] == name)

    @property
    def holds_calls(self) -> bool:
        """True where calls are held to the parameters of their tools."""
        if not self.tools_shown or self.tools_required:
            return bool(self.tools_required)
        is_strict = any(tool.function.strict for tool in self.tools)
        has_format = schema_of(self.response_format) is not None
        return is_strict or not self.parallel_tool_calls or has_format

    @property
    def held_by(self) -> str:
        """The field that the answer's grammar is of."""
        is_of_any_form = schema_of(self.response_format) is None
        if self.tools and (self.tools_required or (self.holds_calls and is_of_any_form)):
            return "tools"
        return "response_format"

    @model_validator(mode="after")
    def _check_tools(self) -> Self:
        names = [tool.function.name for tool in self.tools]
        refuse_if(len(set(names)) < len(names), "tools", "two tools have one name")
        is_unknown = self.tool_choice not in ("none", "auto") and not self.tools_required
        refuse_if(is_unknown, "tool_choice", "there is no such tool among tools")
        return self

    def held_fields(self, wanted: ScoresWanted, *, of_tokens: bool) -> dict[str, Any]:
        """The fields of an `Ask` about format and tools: grammars, schema of comparisons, units.

        Units are fields, unless the request names others; with tools, scores may be `of_tokens`.
        Raises `InvalidRequest` where no answer can be held to it, or two schemas are named.
        """
        fields: dict[str, Any] = {}
        if self.response_format is not None:
            fields |= self._format_fields(wanted)
        if not self.tools:
            return fields
        fields["tools"] = self.tools_shown
        if self.holds_calls:
            fields["grammar"] = self._grammar_with_calls()
        if self.tools_shown:
            fields |= {"of_tokens": of_tokens, "units": wanted.units or "fields"}
        return fields

    def _format_fields(self, wanted: ScoresWanted) -> dict[str, Any]:
        schema = schema_of(self.response_format)
        if schema is None:
            return {}
        fields: dict[str, Any] = dict.fromkeys(("grammar", "format_grammar"), _grammar(schema))
        if schema is _ANY_OBJECT:
            return fields
        if wanted.json_schema is not None:
            message = (
                "must be left out where response_format has a schema, by which fields are compared"
            )
            raise InvalidRequest(message, field="json_schema")
        return fields | {"json_schema": schema, "units": wanted.units or "fields"}

    def _grammar_with_calls(self) -> Grammar:
        """The grammar of one call where it is required; else of calls, or an answer without any."""
        try:
            if self.tools_required:
                return grammar_of(schema_of_one(self.tools_required))
            return grammar_of_calls(
                self.tools_shown,
                several=self.parallel_tool_calls,
                answer=schema_of(self.response_format),
            )
        except BadSchema as error:
            raise InvalidRequest(str(error), field="tools") from None


def _grammar(schema: dict[str, Any]) -> Grammar:
    try:
        return grammar_of(schema)
    except BadSchema as error:
        raise InvalidRequest(str(error), field="grammar") from None
