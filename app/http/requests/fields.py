"""Fields that bodies of several routes have, and the checks that all bodies share."""

import json
from collections.abc import Mapping
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal, LiteralString, Self, TypeVar

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
from pydantic_core import CoreSchema, PydanticCustomError

from app.http.described import Described
from app.scoring.ask import OnReject, OnUnitReject, Units
from app.scoring.defaults import DEFAULT_ESTIMATORS
from app.spelling import closest, did_you_mean
from models.errors import InvalidRequest
from models.estimators import ESTIMATORS
from models.ranges import LOGPROBS
from models.records import EFFORT

AnswerStrategy = Literal["greedy", "sample", "most_probable", "most_probable_normalized", "mbr"]
Value = TypeVar("Value")

MAX_SAMPLES = 64
# Each unknown field is an error of its own, and their number is the client's.
_MAX_FIELDS = 64
_MAX_KWARGS_VALUES = 10_000

# Fields of older releases, and what to do instead.
GONE_FIELDS = dict.fromkeys(("max_samples", "stop_mass"), "send num_samples alone, such as 5")


def _known_estimator(name: str) -> str:
    if name not in ESTIMATORS:
        message = "unknown estimator{meant} GET /estimators lists all"
        meant = did_you_mean(closest(name, ESTIMATORS)) or ";"
        raise PydanticCustomError("unknown_estimator", message, {"meant": meant})
    return name


def refuse_if(applies: object, field: str, why: LiteralString) -> None:
    """Refuse a field, by its name, that does not go with others."""
    if applies:
        raise PydanticCustomError("one_of", why, {"field": field})


def encodable(value: Value) -> Value:
    """The value, unless a string in it has half of a surrogate pair, which no tokenizer takes."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise PydanticCustomError(
            "lone_surrogate", "Input should be a valid string, without lone surrogates"
        ) from None
    return value


def named_in(given: Any, name: str = "type") -> Any:
    """The value of this name in a part of a body, read or not yet; None where it has none."""
    return given.get(name) if isinstance(given, dict) else getattr(given, name, None)


def few_values(value: Any) -> Any:
    """The value, unless it holds so many values that checking and rendering it takes long."""
    pending, num_values = [value], 0
    while pending:
        nested = pending.pop()
        num_values += 1
        if num_values > _MAX_KWARGS_VALUES:
            message = "Input should hold at most {limit} values"
            raise PydanticCustomError("too_many_values", message, {"limit": _MAX_KWARGS_VALUES})
        if isinstance(nested, dict):
            pending.extend(nested.values())
        elif isinstance(nested, list):
            pending.extend(nested)
    return value


def _known_logprob(value: float) -> float:
    if value == -9999:  # as OpenAI and vLLM write it
        raise PydanticCustomError("not_known", "-9999 stands for a log-prob that is not known")
    return value


# Values of older releases, and what to do instead.
_GONE = {
    "auto": "send a number of samples, such as 5",
    "escalate": "ask another model yourself where decision.action is escalate",
    "claims": "ask the model for the claims by a call of your own, and send them to POST /score",
}


def _not_gone(value: Any) -> Any:
    if isinstance(value, str) and value in _GONE:
        about = {"value": value, "instead": _GONE[value]}
        raise PydanticCustomError("gone", "{value} is gone: {instead}", about)
    return value


EstimatorName = Annotated[
    str, AfterValidator(_known_estimator), Field(json_schema_extra={"enum": list(ESTIMATORS)})
]
# The models' own range: sums of so many are finite.
Logprob = Annotated[float, Field(ge=LOGPROBS[0], le=0), AfterValidator(_known_logprob)]
TokenLogprobs = Annotated[list[Logprob], Field(min_length=1, max_length=8192, fail_fast=True)]
StopString = Annotated[str, Field(min_length=1, max_length=64)]
# JSON has one kind of number: 2.0 is an integer.
Whole = BeforeValidator(
    lambda value: int(value) if isinstance(value, float) and value.is_integer() else value
)
SampleNumber = Annotated[int, Field(ge=1, le=MAX_SAMPLES), Whole]
_StopStrings = Annotated[list[StopString], Field(max_length=8, fail_fast=True)]
StopStrings = Annotated[
    _StopStrings,
    BeforeValidator(
        lambda value: [value] if isinstance(value, str) else value,
        json_schema_input_type=StopString | _StopStrings,
    ),
]
TemplateVariables = Annotated[
    dict[str, JsonValue],
    Field(max_length=32),
    BeforeValidator(few_values),
    AfterValidator(encodable),
]
# As OpenAI has them.
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
JsonSchema = Annotated[dict[str, JsonValue], BeforeValidator(few_values), AfterValidator(encodable)]
NewTokens = Annotated[int, Field(ge=1, le=8192), Whole]
# -1 is how some clients say that they name none.
Seed = Annotated[
    int, Field(ge=-1, lt=2**63), Whole, AfterValidator(lambda seed: None if seed < 0 else seed)
]

NULL: JsonDict = {"type": "null"}  # a schema


def having(required: list[str], absent: list[str], **schemas: JsonDict | str) -> JsonDict:
    """The JSON schema of bodies in which some fields are required, and others null or absent.

    schemas: by field its schema, or its type.
    """
    properties: JsonDict = dict.fromkeys(absent, NULL)
    for name, schema in schemas.items():
        properties[name] = {"type": schema} if isinstance(schema, str) else schema
    return {"required": [*required], "properties": properties}


def template_variables(
    given: dict[str, JsonValue] | None, effort: ReasoningEffort | None
) -> dict[str, JsonValue]:
    """The variables of a chat template, with the reasoning effort among them.

    Raises:
        InvalidRequest: both name the effort.
    """
    variables = dict(given or {})
    if effort is None:
        return variables
    if EFFORT in variables:
        raise InvalidRequest("is among chat_template_kwargs, too", field=EFFORT)
    return variables | {EFFORT: effort}


# Every class of bodies, by its name.
BODIES: dict[str, type["Body"]] = {}


class Body(Described):
    """What a client sends. Only the first fault of a list is reported (`fail_fast`)."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    null_is_default: ClassVar[bool] = False
    # True where unknown fields that are null or empty are ignored: clients of others send such.
    ignores_empty: ClassVar[bool] = False
    # Names of these fields in other APIs.
    other_names: ClassVar[Mapping[str, str]] = {}
    # Optional fields that nearly every body has, which an example shows besides the required ones.
    usual: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        BODIES[cls.__name__] = cls

    @classmethod
    def nearest(cls, name: str) -> str | None:
        """The field that an unknown name was probably meant to be."""
        return cls.other_names.get(name) or closest(name, cls.model_fields)

    @model_validator(mode="before")
    @classmethod
    def _read(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        if len(body) > _MAX_FIELDS:
            message = "Input should have at most {limit} fields"
            raise PydanticCustomError("too_many_fields", message, {"limit": _MAX_FIELDS})
        if not cls.null_is_default:
            return body
        given = {}
        for name, value in body.items():
            field = cls.model_fields.get(name)
            if field is None:
                is_given = not cls.ignores_empty or value not in (None, [], {})
            else:
                is_given = value is not None or field.is_required()
            if is_given:
                given[name] = value
        return given


class NullIsDefault(Body):
    """A body in which null means the same as leaving a field out."""

    null_is_default = True

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonDict:
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for name, field in properties.items():
            if "default" in field:
                properties[name] = _or_null(field)
        if cls.ignores_empty:
            schema["additionalProperties"] = {"enum": [None, [], {}]}
        return schema


def _or_null(field: JsonDict) -> JsonDict:
    about: JsonDict = {}
    for name in ("title", "description", "default"):
        if name in field:
            about[name] = field.pop(name)
    variants = field.get("anyOf", [field])
    if isinstance(variants, list) and NULL not in variants:
        variants = [*variants, NULL]
    return {"anyOf": variants, **about}


# Fields about samples, which light mode would not heed.
_OF_SAMPLES = ["num_samples", "temperature", "top_k", "top_p", "similarity"]
_OF_SAMPLES += ["max_sample_reasoning_tokens"]


def check_light(body: BaseModel, prefix: str = "") -> None:
    """Refuse fields about samples in a light request."""
    for name in _OF_SAMPLES:
        if name in body.model_fields_set:
            message = "must be left out in light mode, which draws no samples"
            raise InvalidRequest(message, field=prefix + name)


class ReasoningBounds(NullIsDefault):
    """How long a model may reason before its answer."""

    max_reasoning_tokens: NewTokens | None = None
    """Tokens of a reasoning; then its end tag is written for the model, and the answer follows.
    Less than `max_new_tokens`, which bounds both together. Default: no bound of its own."""
    max_sample_reasoning_tokens: NewTokens | None = None
    """The same for each sample. Default: `max_reasoning_tokens`."""


_OF_ASK = {"similarity", "return_samples", "explain", "units", "timeout_s", "cache"}
_OF_ASK |= {"target_error", "on_reject", "escalate_below", "on_unit_reject", "calibration"}


class ScoresWanted(NullIsDefault):
    """Which scores are wanted, and of which samples."""

    estimators: Annotated[
        list[EstimatorName] | None,
        Field(
            min_length=1,
            max_length=64,
            fail_fast=True,
            description="Names of scores, among those that GET /estimators lists. "
            f"Default: {', '.join(DEFAULT_ESTIMATORS)}.",
        ),
    ] = None
    estimator: EstimatorName | None = None
    """The one reported as `uncertainty`. Default: rb_cocoa_root_sp, cocoa_root_sp or
    cocoa_sp_light, or the first of `estimators`."""
    similarity: Annotated[str | None, Field(max_length=32)] = None
    """Similarity function, among those that GET /version lists."""
    num_samples: Annotated[SampleNumber, BeforeValidator(_not_gone)] = 10
    """How many are drawn."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    """Of samples; at least 0.05 where any are drawn."""
    top_k: Annotated[int, Field(ge=0, le=1000), Whole] = 50
    """Samples keep so many of the likeliest tokens; 0: all."""
    return_samples: bool = False
    """Adds `samples` to the response."""
    explain: bool = False
    """Samples in groups by meaning, and a sentence about them."""
    units: Annotated[
        Units | None,
        BeforeValidator(
            _not_gone, json_schema_input_type=Literal["answer", "fields", "sentences"] | None
        ),
    ] = None
    """Adds `units` to the response, each with its own scores: `fields` of an answer that is JSON;
    `sentences` of one in prose, which an NLI model compares with the samples; `answer` for the
    whole alone."""
    json_schema: JsonSchema | None = None
    """With `units` fields: what the answer follows. Strings with `enum`, `const`, `pattern` or a
    `format` such as date agree wholly or not at all; numbers within `x-relative-tolerance`."""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 60.0
    """Seconds until the request is given up."""
    cache: bool = True
    """Whether statistics of an identical request may serve, and these be remembered."""

    target_error: Annotated[float | None, Field(gt=0, lt=1)] = None
    """Largest share of wrong answers among those that pass, one of the calibrator's (GET /version);
    brings a `decision`."""
    on_reject: Annotated[OnReject, BeforeValidator(_not_gone)] = "answer"
    """What becomes of an answer that does not pass: `answer` gives it all the same, `abstain` holds
    it back."""
    escalate_below: Annotated[float | None, Field(ge=0, le=1)] = None
    """With `target_error`: an answer that does not pass is to be verified from this confidence on,
    and escalated below it, says `decision.action`. Default: 0.5."""
    on_unit_reject: OnUnitReject = "keep"
    """With `units` and `target_error`, what becomes of parts that do not pass: `keep` tells them,
    `remove` gives `refined_text` without these sentences, or with null in place of these fields
    where the schema allows it, `abstain` holds the whole answer back."""
    calibration: Annotated[str | None, Field(max_length=64)] = None
    """Group of the calibrator, such as a task. Default: "all"."""

    def ask_fields(self) -> dict[str, Any]:
        """The fields of an `Ask` about scores; most have the same names here."""
        fields = dict(zip(_OF_ASK, attrgetter(*_OF_ASK)(self), strict=True))
        fields["primary"] = self.estimator
        if self.estimators is not None:
            fields["estimators"] = tuple(self.estimators)
        if self.json_schema is not None:
            fields["json_schema"] = self.json_schema
        return fields

    def sampling_fields(self, least: int = 1, *, of_tokens: bool = False) -> dict[str, Any]:
        """The fields of `SamplingParams` about samples: `least` or more, no more `of_tokens`."""
        fields = {name: getattr(self, name, None) for name in ReasoningBounds.model_fields}
        fields["num_samples"] = least if of_tokens else max(self.num_samples, least)
        return fields | {"temperature": self.temperature, "top_k": self.top_k}

    @model_validator(mode="after")
    def _check_heeded(self) -> Self:
        is_alone = self.json_schema is not None and self.units != "fields"
        refuse_if(is_alone, "json_schema", "is heeded with units fields only")
        return self


def only(*values: Any, why: str = "is not supported here") -> PlainValidator:
    """A validator that takes these values alone; its error proposes the first of them."""

    def check(value: Any) -> Any:
        for allowed in values:
            # True equals 1 in Python.
            if allowed == value and isinstance(allowed, bool) == isinstance(value, bool):
                return value
        message = "{why}: leave it out, or send {neutral}"
        about = {"why": why, "neutral": str(values[0]).lower()}
        raise PydanticCustomError("not_supported", message, about)

    return PlainValidator(check, json_schema_input_type=Literal[values])


def empty(
    kind: type[list[Any]] | type[dict[str, Any]] | None = None, why: str = "is not supported here"
) -> PlainValidator:
    """A validator that takes an empty list or object alone; with `kind` None, null alone."""

    def check(value: Any) -> Any:
        if value is not None and (kind is None or value != kind()):
            raise PydanticCustomError("not_supported", "{why}: leave it out", {"why": why})
        return value

    if kind is None:
        return PlainValidator(check, json_schema_input_type=None)
    return PlainValidator(check, json_schema_input_type=Annotated[kind, Field(max_length=0)])


No = Annotated[Any, only(False)]
NoReference = Annotated[Any, empty(why="nothing is stored here: send what was said as input")]
NoSound = Annotated[Any, empty(why="answers are text here")]
NoFunctions = Annotated[Any, empty(list, "is the former name: send tools")]
FixedVerbosity = Annotated[Any, only("medium", why="the model is told nothing of it")]
# Fields that concern OpenAI's platform alone.
Label = Annotated[str, Field(max_length=512, description="Accepted and ignored.")]
Platform = Annotated[
    dict[str, JsonValue],
    Field(max_length=16, description="Accepted and ignored."),
    BeforeValidator(few_values),
]
