"""Messages of a chat as OpenAI's clients send them, and as a model's template gets them."""

import re
from base64 import b64decode
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from app.http.requests.body import Body, Kept, having, named_in, refuse_if
from app.http.requests.tools import ToolName
from app.http.requests.values import (
    NoFunctions,
    NoSound,
    ReasoningEffort,
    TemplateVariables,
    Text,
    encodable,
    few_values,
)
from models.errors import InvalidRequest
from models.images import PARTS
from models.records import EFFORT

_DATA = re.compile(r"data:image/(png|jpeg|gif|webp);base64,")
SHOWN = r"^(https://[!-~]+|data:image/(png|jpeg|gif|webp);base64,([A-Za-z0-9+/]{4})+={0,2})$"
_ELSEWHERE = re.compile(r"https://[!-~]{1,8192}")


class TextPart(Kept):
    """A text in a message's content."""

    type: Literal["text"]
    text: Text


class RefusalPart(Kept):
    """What an earlier answer said in place of an answer, which is its text."""

    type: Literal["refusal"]
    refusal: Text

    @property
    def text(self) -> str:
        return self.refusal


def _shown(url: str) -> str:
    """The URL, if it holds an image or is an https address of one."""
    if _ELSEWHERE.fullmatch(url):
        return url
    with suppress(ValueError):
        if (data := _DATA.match(url)) and b64decode(url[data.end() :], validate=True):
            return url
    raise PydanticCustomError(
        "image_url",
        "Input should be data:image/png;base64,… (or of jpeg, gif, webp), or begin with https://",
    )


ImageDetail = Literal["auto", "low", "high", "original"]


class ImageUrl(Body):
    """An image, and how closely it is looked at."""

    url: Annotated[str, AfterValidator(_shown), Field(json_schema_extra={"pattern": SHOWN})]
    """`data:image/png;base64,…`, or of jpeg, gif and webp; `https://…` where the deployment lets
    the model's server fetch images."""
    detail: ImageDetail | None = None
    """As the server of the model reads it."""


class ImagePart(Kept):
    """An image in a message's content."""

    type: Literal["image_url"]
    image_url: ImageUrl


Part = Annotated[
    Annotated[TextPart, Tag("#text")]
    | Annotated[ImagePart, Tag("#image_url")]
    | Annotated[RefusalPart, Tag("#refusal")],
    Discriminator(
        lambda part: f"#{named_in(part)}",
        custom_error_type="not_supported",
        custom_error_message="Input should be of type text, image_url or refusal: the model reads "
        "text and images here",
    ),
]


def kind_of(content: object) -> str:
    return "#parts" if isinstance(content, list) else "#text"


OfPart = TypeVar("OfPart")
# By the class of parts.
TextOr = Annotated[
    Annotated[Text, Tag("#text")]
    | Annotated[list[OfPart], Field(max_length=1024, fail_fast=True), Tag("#parts")],
    Discriminator(kind_of),
]
Content = TextOr[Part]
_OBJECT = TypeAdapter(dict[str, JsonValue])


def _arguments(text: str) -> str:
    """The text, if it is a JSON object; an empty text stands for {}."""
    try:
        _OBJECT.validate_json(text or "{}")
    except ValidationError:
        message = "Input should be a JSON object, as a string, nested at most 200 deep"
        raise PydanticCustomError("no_arguments", message) from None
    return text or "{}"


# What a server of others wants back with an answer, or with a call.
Extra = Annotated[JsonValue, BeforeValidator(few_values), AfterValidator(encodable)]


class FunctionCalled(Kept):
    """A tool, and what it was called with."""

    name: ToolName
    arguments: Annotated[
        Text,
        AfterValidator(_arguments),
        Field(json_schema_extra={"contentMediaType": "application/json"}),
    ]
    """A JSON object, as a string."""


class ToolCalled(Kept):
    """A call of an earlier answer, sent back."""

    id: Annotated[Text, Field(max_length=256)]
    type: Literal["function"] = "function"
    function: FunctionCalled
    extra_content: Extra = None


# `_check_role` as JSON schemas: the role of a message, and its fields.
_SOME: JsonDict = {"type": ["string", "array"]}
_BY_ASSISTANT: JsonDict = {"const": "assistant"}
_OF_CONTENT = having(["content"], ["tool_calls", "tool_call_id", "refusal"], content=_SOME)
_OF_TOOL = having(["content"], ["tool_calls", "refusal"], role={"const": "tool"}, content=_SOME)
_OF_CALLS = having(
    ["tool_calls"],
    ["tool_call_id"],
    role=_BY_ASSISTANT,
    tool_calls={"type": "array", "minItems": 1},
)
_OF_REFUSAL = having(
    ["refusal"], ["tool_call_id"], role=_BY_ASSISTANT, refusal={"type": "string", "minLength": 1}
)


class ChatMessage(Kept):
    """One message of a chat."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [_OF_CONTENT, _OF_TOOL, _OF_CALLS, _OF_REFUSAL]}
    )

    usual = frozenset({"content"})

    role: Annotated[str, Field(min_length=1, max_length=32)]
    """`developer` is read as `system`."""
    content: Content | None = None
    """Text, or parts of text, which are joined, and of a user images; may be left out beside
    `tool_calls`."""
    name: Annotated[Text, Field(max_length=64)] | None = None
    """Of the tool, where its result is told, or of a speaker, for chat templates that show it."""
    reasoning: Text | None = None
    """Of an earlier answer, for chat templates that show it. A warning says where one does not."""
    reasoning_content: Text | None = None
    """The same by another name, which counts first."""
    thinking: Text | None = None
    """The same, which counts before `reasoning`."""
    refusal: Text | None = None
    """Of an earlier answer, in place of its content."""
    extra_content: Extra = None
    """Of an earlier answer, for the model's server, which sent it with the answer."""
    reasoning_details: Extra = None
    """Likewise, of OpenRouter's."""
    thinking_blocks: Extra = None
    """Likewise, of LiteLLM's."""
    audio: NoSound = None
    """Null: the model hears nothing."""
    function_call: NoFunctions = None
    """Null: it is `tool_calls`."""
    tool_call_id: Annotated[Text, Field(max_length=256)] | None = None
    """Whose result this is, with role `tool`."""
    tool_calls: Annotated[list[ToolCalled] | None, Field(max_length=128)] = None
    """That the model asked for, with role `assistant`."""

    @model_validator(mode="after")
    def _check_role(self) -> Self:
        is_answer, is_result = self.role == "assistant", self.tool_call_id is not None
        why = "is an assistant's: leave it out of messages of other roles"
        refuse_if(self.refusal and not is_answer, "refusal", why)
        if self.content is None and not (self.tool_calls or self.refusal):
            raise PydanticCustomError("missing", "Field required", {"field": "content"})
        why = "are an assistant's: leave them out of messages of other roles"
        refuse_if(self.tool_calls and not is_answer, "tool_calls", why)
        why = "is of a tool's result: leave it out of messages of other roles"
        refuse_if(is_result and self.role != "tool", "tool_call_id", why)
        why = "images are a user's: leave them out of messages of other roles"
        refuse_if(self.images and self.role != "user", "content", why)
        return self

    @property
    def images(self) -> list[ImagePart]:
        if self.content is None or isinstance(self.content, str):
            return []
        return [part for part in self.content if isinstance(part, ImagePart)]


class Templated(Body):
    """What goes to the chat template of the model, beside the messages."""

    chat_template_kwargs: TemplateVariables | None = None
    """Variables of the chat template, such as `enable_thinking`; one that it does not read is
    refused."""

    def chat_fields(
        self, messages: Sequence[ChatMessage], effort: ReasoningEffort | None
    ) -> dict[str, Any]:
        """The fields of an `Ask` about a chat: messages and variables, as its template gets them.

        A tool's result has the tool's name. Raises `InvalidRequest` where the effort comes twice.
        """
        variables = dict(self.chat_template_kwargs or {})
        if effort is not None:
            if EFFORT in variables:
                raise InvalidRequest("is among chat_template_kwargs, too", field=EFFORT)
            variables[EFFORT] = effort
        names: dict[str | None, str] = {}
        shown = []
        for message in messages:
            for call in message.tool_calls or ():
                names[call.id] = call.function.name
            plain = _message_of(message)
            if message.role == "tool" and message.tool_call_id in names:
                plain.setdefault("name", names[message.tool_call_id])
            shown.append(plain)
        return {"messages": tuple(shown), "chat_template_kwargs": variables}


def _message_of(message: ChatMessage) -> dict[str, Any]:
    role, content = message.role, message.content or message.refusal or ""
    if role == "developer":
        role = "system"
    plain: dict[str, Any] = {"role": role, "content": content}
    if not isinstance(content, str):
        plain["content"] = "".join(part.text for part in content if not isinstance(part, ImagePart))
    if message.images and not isinstance(content, str):
        plain[PARTS] = [part.model_dump(exclude_none=True) for part in content]
    shown = {"tool_calls", "tool_call_id", "name"}
    shown |= {"extra_content", "reasoning_details", "thinking_blocks"}
    plain |= message.model_dump(include=shown, exclude_none=True)
    thoughts = (message.reasoning_content, message.thinking, message.reasoning)
    if reasoning := next(filter(None, thoughts), ""):
        plain["reasoning_content"] = plain["reasoning"] = reasoning  # as templates call it
    return plain
