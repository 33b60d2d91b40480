"""Bodies of OpenAI's endpoints, and the `Ask` of each.

Fields that this service does not have may hold what asks for nothing; with any other
value they are refused by name.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, PlainValidator, Tag, model_validator
from pydantic_core import PydanticCustomError

from app.http.requests.body import Body, refuse_if
from app.http.requests.documents import DocumentsWanted
from app.http.requests.messages import ChatMessage, Templated
from app.http.requests.scores import AnswerWanted, ScoresWanted
from app.http.requests.tools import ToolsWanted
from app.http.requests.values import (
    CountOrNone,
    NewTokens,
    NoFunctions,
    NoSound,
    Platform,
    ReasoningEffort,
    SampleNumber,
    StopStrings,
    Text,
    Whole,
    empty,
)
from app.scoring.ask import Ask
from app.scoring.check import MIN_SAMPLING_TEMPERATURE
from app.spelling import closest, did_you_mean
from models.errors import InvalidRequest, UnknownModel
from models.records import DEFAULT_NEW_TOKENS, MAX_TOPS, GivenAnswer, SamplingParams
from models.statistics import SENTENCES_READ, supplied_by
from models.warnings import Warned
from workers.protocol import GeneratorInfo

_OTHER_NAMES = dict.fromkeys(("max_new_tokens", "max_output_tokens"), "max_tokens")
_OTHER_NAMES |= {"timeout": "uncertainty.timeout_s"}


def only(*values: Any, why: str = "is not supported here") -> PlainValidator:
    """A validator that takes these values alone; its error proposes the first of them."""

    def check(value: Any) -> Any:
        for allowed in values:
            # True equals 1 in Python.
            if allowed == value and isinstance(allowed, bool) == isinstance(value, bool):
                return value
        message = "{why}: leave it out, or send {neutral}"
        about = {"why": why, "neutral": repr(values[0]).lower()}
        raise PydanticCustomError("not_supported", message, about)

    return PlainValidator(check, json_schema_input_type=Literal[values])


No = Annotated[Any, only(False)]
FixedVerbosity = Annotated[Any, only("medium", why="the model is told nothing of it")]
_DEFAULT = f"Lowered to what fits the context. Default: {DEFAULT_NEW_TOKENS}."
# Refusal of parameters that change the distribution of answers: scores are of the model's.
_ANOTHER_LAW = "would draw by another law than the one whose log-probs are scored"
_Ignored = Annotated[str, Field(max_length=512, description="Accepted and ignored.")]
_BEST_OF = "is uncertainty.strategy most_probable_normalized among uncertainty.num_samples"
_OF_CACHES = ("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention")
_NoPenalty = Annotated[Any, only(0, why=_ANOTHER_LAW)]

MAX_PROMPTS = 128
_Several = Field(min_length=1, max_length=MAX_PROMPTS, fail_fast=True)
SomeText = Annotated[Text, Field(min_length=1)]
TokenIds = Annotated[
    list[Annotated[int, Field(ge=0), Whole]],
    Field(min_length=1, fail_fast=True),
    AfterValidator(tuple),
]
_KINDS: Mapping[type, str] = {str: "#texts", list: "#several"}


def _kind_of_prompt(prompt: object) -> str:
    if not isinstance(prompt, list):
        return "#text"
    return _KINDS.get(type(next(iter(prompt), "")), "#ids")


Prompt = Annotated[
    Annotated[SomeText, Tag("#text")]
    | Annotated[list[SomeText], _Several, Tag("#texts")]
    | Annotated[TokenIds, Tag("#ids")]
    | Annotated[list[TokenIds], _Several, Tag("#several")],
    Discriminator(_kind_of_prompt),
]


class StreamOptions(Body):
    """What a stream holds; without one it asks for nothing."""

    ignored = Body.EMPTY

    include_usage: bool = False
    """A last chunk without choices that has the usage."""
    continuous_usage_stats: bool = False
    """With `include_usage`: the usage so far in every chunk; its `prompt_tokens` are null until the
    last one."""
    include_obfuscation: No = False


class UncertaintyWanted(ScoresWanted, AnswerWanted):
    """What this service knows beyond OpenAI's fields."""

    mode: Literal["full", "light"] | None = None
    """`light` draws no samples, and takes no field of theirs. Default: what the model's name says,
    or `full`."""


class SharedRequest(Body):
    """What all bodies take."""

    ignored = Body.EMPTY
    left_out = frozenset({"cache_salt", "client_metadata", "safety_identifier", *_OF_CACHES})
    other_names: ClassVar[Mapping[str, str]] = _OTHER_NAMES
    default_tokens: ClassVar[int | None] = None  # in place of `DEFAULT_NEW_TOKENS`

    model: Annotated[str, Field(min_length=1, max_length=256)]
    """One that GET /v1/models lists; `:light` behind it asks for light mode."""
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    """From 0.05 on the answer is drawn at it, below and by default greedy. Samples have it, too,
    with `n` above 1, where 1 is the default, or with `uncertainty.strategy`."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: CountOrNone = None
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    uncertainty: UncertaintyWanted = UncertaintyWanted()
    """Which scores, of how many samples; the fields of the other endpoints."""
    user: _Ignored | None = None
    ignore_eos: bool = False
    """Left out, with a warning: a text ends where the model ends it."""
    frequency_penalty: _NoPenalty = 0
    presence_penalty: _NoPenalty = 0
    repetition_penalty: Annotated[Any, only(1, why=_ANOTHER_LAW)] = 1
    min_p: _NoPenalty = 0
    top_k: Annotated[Any, only(-1, 0, why="is that of samples: uncertainty.top_k")] = -1
    logit_bias: Annotated[Any, empty(dict, _ANOTHER_LAW)] = None

    @classmethod
    def nearest(cls, name: str) -> str | None:
        if name in UncertaintyWanted.model_fields:
            return f"uncertainty.{name}"
        if near := super().nearest(name):
            return near
        if nested := UncertaintyWanted.nearest(name):
            return f"uncertainty.{nested}"
        return None


class ChatUncertainty(UncertaintyWanted):
    """The same of a chat."""

    documents: Literal["tools"] | None = None
    """As `documents` beside the messages, for clients that put what is not OpenAI's in here."""


class ChatFields(SharedRequest, Templated, DocumentsWanted):
    """What chats and responses take. The chat template writes their special tokens."""

    nothing: ClassVar[Mapping[str, Any]] = {**Body.nothing, "add_special_tokens": False}
    uncertainty: ChatUncertainty = ChatUncertainty()
    """Which scores, of how many samples; the fields of the other endpoints."""
    metadata: Platform | None = None
    moderation: Annotated[Any, empty(why="nothing is moderated here")] = None
    service_tier: Annotated[Any, only("auto", "default", why="there is one tier here")] = None
    store: Annotated[Any, only(False, why="nothing is stored here")] = False

    @model_validator(mode="after")
    def _check_documents(self) -> Self:
        if self.uncertainty.documents is not None:
            why = "must be left out where documents stand beside the messages"
            refuse_if(self.documents not in ([], "tools"), "uncertainty.documents", why)
            self.documents = self.uncertainty.documents
        is_alone = self.documents_in == "prompt" and "documents" not in self.model_fields_set
        refuse_if(is_alone, "documents_in", "needs documents")
        return self


class _OpenAIRequest(SharedRequest):
    """What chats and texts take."""

    max_tokens: Annotated[NewTokens, Field(description=_DEFAULT)] = None
    stop: StopStrings = []  # noqa: RUF012 - pydantic copies it for each body
    """One or several strings that end a text; they are not part of it."""
    n: SampleNumber = 1
    """Choices: the scored answer first, then samples. Above 1 not with a `temperature` below
    0.05."""

    @model_validator(mode="after")
    def _check_drawn(self) -> Self:
        is_twofold = "temperature" in self.uncertainty.model_fields_set
        why = "is that of the request where samples may be answers: leave it out"
        refuse_if(self.samples_at and is_twofold, "uncertainty.temperature", why)
        if self.n > 1:
            self._check_several()
        return self

    def _check_several(self) -> None:
        """Refuse several choices where all would be equal, or where a field is about one alone."""
        wanted = self.uncertainty
        why = f"needs a temperature of {MIN_SAMPLING_TEMPERATURE} or more: all would be one"
        refuse_if(not self.drawn_at, "n", why)
        why = "must not be greedy with n above 1: the greedy answer is one text"
        refuse_if(wanted.strategy == "greedy", "uncertainty.strategy", why)
        is_few = wanted.num_samples < self.n - (wanted.strategy is None)
        is_few &= "num_samples" in wanted.model_fields_set
        refuse_if(is_few, "uncertainty.num_samples", "is too few: further choices are samples")
        for name, value in (("on_reject", "answer"), ("on_unit_reject", "keep")):
            why = f"must be {value} with n above 1: the decision is about the first choice alone"
            refuse_if(getattr(wanted, name) != value, f"uncertainty.{name}", why)

    @property
    def drawn_at(self) -> float:
        """The temperature at which the answer is drawn; 0 for the greedy answer."""
        if self.temperature is None:
            return float(self.n > 1)
        return self.temperature * (self.temperature >= MIN_SAMPLING_TEMPERATURE)

    @property
    def samples_at(self) -> float:
        """The same of samples, where any of these may be an answer; else 0."""
        return self.drawn_at * (self.n > 1 or self.uncertainty.strategy is not None)


class ChatRequest(ToolsWanted, ChatFields, _OpenAIRequest):
    """A chat, as OpenAI's clients send it."""

    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=1024, fail_fast=True)]
    max_completion_tokens: NewTokens = None
    """`max_tokens` by its later name."""
    reasoning_effort: ReasoningEffort | None = None
    """How long the model may reason: the chat template's variable of that name."""
    logprobs: bool = False
    """Log-probs of the answer's tokens."""
    top_logprobs: Annotated[int, Field(ge=0, le=MAX_TOPS), Whole] = 0
    """With `logprobs`: so many of the likeliest tokens in the place of each of the answer's."""

    audio: NoSound = None
    function_call: Annotated[Any, only("none", "auto", why="is called tool_choice")] = None
    functions: NoFunctions = None
    modalities: Annotated[list[Literal["text"]] | None, Field(max_length=1)] = None
    prediction: Annotated[Any, empty(why="an expected answer speeds up nothing here")] = None
    verbosity: FixedVerbosity = None
    web_search_options: Annotated[Any, empty(why="the model searches nothing here")] = None

    @property
    def params(self) -> Mapping[str, str]:
        return {"num_tops": "top_logprobs", "grammar": self.held_by}

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        refuse_if(self.top_logprobs and not self.logprobs, "top_logprobs", "needs logprobs")
        if self.max_completion_tokens is None:
            return self
        is_another = self.max_tokens not in (None, self.max_completion_tokens)
        refuse_if(is_another, "max_tokens", "differs from max_completion_tokens")
        self.max_tokens = self.max_completion_tokens
        return self

    @property
    def wants_logprobs(self) -> bool:
        return self.logprobs

    @property
    def num_tops(self) -> int:
        return self.top_logprobs


class CompletionRequest(_OpenAIRequest):
    """Raw text to be continued, as OpenAI's clients send it."""

    params: ClassVar[Mapping[str, str]] = {"num_tops": "logprobs"}

    prompt: Prompt
    """A text, or the ids of its tokens, which are taken as they are; or a list of texts, or of
    lists of ids. Each has choices of its own, behind those of the prompts before it."""
    logprobs: Annotated[int, Field(ge=0, le=5), Whole] | None = None
    """0 for the log-probs of the answer's tokens; above it so many of the likeliest ones in the
    place of each, too."""

    max_tokens: Annotated[
        CountOrNone, Field(description=f"0 to write nothing behind an `echo`. {_DEFAULT}")
    ] = None
    echo: bool = False
    """The prompt comes before each text, and with `logprobs` its tokens do, the first of them
    without any. No samples are drawn, unless `uncertainty` asks for them."""
    best_of: Annotated[Any, only(1, why=_BEST_OF)] = 1
    suffix: Annotated[Any, only("")] = None

    @model_validator(mode="after")
    def _check_echo(self) -> Self:
        why = "takes one prompt, and no echo"
        refuse_if(self.stream and (len(self.prompts) > 1 or self.echo), "stream", why)
        if self.max_tokens == 0:
            refuse_if(not self.echo, "max_tokens", "may be 0 with echo only")
            refuse_if(self.n > 1, "n", "must be 1 where nothing is written")
            named = self.uncertainty.model_fields_set - {"timeout_s", "cache"}
            why = "may have timeout_s and cache alone where nothing is written"
            refuse_if(named, "uncertainty", why)
        return self

    @property
    def prompts(self) -> dict[str, Any]:
        """Each prompt, a text or a tuple of ids, by its place in the body."""
        if not isinstance(self.prompt, list):
            return {"prompt": self.prompt}
        places = map("prompt.{}".format, range(len(self.prompt)))
        return dict(zip(places, self.prompt, strict=True))

    @property
    def wants_logprobs(self) -> bool:
        return self.logprobs is not None

    @property
    def num_tops(self) -> int:
        return self.logprobs or 0

    def echo_fields(self, strategy: str) -> dict[str, Any]:
        """The fields of an `Ask` about an echo: unless samples are asked for, none are drawn."""
        fields: dict[str, Any] = {"echo": self.echo}
        if self.max_tokens == 0:  # the answer is there already
            fields["answer"] = GivenAnswer("", append_eos=False)
        fields["of_tokens"] = self.echo and self.uncertainty.is_of_tokens(strategy)
        return fields


class Tokenize(Body):
    """A text whose tokens are asked for."""

    model: _Ignored | None = None
    prompt: Text
    add_special_tokens: bool = True
    """Whether those that belong around a text are among them."""


def ask_of(body: ChatRequest | CompletionRequest, *, light: bool) -> Ask:
    """The `Ask` of a chat, or that of a text without its prompt.

    Raises:
        InvalidRequest: name, mode and temperature contradict each other, or light and samples.
    """
    wanted, fields = body.uncertainty, body.uncertainty.ask_fields()
    light = light or wanted.mode == "light"
    if light:
        _check_light(body)
    strategy = wanted.strategy or "greedy"
    if isinstance(body, ChatRequest):
        fields |= body.chat_fields(body.messages, body.reasoning_effort)
        if body.tools or body.response_format is not None:
            of_tokens = not light and wanted.is_of_tokens(strategy)
            fields |= body.held_fields(wanted, of_tokens=of_tokens)
        if body.documents:
            fields |= body.document_fields(fields, of_tokens=wanted.reads_no_samples(strategy))
    else:
        fields |= body.echo_fields(strategy)
    if body.ignore_eos:
        fields["unheeded"] = (Warned.IGNORE_EOS_LEFT_OUT,)
    least, of_tokens = max(1, body.n - (wanted.strategy is None)), fields.get("of_tokens", False)
    sampling = wanted.sampling_fields(least, of_tokens=of_tokens)
    if body.samples_at:
        sampling["temperature"] = body.samples_at
    if wanted.strategy is None:
        sampling["answer_temperature"] = body.drawn_at
    return Ask(
        sampling=SamplingParams(
            max_new_tokens=body.max_tokens or body.default_tokens,
            clamps=True,
            clamps_quietly=not body.max_tokens and body.default_tokens is not None,
            top_p=body.top_p,
            stop=tuple(body.stop),
            seed=body.seed,
            **sampling,
        ),
        strategy=strategy,
        light=light,
        return_tokens=body.wants_logprobs,
        num_tops=body.num_tops,
        num_shown=body.n,
        **fields,
    )


def _check_light(body: ChatRequest | CompletionRequest) -> None:
    """Refuse what a light request must not say."""
    if body.uncertainty.mode == "full":
        raise InvalidRequest("is light by the model's name", field="mode")
    body.uncertainty.check_light("uncertainty.")
    if body.drawn_at:
        message = "must be 0 or left out in light mode, whose probe reads the greedy answer"
        raise InvalidRequest(message, field="answer_temperature")


# A name that works at every deployment.
ALIAS = "cocoa"
_LIGHT = ":light"


def served_names(generator: GeneratorInfo) -> list[str]:
    """Names that requests may give, with those of light mode where a probe serves it."""
    names = [generator.model_id, ALIAS]
    if generator.statistics & (supplied_by("probe") - {SENTENCES_READ}):
        names += [generator.model_id + _LIGHT, ALIAS + _LIGHT]
    return names


def is_light(name: str, generator: GeneratorInfo) -> bool:
    """True where the name of a model that is served here is that of light mode."""
    names = (generator.model_id, ALIAS)
    if name in names:
        return False
    if name.endswith(_LIGHT) and name.removesuffix(_LIGHT) in names:
        return True
    raise unknown_model(name, generator)


def unknown_model(name: str, generator: GeneratorInfo) -> UnknownModel:
    meant = did_you_mean(closest(name, served_names(generator))) or ";"
    return UnknownModel(
        f"this model is not served here{meant} GET /v1/models lists all", field="model"
    )
