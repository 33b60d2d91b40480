"""Bodies of OpenAI's endpoints, and the `Ask` of each.

Fields that this service does not have may hold what asks for nothing (`neutral.py`); with any other
value they are refused by name.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    model_validator,
)
from pydantic_core import PydanticCustomError

from app.http.openai.neutral import (
    EmptyList,
    EmptyObject,
    Label,
    No,
    NoTool,
    One,
    Zero,
    only,
)
from app.http.requests.fields import (
    AnswerStrategy,
    Body,
    NewTokens,
    NullIsDefault,
    ReasoningBounds,
    ReasoningEffort,
    ScoresWanted,
    Seed,
    StopStrings,
    TemplateVariables,
    check_light,
    encodable,
    few_values,
    template_variables,
)
from app.scoring.ask import Ask
from models.errors import InvalidRequest
from models.records import DEFAULT_NEW_TOKENS, SamplingParams

_OTHER_NAMES = {
    "max_new_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "timeout": "uncertainty.timeout_s",
}


Text = Annotated[str, AfterValidator(encodable)]
SomeText = Annotated[str, Field(min_length=1), AfterValidator(encodable)]


class TextPart(NullIsDefault):
    """A part of a message's content."""

    type: Literal["text"]
    text: Text


def _kind(content: object) -> str:
    if isinstance(content, list):
        return "#parts"
    return "#text"


Parts = Annotated[list[TextPart], Field(min_length=1, max_length=1024, fail_fast=True)]
Content = Annotated[
    Annotated[Text, Tag("#text")] | Annotated[Parts, Tag("#parts")], Discriminator(_kind)
]
OnePrompt = Annotated[list[SomeText], Field(min_length=1, max_length=1)]
Prompt = Annotated[
    Annotated[SomeText, Tag("#text")] | Annotated[OnePrompt, Tag("#parts")], Discriminator(_kind)
]


class ChatMessage(NullIsDefault):
    """One message of a chat."""

    role: Annotated[str, Field(min_length=1, max_length=32)]
    """`developer` is read as `system`."""
    content: Content
    """Text, or parts of text, which are joined."""
    name: None = None
    reasoning: str | None = None
    """Accepted and left out: chat templates show a model no reasoning of earlier turns."""
    reasoning_content: str | None = None
    """As `reasoning`."""
    refusal: None = None
    audio: None = None
    function_call: None = None
    tool_call_id: None = None
    tool_calls: EmptyList = None
    annotations: EmptyList = None


class StreamOptions(NullIsDefault):
    """What a stream holds."""

    include_usage: bool = False
    """A last chunk without choices that has the usage."""
    include_obfuscation: No = False


class TextFormat(Body):
    """The only format there is."""

    type: Literal["text"]


class UncertaintyWanted(ScoresWanted, ReasoningBounds):
    """What this service knows beyond OpenAI's fields."""

    mode: Literal["full", "light"] | None = None
    """`light` draws no samples, and takes no field of theirs. Default: what the model's name says,
    or `full`."""
    strategy: AnswerStrategy | None = None
    """Which answer is scored. Default: `sample` with a temperature above 0, else `greedy`."""


class _OpenAIRequest(NullIsDefault):
    """What both endpoints take."""

    other_names: ClassVar[Mapping[str, str]] = _OTHER_NAMES

    model: Annotated[str, Field(min_length=1, max_length=256)]
    """One that GET /v1/models lists; `:light` behind it asks for light mode."""
    max_tokens: Annotated[
        NewTokens | None,
        Field(description=f"Default: {DEFAULT_NEW_TOKENS}, or as many of them as fit the context."),
    ] = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    """Above 0 the answer is a drawn sample, and scored as such; at 0 and by default it is the
    greedy one."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    stop: StopStrings = []  # noqa: RUF012 - pydantic copies it for each body
    """One or several strings that end a text; they are not part of it."""
    seed: Seed | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    uncertainty: UncertaintyWanted = UncertaintyWanted()
    """Which scores, of how many samples; the fields of the other endpoints."""

    n: One = 1
    frequency_penalty: Zero = 0
    presence_penalty: Zero = 0
    logit_bias: EmptyObject = None
    user: Label | None = None

    @classmethod
    def nearest(cls, name: str) -> str | None:
        if name in UncertaintyWanted.model_fields:
            return f"uncertainty.{name}"
        if own := super().nearest(name):
            return own
        if nested := UncertaintyWanted.nearest(name):
            return f"uncertainty.{nested}"
        return None

    @model_validator(mode="after")
    def _check_both(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise PydanticCustomError(
                "one_of", "is heeded with stream only", {"field": "stream_options"}
            )
        if self.temperature and "temperature" in self.uncertainty.model_fields_set:
            raise PydanticCustomError(
                "one_of",
                "is the samples' where the answer is greedy; here it is that of the request",
                {"field": "uncertainty.temperature"},
            )
        return self

    @property
    def wants_usage(self) -> bool:
        """Whether a stream is to end with its usage."""
        return self.stream_options is not None and self.stream_options.include_usage


class ChatRequest(_OpenAIRequest):
    """A chat, as OpenAI's clients send it."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1024, fail_fast=True)]
    max_completion_tokens: NewTokens | None = None
    """`max_tokens` by its later name."""
    chat_template_kwargs: TemplateVariables | None = None
    """Variables of the chat template, such as `enable_thinking`; one that it does not read is
    refused."""
    reasoning_effort: ReasoningEffort | None = None
    """How long the model may reason: the chat template's variable of that name."""
    logprobs: bool = False
    """Log-probs of the answer's tokens."""
    top_logprobs: Zero = None

    audio: None = None
    function_call: NoTool = None
    functions: EmptyList = None
    metadata: Annotated[
        dict[str, JsonValue] | None, Field(max_length=16), BeforeValidator(few_values)
    ] = None
    """Accepted and ignored."""
    modalities: Annotated[list[Literal["text"]] | None, Field(max_length=1)] = None
    parallel_tool_calls: bool | None = None
    prediction: None = None
    prompt_cache_key: Label | None = None
    response_format: TextFormat | None = None
    safety_identifier: Label | None = None
    service_tier: Annotated[Any, only("auto", "default")] = None
    store: No = False
    tool_choice: NoTool = None
    tools: EmptyList = None
    verbosity: Annotated[Any, only("medium")] = None
    web_search_options: None = None

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
        """Whether log-probs of the answer's tokens are wanted."""
        return self.logprobs


class CompletionRequest(_OpenAIRequest):
    """Raw text to be continued, as OpenAI's clients send it."""

    prompt: Prompt
    """One text, or a list of one."""
    logprobs: Zero = None
    """0 for the log-probs of the answer's tokens."""

    best_of: One = 1
    echo: No = False
    suffix: Annotated[Any, only("")] = None

    @property
    def wants_logprobs(self) -> bool:
        """Whether log-probs of the answer's tokens are wanted; 0 asks for them, too."""
        return self.logprobs is not None


def ask_of(body: ChatRequest | CompletionRequest, *, light: bool) -> Ask:
    """What the core is asked by a chat or a text.

    Args:
        body: of the request.
        light: whether the model's name asks for light mode.

    Raises:
        InvalidRequest: name, mode and temperature contradict each other, or a light request says
            something of samples.
    """
    wanted, temperature = body.uncertainty, body.uncertainty.temperature
    if light and wanted.mode == "full":
        raise InvalidRequest("is light by the model's name", field="mode")
    light = light or wanted.mode == "light"
    if light:
        check_light(wanted, "uncertainty.")
    strategy = wanted.strategy or "greedy"
    if body.temperature:  # the answer is drawn as samples are
        if light:
            message = "must be 0 or left out in light mode, whose probe reads the greedy answer"
            raise InvalidRequest(message, field="temperature")
        temperature, strategy = body.temperature, wanted.strategy or "sample"
    own: dict[str, Any] = {}
    if isinstance(body, ChatRequest):
        own["messages"] = tuple(map(_message_of, body.messages))
        variables = template_variables(body.chat_template_kwargs, body.reasoning_effort)
        own["chat_template_kwargs"] = variables
    else:
        own["prompt"] = "".join(body.prompt)  # a list holds one
    if wanted.estimators is not None:
        own["estimators"] = tuple(wanted.estimators)
    if wanted.json_schema is not None:
        own["json_schema"] = wanted.json_schema
    num_samples, stop_mass = wanted.sample_bounds
    return Ask(
        sampling=SamplingParams(
            num_samples=num_samples,
            max_new_tokens=body.max_tokens,
            temperature=temperature,
            top_k=wanted.top_k,
            top_p=body.top_p,
            stop=tuple(body.stop),
            seed=body.seed,
            stop_mass=stop_mass,
            max_reasoning_tokens=wanted.max_reasoning_tokens,
            max_sample_reasoning_tokens=wanted.max_sample_reasoning_tokens,
        ),
        strategy=strategy,
        light=light,
        primary=wanted.estimator,
        similarity=wanted.similarity,
        return_samples=wanted.return_samples,
        return_tokens=body.wants_logprobs,
        explain=wanted.explain,
        units=wanted.units,
        cache=wanted.cache,
        timeout_s=wanted.timeout_s,
        target_error=wanted.target_error,
        on_reject=wanted.on_reject,
        calibration=wanted.calibration,
        **own,
    )


def _message_of(message: ChatMessage) -> dict[str, str]:
    """The message as the model's template gets it."""
    role, content = message.role, message.content
    if role == "developer":
        role = "system"
    if not isinstance(content, str):
        content = "".join(part.text for part in content)
    return {"role": role, "content": content}
