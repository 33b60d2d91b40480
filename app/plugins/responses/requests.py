"""Bodies of `POST /v1/responses`, which are chats by other names."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from app.http.openai.requests import ChatFields, FixedVerbosity, No, only
from app.http.requests.body import Body, Kept, named_in, refuse_if
from app.http.requests.messages import SHOWN, ImageDetail, RefusalPart, TextOr
from app.http.requests.tools import FormatOf, Function, NamedSchema, ToolName
from app.http.requests.values import NewTokens, Platform, ReasoningEffort, Text, Whole, empty
from models.records import MAX_TOPS

_NoReference = Annotated[Any, empty(why="nothing is stored here: send what was said as input")]
RESPONSE_TOKENS = 4096  # by default; agents write whole files
_DEFAULT = f"Lowered to what fits the context. Default: as many as fit, at most {RESPONSE_TOKENS}."
_LOGPROBS = "message.output_text.logprobs"
# All that OpenAI's clients know to ask for.
_Included = Literal[
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
]


class TextContent(Kept):
    """A text in a message."""

    type: Literal["input_text", "output_text", "text"]
    text: Text


class ImageContent(Kept):
    """An image in a user's message."""

    type: Literal["input_image"]
    image_url: Annotated[Text, Field(json_schema_extra={"pattern": SHOWN})]
    """As in chats."""
    detail: ImageDetail | None = None
    """As the server of the model reads it."""


_CONTENTS = {"refusal": "#refusal", "input_image": "#image"}
_CONTENTS |= dict.fromkeys(("input_text", "output_text", "text"), "#text")
Content = Annotated[
    Annotated[TextContent, Tag("#text")]
    | Annotated[RefusalPart, Tag("#refusal")]
    | Annotated[ImageContent, Tag("#image")],
    Discriminator(
        lambda part: _CONTENTS.get(str(named_in(part))),
        custom_error_type="not_supported",
        custom_error_message="Input should be input_text, output_text, refusal or input_image: "
        "the model reads text and images here",
    ),
]
Contents = TextOr[Content]


class MessageItem(Kept):
    """A message."""

    usual = frozenset({"role", "content"})

    type: Literal["message"] = "message"
    role: Annotated[str, Field(min_length=1, max_length=32)]
    """`developer` is read as `system`."""
    content: Contents
    """Text, or parts of text, and of a user images."""


class FunctionCallItem(Kept):
    """A call of an earlier answer."""

    type: Literal["function_call"]
    call_id: Annotated[Text, Field(max_length=256)]
    name: ToolName
    arguments: Text
    """A JSON object, as a string."""
    namespace: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_.-]{0,64}$")] | None = None

    @model_validator(mode="after")
    def _check_name(self) -> Self:
        why = "must have at most 64 characters with the name and __ between them"
        refuse_if(len(name_in(self.namespace, self.name)) > 64, "namespace", why)
        return self


class FunctionCallOutputItem(Kept):
    """What a call gave."""

    type: Literal["function_call_output"]
    call_id: Annotated[Text, Field(max_length=256)]
    """Of the call."""
    output: Contents
    """Text, or parts of text."""


class ThoughtContent(Kept):
    """A text of a reasoning."""

    type: Literal["reasoning_text", "summary_text"]
    text: Text


Thoughts = Annotated[list[ThoughtContent], Field(max_length=1024, fail_fast=True)]


class ReasoningItem(Kept):
    """The reasoning before an earlier answer, for chat templates that show it."""

    type: Literal["reasoning"]
    summary: Thoughts = []  # noqa: RUF012 - pydantic copies it
    """Read where there is no `content`."""
    content: Thoughts = []  # noqa: RUF012
    """What the model thought."""


_ITEMS = ("message", "function_call", "function_call_output", "reasoning")


def _item_kind(item: Any) -> str | None:
    kind = named_in(item)
    if kind is None and named_in(item, "role") is not None:
        kind = "message"
    return f"#{kind}" if kind in _ITEMS else None


Item = Annotated[
    Annotated[MessageItem, Tag("#message")]
    | Annotated[FunctionCallItem, Tag("#function_call")]
    | Annotated[FunctionCallOutputItem, Tag("#function_call_output")]
    | Annotated[ReasoningItem, Tag("#reasoning")],
    Discriminator(
        _item_kind,
        custom_error_type="not_supported",
        custom_error_message=f"Input should be an item whose type is {', '.join(_ITEMS)}: "
        "nothing is stored to refer to (clients that are told store false send items whole)",
    ),
]
Input = Annotated[
    Annotated[Text, Field(min_length=1), Tag("#text")]
    | Annotated[list[Item], Field(min_length=1, max_length=1024, fail_fast=True), Tag("#parts")],
    Discriminator(lambda given: "#parts" if isinstance(given, list) else "#text"),
]


def _only_functions(given: Any) -> Any:
    if isinstance(given, dict) and given.get("type") != "function":
        message = 'Input should be of type "function": neither custom tools nor others are here'
        raise PydanticCustomError("not_supported", message)
    return given


class FunctionTool(Function):
    """A function that the model may call."""

    type: Literal["function"]


OnlyFunction = Annotated[FunctionTool, BeforeValidator(_only_functions)]


class NamespaceTool(Body):
    """Functions whose calls name the namespace, too; the model is shown both names in one."""

    type: Literal["namespace"]
    name: ToolName
    description: Annotated[str, Field(max_length=65_536)] | None = None
    """Accepted and not shown to the model."""
    tools: Annotated[list[OnlyFunction], Field(max_length=128)]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        why = "must have at most 64 characters with the name of each function and __ between them"
        for tool in self.tools:
            refuse_if(len(name_in(self.name, tool.name)) > 64, "name", why)
        return self


_SEARCH: JsonDict = {"required": ["type"]}  # of the web, which is not here
_SEARCH["properties"] = {"type": {"type": "string", "pattern": "^web_search"}}


def _tool_kind(tool: Any) -> str:
    kind = str(named_in(tool))
    if kind.startswith("web_search"):
        return "#search"
    if kind == "namespace":
        return "#namespace"
    return "#function"


AnyTool = Annotated[
    Annotated[OnlyFunction, Tag("#function")]
    | Annotated[NamespaceTool, Tag("#namespace")]
    | Annotated[Platform, Field(json_schema_extra=_SEARCH), Tag("#search")],
    Discriminator(_tool_kind),
]


def name_in(namespace: str | None, name: str) -> str:
    """What a model is shown as the name of a function of a namespace, or of none."""
    if not namespace:
        return name
    return f"{namespace.removesuffix('__')}__{name}"


class FunctionChosen(Body):
    """The function that must be called."""

    name: ToolName
    type: Literal["function"]


class SchemaFormat(NamedSchema):
    """JSON that is valid under a schema."""

    type: Literal["json_schema"]


Format = FormatOf[SchemaFormat]


class TextWanted(Body):
    """What the answer's text is."""

    format: Format | None = None
    """What the answer and each sample are held to, as `response_format` of chats."""
    verbosity: FixedVerbosity = None


class Reasoning(Body):
    """How the model reasons."""

    effort: ReasoningEffort | None = None
    """How long: the chat template's variable `reasoning_effort`."""
    summary: Literal["auto", "concise", "detailed"] | None = None
    """Accepted and ignored: the reasoning itself is told."""
    generate_summary: Literal["auto", "concise", "detailed"] | None = None
    """As `summary`."""
    context: Annotated[Any, only("auto", why="the chat template decides what it shows")] = "auto"
    mode: Annotated[Any, only("standard")] = "standard"


class ResponseRequest(ChatFields):
    """An input, as OpenAI's clients send it to `/v1/responses`; nothing is stored of it."""

    other_names: ClassVar[Mapping[str, str]] = {
        "messages": "input",
        "max_tokens": "max_output_tokens",
        "max_completion_tokens": "max_output_tokens",
        "response_format": "text.format",
        "reasoning_effort": "reasoning.effort",
    }

    input: Input
    """A user's text, or items: messages, calls of functions, what these gave, and reasonings."""
    instructions: Text | None = None
    """Put before the input, as a system message."""
    max_output_tokens: Annotated[NewTokens, Field(description=_DEFAULT)] = None
    text: TextWanted | None = None
    """What the answer's text is."""
    reasoning: Reasoning | None = None
    """How the model reasons."""
    tools: Annotated[list[AnyTool], Field(max_length=128)] = []  # noqa: RUF012 - pydantic copies it
    """That the model may call, as those of chats, alone or in namespaces."""
    tool_choice: Annotated[
        Annotated[Literal["none", "auto", "required"], Tag("#text")]
        | Annotated[FunctionChosen, BeforeValidator(_only_functions), Tag("#tool")],
        Discriminator(lambda given: "#text" if isinstance(given, str) else "#tool"),
    ] = "auto"
    """As that of chats."""
    parallel_tool_calls: bool = True
    """As that of chats."""
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOPS), Whole] = 0
    """So many of the likeliest tokens in the place of each of the answer's."""
    include: Annotated[list[_Included], Field(max_length=16)] = []  # noqa: RUF012
    """`message.output_text.logprobs` for log-probs of the answer's tokens; others are of tools and
    stores that are not here, and add nothing."""

    background: No = False
    context_management: _NoReference = None
    conversation: _NoReference = None
    max_tool_calls: Annotated[int, Field(ge=1), Whole] | None = None
    """Accepted and ignored: of tools of a platform, which are not here."""
    previous_response_id: _NoReference = None
    prompt: _NoReference = None
    truncation: Annotated[Any, only("disabled", why="no input is cut here")] = "disabled"

    @model_validator(mode="after")
    def _check_shown(self) -> Self:
        why = "ends in a reasoning: send what came behind it, too"
        refuse_if(isinstance(self.input[-1], ReasoningItem), "input", why)
        is_so_far = self.stream_options.continuous_usage_stats
        why = "the last event of a stream has the usage: leave it out"
        refuse_if(is_so_far, "stream_options.continuous_usage_stats", why)
        return self

    @property
    def wants_logprobs(self) -> bool:
        return _LOGPROBS in self.include or self.top_logprobs > 0

    def as_chat(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The same request as a chat, and the names of its fields here."""
        chat: dict[str, Any] = {name: getattr(self, name) for name in _SAME & self.model_fields_set}
        chat["messages"], places = self._messages()
        names = {f"messages.{number}": place for number, place in enumerate(places)}
        names |= {"messages": "input", "max_tokens": "max_output_tokens", "logprobs": "include"}
        names |= {"response_format": "text.format", "reasoning_effort": "reasoning.effort"}
        chat["max_tokens"], chat["logprobs"] = self.max_output_tokens, self.wants_logprobs
        chat["tools"] = [{"type": "function", "function": one} for one in self._functions()]
        if isinstance(self.tool_choice, FunctionChosen):
            chat["tool_choice"] = {"type": "function", "function": {"name": self.tool_choice.name}}
        if self.reasoning is not None:
            chat["reasoning_effort"] = self.reasoning.effort
        if self.text is not None and self.text.format is not None:
            chat["response_format"] = _format(self.text.format)
        return chat, names

    def _functions(self) -> Iterator[Function]:
        """As the model is shown them."""
        for tool in self.tools:
            if isinstance(tool, FunctionTool):
                yield tool
            elif isinstance(tool, NamespaceTool):
                for one in tool.tools:
                    yield one.model_copy(update={"name": name_in(tool.name, one.name)})

    def _messages(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Messages of the same chat, and the place in this body of each.

        Calls one after another, and text and reasonings before them, are one message.
        """
        messages: list[dict[str, Any]] = []
        places: list[str] = []
        if self.instructions:
            messages.append({"role": "system", "content": self.instructions})
            places.append("instructions")
        if isinstance(self.input, str):
            return [*messages, {"role": "user", "content": self.input}], [*places, "input"]
        thoughts = ""
        for number, item in enumerate(self.input):
            if isinstance(item, ReasoningItem):
                thoughts += "".join(f"\n{part.text}" for part in item.content or item.summary)
                continue
            last: dict[str, Any] = messages[-1] if messages else {"role": ""}
            if isinstance(item, FunctionCallItem) and last["role"] == "assistant":
                last.setdefault("tool_calls", []).append(_call(item))
            else:
                messages.append(_message(item))
                places.append(f"input.{number}")
            if thoughts:
                said = messages[-1].get("reasoning", "") + thoughts
                messages[-1]["reasoning"], thoughts = said.removeprefix("\n"), ""
        return messages, places


# Fields of the same name in both bodies.
_SAME = {"model", "temperature", "top_p", "seed", "stream", "uncertainty", "top_logprobs"}
_SAME |= {"tool_choice", "parallel_tool_calls", "chat_template_kwargs", "ignore_eos"}
_SAME |= {"documents", "documents_in"}


def _message(item: MessageItem | FunctionCallItem | FunctionCallOutputItem) -> dict[str, Any]:
    if isinstance(item, FunctionCallItem):
        return {"role": "assistant", "tool_calls": [_call(item)]}
    if isinstance(item, FunctionCallOutputItem):
        return {"role": "tool", "tool_call_id": item.call_id, "content": _content(item.output)}
    return {"role": item.role, "content": _content(item.content)}


def _content(given: str | Sequence[TextContent | RefusalPart | ImageContent]) -> Any:
    if isinstance(given, str):
        return given
    return list(map(_part, given)) or ""


def _part(given: TextContent | RefusalPart | ImageContent) -> dict[str, Any]:
    if isinstance(given, ImageContent):
        return {"type": "image_url", "image_url": {"url": given.image_url, "detail": given.detail}}
    return {"type": "text", "text": given.text}


def _call(item: FunctionCallItem) -> dict[str, Any]:
    name = name_in(item.namespace, item.name)
    return {"id": item.call_id, "function": {"name": name, "arguments": item.arguments}}


def _format(wanted: Format) -> dict[str, Any]:
    given = wanted.model_dump(by_alias=True, exclude_unset=True)
    kind = given.pop("type")
    if kind == "json_schema":
        return {"type": kind, kind: given}
    return {"type": kind}
