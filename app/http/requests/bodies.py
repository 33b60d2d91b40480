"""Bodies of `POST /generate-with-uncertainty` and `POST /score`, and the `Ask` of each."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, LiteralString, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from app.http.requests.body import Body, having, refuse_if
from app.http.requests.documents import DocumentsWanted
from app.http.requests.messages import ChatMessage, Templated
from app.http.requests.scores import AnswerWanted, ScoresWanted
from app.http.requests.tools import ToolsWanted
from app.http.requests.values import (
    CountOrNone,
    NewTokens,
    ReasoningEffort,
    StopStrings,
    Text,
    TokenLogprobs,
)
from app.scoring.ask import Ask, GivenClaim, GivenSample, Units
from models.records import DEFAULT_NEW_TOKENS, GivenAnswer, SamplingParams

Quote = Annotated[Text, Field(min_length=1)]
# Names that other APIs have for these fields.
_OTHER_NAMES = {
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
    "max_output_tokens": "max_new_tokens",
    "n": "num_samples",
    "input": "prompt",
    "text": "prompt",
    "question": "prompt",
    "timeout": "timeout_s",
}

# How samples are drawn, which nothing reads of samples that are given.
_OF_DRAWN = ("num_samples", "max_new_tokens", "temperature", "top_k", "top_p", "seed", "stop")
# What may stand beside documents that an answer is held to without a model.
_OF_RULES = {"answer", "append_eos", "documents", "documents_in", "units", "claims", "timeout_s"}
_OF_RULES |= {"prompt", "messages", "chat_template_kwargs", "reasoning_effort", "cache"}
_OF_RULES |= {"estimators", "estimator"}
_BY_RULES = {"ungrounded", None}  # what these may name
# Beside a named one: what is decided on it.
_OF_DECISIONS = {"target_error", "on_unit_reject", "hand_over_below", "calibration"}
# `_check_input` as JSON schemas: one input, and what its template reads with messages only.
_OF_CHAT = ["messages", "chat_template_kwargs", "reasoning_effort"]
_NO_RESULTS: JsonDict = {"type": ["array", "null"]}  # nor documents that tools have given
_OF_PROMPT = having(["prompt"], _OF_CHAT, prompt="string", documents=_NO_RESULTS)
# Raw text shows a model no tools.
_OF_PROMPT_ALONE = having(
    ["prompt"], _OF_CHAT, prompt="string", documents=_NO_RESULTS, tools={"maxItems": 0}
)
_OF_MESSAGES = having(["messages"], ["prompt"], messages="array")
_OF_SAMPLES = having(["samples"], ["prompt", *_OF_CHAT], samples="array", documents=_NO_RESULTS)
_OF_DOCUMENTS = having(["documents"], ["prompt", *_OF_CHAT], documents="array")
_LOGPROBS = "answer_token_logprobs"
_GIVEN_LOGPROBS: dict[str, Any] = {_LOGPROBS: "array", "documents": _NO_RESULTS}
_OF_LOGPROBS = having([_LOGPROBS], ["prompt", *_OF_CHAT], **_GIVEN_LOGPROBS)


class Prompted(Templated):
    """One input: raw text, or a chat."""

    prompt: Annotated[str | None, Field(min_length=1)] = None
    """Raw text that the model continues."""
    messages: Annotated[
        list[ChatMessage] | None, Field(min_length=1, max_length=1024, fail_fast=True)
    ] = None
    """Chat, in the model's own template, as OpenAI's clients send it."""
    reasoning_effort: ReasoningEffort | None = None
    """How long the model may reason: the template's variable of that name."""


class ScoringRequest(ScoresWanted, Prompted, DocumentsWanted):
    """An input, how texts are drawn, and which scores are wanted of them."""

    other_names: ClassVar[Mapping[str, str]] = _OTHER_NAMES

    max_new_tokens: Annotated[
        NewTokens,
        Field(
            description="Tokens of the answer, and of each sample. "
            f"Default: {DEFAULT_NEW_TOKENS}, or as many of them as fit the context."
        ),
    ] = None
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Samples keep the likeliest tokens of so much probability."""
    stop: StopStrings = []  # noqa: RUF012 - pydantic copies it for each body
    """One or several strings that end a text; they are not part of it."""
    seed: CountOrNone = None
    """Repeats the samples. Default: one is drawn."""
    return_tokens: bool = False
    """Adds `tokens` to the response."""

    @property
    def _without_input(self) -> LiteralString | None:
        """The message of the error where there is neither prompt nor messages; None to allow it."""
        return "exactly one of prompt and messages must be given"

    @model_validator(mode="after")
    def _check_input(self) -> Self:
        is_both = self.prompt is not None and self.messages is not None
        refuse_if(is_both, "prompt", "exactly one of prompt and messages must be given")
        if self.prompt is None and self.messages is None and (missing := self._without_input):
            refuse_if(missing, "prompt", missing)
        for name in ("chat_template_kwargs", "reasoning_effort"):
            is_alone = getattr(self, name) is not None and self.messages is None
            refuse_if(is_alone, name, "{field} needs messages")
        is_alone = self.documents == "tools" and self.messages is None
        refuse_if(is_alone, "documents", "tools needs messages: their results are there")
        is_alone = self.documents_in == "prompt" and "documents" not in self.model_fields_set
        refuse_if(is_alone, "documents_in", "needs documents")
        return self


class GenerateRequest(ScoringRequest, AnswerWanted, ToolsWanted):
    """A prompt, and which uncertainty scores are wanted of its answer."""

    mode: Literal["full", "light"] = "full"
    """`light` draws no samples: a probe on the model's hidden states predicts what they would
    show. It takes no field of samples."""
    answer_temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    """Of the answer: 0 for the greedy one. From 0.05 on it is drawn beside the samples."""
    stream: bool = False
    """Server-sent events: `token` as they are written, then `result` or `error`. With `strategy`
    greedy or none, and `on_reject` answer."""

    model_config = ConfigDict(json_schema_extra={"anyOf": [_OF_PROMPT_ALONE, _OF_MESSAGES]})

    @model_validator(mode="after")
    def _check_shown(self) -> Self:
        refuse_if(self.tools and self.messages is None, "tools", "{field} needs messages")
        is_twofold = self.answer_temperature and self.strategy
        refuse_if(is_twofold, "answer_temperature", "must be 0 with a strategy")
        return self


class ClientSample(Body):
    """A sample that the client brings; its log-probs, in nats, where it has them."""

    other_names: ClassVar[Mapping[str, str]] = {"logprobs": "token_logprobs"}

    text: Text
    """As it continues the prompt."""
    token_logprobs: TokenLogprobs | None = None
    """Log-prob of each token, in nats."""


def _no_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "must say something: it has no characters but blanks")
    return text


class ClientClaim(Body):
    """Something that the answer says, as the client reads it."""

    text: Annotated[Text, AfterValidator(_no_blank), Field(json_schema_extra={"pattern": r"\S"})]
    """What it says, in words that can be understood without the answer."""
    quotes: Annotated[list[Quote], Field(max_length=64, fail_fast=True)] = []  # noqa: RUF012
    """Words of the answer that it was read from, in their order; each stands for its first
    occurrence behind the one before. Default: none, and no score of tokens."""


class ScoreRequest(ScoringRequest):
    """An answer that exists already.

    Without prompt and messages no model is asked, and `samples`, `answer_token_logprobs` or
    `documents` must be given. Nor is one asked where documents come without a word of scores.
    """

    answer: Text
    """The text to be scored, as it continues the prompt."""
    append_eos: bool = True
    """Whether the answer ends there; its end then counts."""
    answer_token_logprobs: TokenLogprobs | None = None
    """Log-prob of each token, in nats, of whoever wrote the answer, its end included; the model
    here does not read the answer then."""
    samples: Annotated[
        list[ClientSample] | None, Field(min_length=1, max_length=64, fail_fast=True)
    ] = None
    """Other answers to the same prompt. Default: some are drawn here."""
    units: Units | None = None  # type: ignore[assignment]  # claims are given, and none generated
    """Adds `units` to the response, each with its own scores: `fields` of an answer that is JSON;
    `sentences` of one in prose, or the `claims` of this request, which an NLI model compares with
    the samples; `answer` for the whole alone."""
    claims: Annotated[list[ClientClaim] | None, Field(min_length=1, fail_fast=True)] = None
    """What the answer says; each is a unit with scores of its own, compared with the samples."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [_OF_PROMPT, _OF_MESSAGES, _OF_SAMPLES, _OF_LOGPROBS, _OF_DOCUMENTS]
        }
    )

    @model_validator(mode="after")
    def _check_drawn(self) -> Self:
        has_prompt = (self.prompt, self.messages) != (None, None)
        is_read = has_prompt and self.answer_token_logprobs is None
        why = "is of an answer that is read here: not beside its log-probs, nor without a prompt"
        refuse_if(not self.append_eos and not is_read, "append_eos", why)
        is_drawn = self.samples is None and has_prompt
        why = "is of samples that are drawn here: not beside given samples, nor without a prompt"
        for name in () if is_drawn else _OF_DRAWN:
            refuse_if(name in self.model_fields_set, name, why)
        return self

    @model_validator(mode="after")
    def _check_claims(self) -> Self:
        is_twofold = self.claims is not None and self.units not in (None, "claims")
        refuse_if(is_twofold, "claims", "are the units: leave units out, or name claims")
        is_without = self.units == "claims" and self.claims is None
        why = "no model splits an answer here: ask yours for its claims, and send them as claims"
        refuse_if(is_without, "units", why)
        return self

    @property
    def _without_input(self) -> LiteralString | None:
        if self.samples is not None or self.answer_token_logprobs is not None or self.documents:
            return None
        return (
            "nothing to score the answer by: send its prompt or messages, for the model here to "
            "read, or samples, answer_token_logprobs or documents, for scores without a model"
        )


class ScoreBatch(Body):
    """Several answers in one call; each is checked on its own."""

    items: Annotated[list[Any], Field(min_length=1, max_length=64)]
    """Bodies of `ScoreRequest`; a fault of one fails that one alone."""


def ask_of(body: GenerateRequest | ScoreRequest) -> Ask:
    """The `Ask` of a prompt to answer, or of an answer to score.

    Raises:
        InvalidRequest: a light request says something of samples.
    """
    fields, drawn_at, strategy = body.ask_fields(), 0.0, "greedy"
    if body.messages is not None:
        fields |= body.chat_fields(body.messages, body.reasoning_effort)
    if isinstance(body, GenerateRequest):
        light = body.mode == "light"
        if light:
            body.check_light()
        drawn_at, strategy = body.answer_temperature, body.strategy or strategy
        fields |= {"strategy": strategy, "light": light}
        if body.tools or body.response_format is not None:
            of_tokens = not light and body.is_of_tokens(strategy)
            fields |= body.held_fields(body, of_tokens=of_tokens)
    else:
        fields |= _given(body)
    if body.documents:
        of_tokens = body.reads_no_samples(strategy)
        fields |= body.document_fields(fields, of_tokens=of_tokens)
    return Ask(
        prompt=body.prompt,
        sampling=SamplingParams(
            max_new_tokens=body.max_new_tokens,
            answer_temperature=drawn_at,
            top_p=body.top_p,
            stop=tuple(body.stop),
            seed=body.seed,
            **body.sampling_fields(of_tokens=fields.get("of_tokens", False)),
        ),
        return_tokens=body.return_tokens,
        **fields,
    )


def _given(body: ScoreRequest) -> dict[str, Any]:
    """The fields of an `Ask` about what exists already."""
    fields: dict[str, Any] = {"answer": GivenAnswer(body.answer, body.append_eos)}
    named, sent = {*(body.estimators or ()), body.estimator}, body.model_fields_set
    if "ungrounded" in named:
        sent = sent - _OF_DECISIONS
    by_rules = sent <= _OF_RULES and named <= _BY_RULES
    if body.documents and by_rules and body.units != "fields":
        fields |= {"by_rules": True, "of_tokens": True}
    if body.answer_token_logprobs is not None:
        fields["answer_token_logprobs"] = tuple(body.answer_token_logprobs)
    if body.samples is not None:
        samples = []
        for sample in body.samples:
            given = GivenSample(sample.text)
            if sample.token_logprobs is not None:
                given = GivenSample(sample.text, tuple(sample.token_logprobs))
            samples.append(given)
        fields["samples"] = tuple(samples)
    if body.claims is not None:
        claims = [GivenClaim(claim.text, tuple(claim.quotes)) for claim in body.claims]
        fields |= {"units": "claims", "claims": tuple(claims)}
    return fields
