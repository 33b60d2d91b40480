"""Bodies of OpenAI's endpoints: what is heeded, what means nothing here, and the ask of it all.

Fields that this service does not have may hold the value that asks for nothing, which clients send
unasked; with any other value they are refused by name.
"""

from dataclasses import replace
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    PlainValidator,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from app.http.requests.fields import (
    Body,
    NullIsDefault,
    StopString,
    StopStrings,
    as_list,
    encodable,
    few_values,
)
from app.http.requests.scoring import AnswerStrategy, ScoresWanted
from app.scoring.ask import Ask
from models.errors import InvalidRequest
from models.records import DEFAULT_NEW_TOKENS

_ELSEWHERE = {
    "max_new_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "timeout": "uncertainty.timeout_s",
}


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
Label = Annotated[str, Field(max_length=512, description="Heeded by nobody here.")]


class TextPart(NullIsDefault):
    """A part of a message's content."""

    type: Literal["text"]
    text: Annotated[str, AfterValidator(encodable)]


def _kind(content: object) -> str:
    return "#parts" if isinstance(content, list) else "#text"


Parts = Annotated[list[TextPart], Field(min_length=1, max_length=1024, fail_fast=True)]
Content = Annotated[
    Annotated[Annotated[str, AfterValidator(encodable)], Tag("#text")]
    | Annotated[Parts, Tag("#parts")],
    Discriminator(_kind),
]
OnePrompt = Annotated[
    list[Annotated[str, Field(min_length=1), AfterValidator(encodable)]],
    Field(min_length=1, max_length=1),
]
Prompt = Annotated[
    Annotated[Annotated[str, Field(min_length=1), AfterValidator(encodable)], Tag("#text")]
    | Annotated[OnePrompt, Tag("#parts")],
    Discriminator(_kind),
]


class ChatMessage(NullIsDefault):
    """One message of a chat."""

    role: Annotated[
        str, Field(min_length=1, max_length=32, description="`developer` is read as `system`.")
    ]
    content: Annotated[Content, Field(description="Text, or parts of text, which are joined.")]
    name: None = None
    refusal: None = None
    audio: None = None
    function_call: None = None
    tool_call_id: None = None
    tool_calls: EmptyList = None
    annotations: EmptyList = None

    @property
    def as_ask(self) -> dict[str, str]:
        """The message as the model's template gets it."""
        content = self.content
        text = content if isinstance(content, str) else "".join(part.text for part in content)
        return {"role": "system" if self.role == "developer" else self.role, "content": text}


class StreamOptions(NullIsDefault):
    """How a stream is told."""

    include_usage: Annotated[
        bool, Field(description="A last chunk without choices that has the usage.")
    ] = False
    include_obfuscation: No = False


class TextFormat(Body):
    """The only format there is."""

    type: Literal["text"]


class UncertaintyWanted(ScoresWanted):
    """What this service knows beyond OpenAI's fields."""

    mode: Annotated[
        Literal["full", "light"] | None,
        Field(
            description="`light` draws no samples. Default: what the model's name says, or `full`."
        ),
    ] = None
    strategy: Annotated[
        AnswerStrategy | None,
        Field(
            description="Which answer is scored. Default: `sample` with a temperature above 0, "
            "else `greedy`."
        ),
    ] = None


class _OpenAIRequest(NullIsDefault):
    """What both endpoints heed."""

    model: Annotated[
        str,
        Field(
            min_length=1,
            max_length=256,
            description="One that GET /v1/models lists; `:light` behind it asks for light mode.",
        ),
    ]
    max_tokens: Annotated[
        int | None,
        Field(
            ge=1,
            le=8192,
            description=f"Default: {DEFAULT_NEW_TOKENS}, or as many of them as fit the context.",
        ),
    ] = None
    temperature: Annotated[
        float | None,
        Field(
            ge=0,
            le=2,
            description="Above 0 the answer is a drawn sample, and scored as such; at 0 and by "
            "default it is the greedy one.",
        ),
    ] = None
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    stop: Annotated[
        StopStrings,
        BeforeValidator(as_list, json_schema_input_type=StopString | StopStrings),
        Field(description="One or several strings that end a text; they are not part of it."),
    ] = []  # noqa: RUF012 - pydantic copies it for each body
    seed: Annotated[int | None, Field(ge=0, lt=2**63)] = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    uncertainty: Annotated[
        UncertaintyWanted,
        Field(description="Which scores, of how many samples; the fields of the other endpoints."),
    ] = UncertaintyWanted()

    n: One = 1
    frequency_penalty: Zero = 0
    presence_penalty: Zero = 0
    logit_bias: EmptyObject = None
    user: Label | None = None

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, body: Any) -> Any:
        given = body if isinstance(body, dict) else {}
        name = next((name for name in given if name not in cls.model_fields), None)
        if name is not None:
            message = "Extra inputs are not permitted"
            if meant := cls._nearest(name):
                message = f"{message}; did you mean {meant}?"
            raise PydanticCustomError("unknown_field", message, {"field": name[:64]})
        return body

    @classmethod
    def _nearest(cls, name: str) -> str | None:
        if name in UncertaintyWanted.model_fields:
            return f"uncertainty.{name}"
        close = get_close_matches(name, cls.model_fields, n=1, cutoff=0.75)
        return _ELSEWHERE.get(name) or (close[0] if close else None)

    @model_validator(mode="after")
    def _options_of_streams_only(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise PydanticCustomError(
                "one_of", "is heeded with stream only", {"field": "stream_options"}
            )
        return self

    @model_validator(mode="after")
    def _one_temperature(self) -> Self:
        if self._is_drawn and "temperature" in self.uncertainty.model_fields_set:
            raise PydanticCustomError(
                "one_of",
                "is the samples' where the answer is greedy; here it is that of the request",
                {"field": "uncertainty.temperature"},
            )
        return self

    @property
    def _is_drawn(self) -> bool:
        return self.temperature is not None and self.temperature > 0

    @property
    def wants_usage(self) -> bool:
        """Whether a stream is to end with its usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def wants_logprobs(self) -> bool:
        """Whether log-probs of the answer's tokens are wanted."""
        return False

    def to_ask(self, *, light: bool) -> Ask:
        """What every such request asks.

        Args:
            light: whether the model's name asks for light mode.

        Raises:
            InvalidRequest: name, mode and temperature contradict each other.
        """
        wanted = self.uncertainty
        if light and wanted.mode == "full":
            raise InvalidRequest("is light by the model's name", field="mode")
        light = light or wanted.mode == "light"
        if light and self._is_drawn:
            message = "must be 0 or left out in light mode, whose probe reads the greedy answer"
            raise InvalidRequest(message, field="temperature")
        ask = wanted.to_ask()
        sampling = replace(
            ask.sampling, max_new_tokens=self.max_tokens, top_p=self.top_p, seed=self.seed
        )
        if self._is_drawn and self.temperature is not None:
            sampling = replace(sampling, temperature=self.temperature)
        return replace(
            ask,
            sampling=replace(sampling, stop=tuple(self.stop)),
            strategy=wanted.strategy or ("sample" if self._is_drawn else "greedy"),
            light=light,
            return_tokens=self.wants_logprobs,
        )


class ChatRequest(_OpenAIRequest):
    """A chat, as OpenAI's clients send it."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1024, fail_fast=True)]
    max_completion_tokens: Annotated[
        int | None, Field(ge=1, le=8192, description="`max_tokens` by its later name.")
    ] = None
    chat_template_kwargs: Annotated[
        dict[str, JsonValue] | None,
        Field(max_length=32, description="Variables of the chat template."),
        BeforeValidator(few_values),
        AfterValidator(encodable),
    ] = None
    logprobs: Annotated[bool, Field(description="Log-probs of the answer's tokens.")] = False
    top_logprobs: Zero = None

    audio: None = None
    function_call: NoTool = None
    functions: EmptyList = None
    metadata: Annotated[
        dict[str, JsonValue] | None,
        Field(max_length=16, description="Heeded by nobody here."),
        BeforeValidator(few_values),
    ] = None
    modalities: Annotated[list[Literal["text"]] | None, Field(max_length=1)] = None
    parallel_tool_calls: bool | None = None
    prediction: None = None
    prompt_cache_key: Label | None = None
    reasoning_effort: Annotated[Any, only("none")] = None
    response_format: TextFormat | None = None
    safety_identifier: Label | None = None
    service_tier: Annotated[Any, only("auto", "default")] = None
    store: No = False
    tool_choice: NoTool = None
    tools: EmptyList = None
    verbosity: Annotated[Any, only("medium")] = None
    web_search_options: None = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "cocoa",
                    "messages": [{"role": "user", "content": "What is the capital of France?"}],
                    "max_completion_tokens": 24,
                    "seed": 1,
                    "uncertainty": {"num_samples": 4},
                }
            ]
        }
    )

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        if self.max_completion_tokens is None:
            return self
        if self.max_tokens is not None and self.max_tokens != self.max_completion_tokens:
            raise PydanticCustomError(
                "one_of", "differs from max_completion_tokens", {"field": "max_tokens"}
            )
        self.max_tokens = self.max_completion_tokens
        return self

    @property
    def wants_logprobs(self) -> bool:
        """See `_OpenAIRequest`."""
        return self.logprobs

    def to_ask(self, *, light: bool) -> Ask:
        """A chat to be answered."""
        return replace(
            super().to_ask(light=light),
            messages=tuple(message.as_ask for message in self.messages),
            chat_template_kwargs=self.chat_template_kwargs or {},
        )


class CompletionRequest(_OpenAIRequest):
    """Raw text to be continued, as OpenAI's clients send it."""

    prompt: Annotated[Prompt, Field(description="One text, or a list of one.")]
    logprobs: Annotated[Zero, Field(description="0 for the log-probs of the answer's tokens.")] = (
        None
    )

    best_of: One = 1
    echo: No = False
    suffix: Annotated[Any, only("")] = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "cocoa",
                    "prompt": "What is the capital of France?",
                    "max_tokens": 24,
                    "seed": 1,
                    "uncertainty": {"num_samples": 4},
                }
            ]
        }
    )

    @property
    def wants_logprobs(self) -> bool:
        """See `_OpenAIRequest`."""
        return self.logprobs is not None

    def to_ask(self, *, light: bool) -> Ask:
        """A text to be continued."""
        prompt = self.prompt if isinstance(self.prompt, str) else self.prompt[0]
        return replace(super().to_ask(light=light), prompt=prompt)
