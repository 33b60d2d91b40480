"""Bodies of requests: shapes and bounds, and the `Ask` that each one is."""

import json
from dataclasses import replace
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    JsonValue,
    PlainValidator,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from app.scoring.ask import Ask, GivenSample, OnReject
from app.scoring.plan import DEFAULT_ESTIMATORS
from models.calibration import ALL
from models.estimators import ESTIMATORS
from models.records import DEFAULT_NEW_TOKENS, GivenAnswer, SamplingParams
from models.waves import DEFAULT_MAX_SAMPLES, DEFAULT_STOP_MASS

Value = TypeVar("Value")

MAX_SAMPLES = 64
# Each unknown field is an error of its own, and their number is the client's.
_MAX_FIELDS = 64
_MAX_KWARGS_VALUES = 10_000


def _known_estimator(name: str) -> str:
    if name not in ESTIMATORS:
        raise PydanticCustomError(
            "unknown_estimator", "unknown estimator; GET /estimators lists all"
        )
    return name


def _encodable(value: Value) -> Value:
    """JSON can spell half of a surrogate pair, which is no text and which no tokenizer takes."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise PydanticCustomError(
            "lone_surrogate", "Input should be a valid string, without lone surrogates"
        ) from None
    return value


def _few_values(value: Any) -> Any:
    """Variables of a template that are checked, named and rendered in little time."""
    pending, num_values = [value], 0
    while pending:
        one = pending.pop()
        num_values += 1
        if num_values > _MAX_KWARGS_VALUES:
            message = "Input should hold at most {limit} values"
            raise PydanticCustomError("too_many_values", message, {"limit": _MAX_KWARGS_VALUES})
        if isinstance(one, dict):
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)
    return value


def _as_list(value: Any) -> Any:
    """One stop string as the list of it."""
    return [value] if isinstance(value, str) else value


def _number_or_auto(value: Any) -> Any:
    """How many samples, checked in one step, so that a wrong one is one error."""
    is_number = type(value) is int and 1 <= value <= MAX_SAMPLES
    if not is_number and value != "auto":
        raise PydanticCustomError(
            "num_samples", f'Input should be an integer from 1 to {MAX_SAMPLES}, or "auto"'
        )
    return value


EstimatorName = Annotated[
    str, AfterValidator(_known_estimator), Field(json_schema_extra={"enum": list(ESTIMATORS)})
]
TokenLogprobs = Annotated[
    list[Annotated[float, Field(le=0)]], Field(min_length=1, max_length=8192, fail_fast=True)
]
StopString = Annotated[str, Field(min_length=1, max_length=64)]
SampleNumber = Annotated[int, Field(ge=1, le=MAX_SAMPLES)]
_StopStrings = Annotated[list[StopString], Field(max_length=8, fail_fast=True)]

# What fields of the same meaning are called elsewhere.
_ELSEWHERE = {
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
    "max_output_tokens": "max_new_tokens",
    "n": "num_samples",
    "input": "prompt",
    "text": "prompt",
    "question": "prompt",
    "timeout": "timeout_s",
}


# What `_check_input` holds a request to, for whoever reads the document: one input, template
# variables with messages.
_NULL: JsonDict = {"type": "null"}
_OF_PROMPT: JsonDict = {
    "required": ["prompt"],
    "properties": {"prompt": {"type": "string"}, "messages": _NULL, "chat_template_kwargs": _NULL},
}
_OF_MESSAGES: JsonDict = {
    "required": ["messages"],
    "properties": {"messages": {"type": "array"}, "prompt": _NULL},
}
_WITHOUT_PROMPT: JsonDict = {"prompt": _NULL, "messages": _NULL, "chat_template_kwargs": _NULL}
_OF_SAMPLES: JsonDict = {
    "required": ["samples"],
    "properties": {**_WITHOUT_PROMPT, "samples": {"type": "array"}},
}


_OF_LOGPROBS: JsonDict = {
    "required": ["answer_token_logprobs"],
    "properties": {**_WITHOUT_PROMPT, "answer_token_logprobs": {"type": "array"}},
}


class _Request(BaseModel):
    """What a client sends: a list tells its first fault alone, so that faults are few."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > _MAX_FIELDS:
            message = "Input should have at most {limit} fields"
            raise PydanticCustomError("too_many_fields", message, {"limit": _MAX_FIELDS})
        return value


class Message(_Request):
    """One chat message."""

    role: Annotated[str, Field(min_length=1, max_length=32)]
    content: Annotated[str, AfterValidator(_encodable)]


def _or_null(field: JsonDict) -> JsonDict:
    """The schema of a field that may be null, too."""
    variants = field.pop("anyOf", None)
    about: JsonDict = {}
    for name in ("title", "description", "default"):
        if name in field:
            about[name] = field.pop(name)
    known = variants if isinstance(variants, list) else [field]
    return {"anyOf": [*known, *([] if _NULL in known else [_NULL])], **about}


class _ScoringRequest(_Request):
    """What every request may say about scores and samples. Null is a field's default."""

    prompt: Annotated[
        str | None, Field(min_length=1, description="Raw text that the model continues.")
    ] = None
    messages: Annotated[
        list[Message] | None,
        Field(
            min_length=1,
            max_length=1024,
            fail_fast=True,
            description="Chat, in the model's own template.",
        ),
    ] = None
    chat_template_kwargs: Annotated[
        dict[str, JsonValue] | None,
        Field(max_length=32, description="Variables of the chat template."),
        BeforeValidator(_few_values),
        AfterValidator(_encodable),
    ] = None
    estimators: Annotated[
        list[EstimatorName] | None,
        Field(
            min_length=1,
            max_length=64,
            fail_fast=True,
            description=f"Default: {', '.join(DEFAULT_ESTIMATORS)}.",
        ),
    ] = None
    estimator: Annotated[
        EstimatorName | None,
        Field(
            description="The one reported as `uncertainty`. Default: rb_cocoa_sp, cocoa_sp or "
            "cocoa_sp_light, or the first of `estimators`."
        ),
    ] = None
    similarity: Annotated[
        str | None,
        Field(
            max_length=32, description="Similarity function, among those that GET /version lists."
        ),
    ] = None
    num_samples: Annotated[
        int | Literal["auto"],
        PlainValidator(_number_or_auto, json_schema_input_type=SampleNumber | Literal["auto"]),
        Field(
            description='"auto" draws in waves of 2, 3 and then 5, until the answer and the '
            "distinct samples hold `stop_mass` of the model's probability."
        ),
    ] = 10
    max_samples: Annotated[
        SampleNumber | None,
        Field(description=f'The most that "auto" draws. Default: {DEFAULT_MAX_SAMPLES}.'),
    ] = None
    stop_mass: Annotated[
        float | None,
        Field(
            gt=0,
            le=1,
            description='`found_mass` at which "auto" begins no further wave. '
            f"Default: {DEFAULT_STOP_MASS}.",
        ),
    ] = None
    max_new_tokens: Annotated[
        int | None,
        Field(
            ge=1,
            le=8192,
            description=f"Default: {DEFAULT_NEW_TOKENS}, or as many of them as fit the context.",
        ),
    ] = None
    temperature: Annotated[
        float, Field(ge=0, le=2, description="At least 0.05 where samples are drawn.")
    ] = 1.0
    top_k: Annotated[int, Field(ge=0, le=1000, description="0 keeps the whole vocabulary.")] = 50
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    stop: Annotated[
        _StopStrings,
        BeforeValidator(_as_list, json_schema_input_type=StopString | _StopStrings),
        Field(description="One or several strings that end a text; they are not part of it."),
    ] = []
    seed: Annotated[int | None, Field(ge=0, lt=2**63)] = None
    return_samples: bool = False
    explain: Annotated[
        bool, Field(description="Samples in groups by meaning, and a sentence about them.")
    ] = False
    return_tokens: bool = False
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 60.0
    cache: Annotated[
        bool,
        Field(
            description="Whether statistics of an identical request may serve, "
            "and these be remembered."
        ),
    ] = True

    target_error: Annotated[
        float | None,
        Field(
            gt=0,
            lt=1,
            description="Largest share of wrong answers among those that pass, one of the "
            "calibrator's (GET /version); brings a `decision`.",
        ),
    ] = None
    on_reject: Annotated[
        OnReject,
        Field(
            description="What becomes of an answer that does not pass: `answer` gives it all the "
            "same, `abstain` holds it back, `escalate` asks a second model."
        ),
    ] = "answer"
    calibration: Annotated[
        str | None,
        Field(
            max_length=64,
            description='Group of the calibrator, such as a task. Default: "all".',
        ),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _null_is_default(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        given = {}
        for name, value in body.items():
            field = cls.model_fields.get(name)
            if value is not None or field is None or field.is_required():
                given[name] = value
        return given

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for name, field in properties.items():
            if "default" in field:
                properties[name] = _or_null(field)
        return schema

    def to_ask(self) -> Ask:
        """What every request asks."""
        messages = None
        if self.messages is not None:
            messages = tuple({"role": one.role, "content": one.content} for one in self.messages)
        return Ask(
            prompt=self.prompt,
            messages=messages,
            chat_template_kwargs=self.chat_template_kwargs or {},
            sampling=SamplingParams(
                num_samples=self._most_samples,
                max_new_tokens=self.max_new_tokens,
                temperature=self.temperature,
                top_k=self.top_k,
                top_p=self.top_p,
                stop=tuple(self.stop),
                seed=self.seed,
                stop_mass=self._stop_mass,
            ),
            estimators=None if self.estimators is None else tuple(self.estimators),
            primary=self.estimator,
            similarity=self.similarity,
            return_samples=self.return_samples,
            explain=self.explain,
            return_tokens=self.return_tokens,
            cache=self.cache,
            timeout_s=self.timeout_s,
            target_error=self.target_error,
            on_reject=self.on_reject,
            calibration=self.calibration,
        )

    @property
    def _most_samples(self) -> int:
        if self.num_samples == "auto":
            return DEFAULT_MAX_SAMPLES if self.max_samples is None else self.max_samples
        return self.num_samples

    @property
    def _stop_mass(self) -> float | None:
        if self.num_samples != "auto":
            return None
        return DEFAULT_STOP_MASS if self.stop_mass is None else self.stop_mass

    @model_validator(mode="after")
    def _waves_only_where_asked(self) -> Self:
        for name in ("max_samples", "stop_mass"):
            if self.num_samples != "auto" and getattr(self, name) is not None:
                raise PydanticCustomError(
                    "one_of", 'is heeded with num_samples "auto" only', {"field": name}
                )
        return self

    def _check_input(self, *, required: bool) -> None:
        num_given = (self.prompt is not None) + (self.messages is not None)
        if num_given > 1 or (required and num_given == 0):
            raise PydanticCustomError(
                "one_of", "exactly one of prompt and messages must be given", {"field": "prompt"}
            )
        if self.chat_template_kwargs is not None and self.messages is None:
            raise PydanticCustomError(
                "one_of", "chat_template_kwargs needs messages", {"field": "chat_template_kwargs"}
            )


def nearest_field(name: str) -> str | None:
    """The field that an unknown one was probably meant to be, among those of all requests."""
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    close = get_close_matches(name, _ScoringRequest.model_fields, n=1, cutoff=0.75)
    return close[0] if close else None


class GenerateRequest(_ScoringRequest):
    """A prompt, and which uncertainty scores are wanted of its answer."""

    mode: Annotated[
        Literal["full", "light"],
        Field(
            description="`light` draws no samples: a probe on the model's hidden states predicts "
            "what they would show."
        ),
    ] = "full"
    strategy: Annotated[
        Literal["greedy", "most_probable", "most_probable_normalized", "mbr"],
        Field(description="Which answer is scored: the greedy one, or one of the samples."),
    ] = "greedy"

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [_OF_PROMPT, _OF_MESSAGES],
            "examples": [
                {"prompt": "What is the capital of France?", "max_new_tokens": 24, "seed": 1}
            ],
        }
    )

    @model_validator(mode="after")
    def _one_input(self) -> Self:
        self._check_input(required=True)
        return self

    def to_ask(self) -> Ask:
        """A prompt to be answered."""
        return replace(super().to_ask(), strategy=self.strategy, light=self.mode == "light")


class ClientSample(_Request):
    """A sample that the client brings; its log-probs, in nats, where it has them."""

    text: Annotated[str, AfterValidator(_encodable)]
    token_logprobs: Annotated[TokenLogprobs | None, Field(description="In nats.")] = None

    def to_given(self) -> GivenSample:
        """The sample as an ask brings it."""
        logprobs = None if self.token_logprobs is None else tuple(self.token_logprobs)
        return GivenSample(self.text, logprobs)


class ScoreRequest(_ScoringRequest):
    """An answer that exists already.

    Without prompt and messages no model is asked, and `samples` or `answer_token_logprobs` must be
    given.
    """

    answer: Annotated[str, AfterValidator(_encodable)]
    append_eos: Annotated[
        bool, Field(description="Whether the answer ends there; its end then counts.")
    ] = True
    answer_token_logprobs: Annotated[
        TokenLogprobs | None,
        Field(
            description="In nats, of whoever wrote the answer, its end included; the model here "
            "does not read the answer then."
        ),
    ] = None
    samples: Annotated[
        list[ClientSample] | None, Field(min_length=1, max_length=64, fail_fast=True)
    ] = None

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [_OF_PROMPT, _OF_MESSAGES, _OF_SAMPLES, _OF_LOGPROBS]}
    )

    @model_validator(mode="after")
    def _some_input(self) -> Self:
        is_brought = self.samples is not None or self.answer_token_logprobs is not None
        self._check_input(required=not is_brought)
        return self

    def to_ask(self) -> Ask:
        """An answer to be scored."""
        given = None
        if self.samples is not None:
            given = tuple(sample.to_given() for sample in self.samples)
        logprobs = self.answer_token_logprobs
        return replace(
            super().to_ask(),
            answer=GivenAnswer(self.answer, self.append_eos),
            answer_token_logprobs=None if logprobs is None else tuple(logprobs),
            samples=given,
        )


def _not_all(task: str | None) -> str | None:
    if task == ALL:
        raise PydanticCustomError("reserved", f'"{ALL}" is the name of all tasks together')
    return task


# What `_one_label` holds a request to.
_OF_CORRECT: JsonDict = {
    "required": ["correct"],
    "properties": {"correct": {"type": "boolean"}, "quality": _NULL},
}
_OF_QUALITY: JsonDict = {
    "required": ["quality"],
    "properties": {"quality": {"type": "number"}, "correct": _NULL},
}


class FeedbackRequest(_Request):
    """A label of one answer: exactly one of `correct` and `quality`."""

    id: Annotated[
        str,
        Field(min_length=1, max_length=256, description="`id` of the response."),
        AfterValidator(_encodable),
    ]
    correct: Annotated[bool | None, Field(description="Whether the answer is right.")] = None
    quality: Annotated[
        float | None,
        Field(ge=0, le=1, description="How good the answer is: 1 is right, 0 is wrong."),
    ] = None
    task: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=64,
            description="What kind of question it was, for a calibration by task.",
            json_schema_extra={"not": {"const": ALL}},
        ),
        AfterValidator(_encodable),
        AfterValidator(_not_all),
    ] = None

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [_OF_CORRECT, _OF_QUALITY],
            "examples": [
                {"id": "1b4e28ba2fa111d2883f0016d3cca427", "correct": True},
                {"id": "1b4e28ba2fa111d2883f0016d3cca427", "quality": 0.8, "task": "billing"},
            ],
        }
    )

    @model_validator(mode="after")
    def _one_label(self) -> Self:
        if (self.correct is None) == (self.quality is None):
            raise PydanticCustomError(
                "one_of", "exactly one of correct and quality must be given", {"field": "correct"}
            )
        return self

    @property
    def as_quality(self) -> float:
        """The label as a number, 1 for right."""
        return float(self.correct or 0) if self.quality is None else self.quality


class ScoreBatch(_Request):
    """Several answers in one call; each is checked on its own."""

    items: Annotated[list[Any], Field(min_length=1, max_length=64)]
