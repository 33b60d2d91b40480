"""Fields about scores, and about the samples that they read."""

from operator import attrgetter
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from app.http.requests.body import Body, refuse_if
from app.http.requests.values import EstimatorName, JsonSchema, NewTokens, SampleNumber, Whole
from app.scoring.ask import MAX_TIMEOUT_S, OnReject, OnUnitReject
from app.scoring.defaults import DEFAULT_ESTIMATORS
from app.scoring.selection import AnswerStrategy
from models.errors import InvalidRequest
from models.estimators import needs
from models.statistics import reads_samples


def _no_sample(value: Any) -> Any:
    if value == "sample":
        instead = "send the temperature of the answer, as answer_temperature or in OpenAI's field"
        raise PydanticCustomError("gone", "sample is gone: {instead}", {"instead": instead})
    return value


class AnswerWanted(Body):
    """Which answer is scored, and how long a model may reason before it."""

    strategy: Annotated[AnswerStrategy | None, BeforeValidator(_no_sample)] = None
    """Which answer is scored: `greedy`, or one of the samples. Default: one of its own."""
    max_reasoning_tokens: NewTokens = None
    """Tokens of a reasoning; then its end tag is written for the model, and the answer follows.
    Less than `max_new_tokens`, which bounds both together. Default: no bound of its own."""
    max_sample_reasoning_tokens: NewTokens = None
    """The same for each sample. Default: `max_reasoning_tokens`."""


_OF_REASONING = ("max_reasoning_tokens", "max_sample_reasoning_tokens")
# Fields about samples, which light mode would not heed.
_OF_SAMPLES = ["num_samples", "temperature", "top_k", "top_p", "similarity"]
_OF_SAMPLES += ["max_sample_reasoning_tokens"]
# Fields of which none requests samples, or scores that read them.
_OF_ANY = {"estimators", "estimator", "units", "json_schema", "timeout_s", "cache"}
_OF_ASK = {"similarity", "return_samples", "explain", "units", "timeout_s", "cache"}
_OF_ASK |= {"target_error", "on_reject", "hand_over_below", "on_unit_reject", "calibration"}


class ScoresWanted(Body):
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
    num_samples: SampleNumber = 10
    """How many are drawn."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    """Of samples; at least 0.05 where any are drawn."""
    top_k: Annotated[int, Field(ge=0, le=1000), Whole] = 50
    """Samples keep so many of the likeliest tokens; 0: all."""
    return_samples: bool = False
    """Adds `samples` to the response."""
    explain: bool = False
    """Samples in groups by meaning, and a sentence about them."""
    units: Literal["answer", "fields", "sentences"] | None = None
    """Adds `units` to the response, each with its own scores: `fields` of an answer that is JSON;
    `sentences` of one in prose, which an NLI model compares with the samples; `answer` for the
    whole alone."""
    json_schema: JsonSchema | None = None
    """With `units` fields: what the answer follows. Strings with `enum`, `const`, `pattern` or a
    `format` such as date agree wholly or not at all; numbers within `x-relative-tolerance`."""
    timeout_s: Annotated[float | None, Field(gt=0, le=MAX_TIMEOUT_S)] = None
    """Seconds until the request is given up. Default: 60, or `COCOA_LIMITS__TIMEOUT_S`."""
    cache: bool = True
    """Whether statistics of an identical request may serve, and these be remembered."""

    target_error: Annotated[float | None, Field(gt=0, lt=1)] = None
    """Largest share of wrong answers among those that pass, one of the calibrator's (GET /version);
    brings a `decision`."""
    on_reject: OnReject = "answer"
    """What becomes of an answer that does not pass: `answer` gives it all the same, `abstain` holds
    it back."""
    hand_over_below: Annotated[float | None, Field(ge=0, le=1)] = None
    """With `target_error`: an answer that does not pass is to be verified from this confidence on,
    and handed over to somebody else below it, says `decision.action`. Default: 0.5."""
    on_unit_reject: OnUnitReject = "keep"
    """With `units` and `target_error`, what becomes of parts that do not pass: `keep` tells them,
    `remove` gives `refined_text` without these sentences, or with null in place of these fields
    where the schema allows it, `abstain` holds the whole answer back."""
    calibration: Annotated[str | None, Field(max_length=64)] = None
    """Group of the calibrator, such as a task. Default: "all"."""

    def ask_fields(self) -> dict[str, Any]:
        """The fields of an `Ask` about scores; most have the same names here."""
        fields = dict(zip(_OF_ASK, attrgetter(*_OF_ASK)(self), strict=True))
        if self.estimators is not None:
            fields["estimators"] = tuple(self.estimators)
        if self.estimator is not None:
            fields["primary"] = self.estimator
        if self.json_schema is not None:
            fields["json_schema"] = self.json_schema
        return fields

    def sampling_fields(self, least: int = 1, *, of_tokens: bool = False) -> dict[str, Any]:
        """The fields of `SamplingParams` about samples: `least` or more, no more `of_tokens`."""
        fields = {name: getattr(self, name, None) for name in _OF_REASONING}
        fields["num_samples"] = least if of_tokens else max(self.num_samples, least)
        return fields | {"temperature": self.temperature, "top_k": self.top_k}

    def is_of_tokens(self, strategy: str) -> bool:
        """True where neither the strategy nor a field requests samples, or scores that read any."""
        of_samples = ScoresWanted.model_fields.keys() - _OF_ANY
        return strategy == "greedy" and of_samples.isdisjoint(self.model_fields_set)

    def reads_no_samples(self, strategy: str) -> bool:
        """True where scores are named, and neither they, nor a field, nor the strategy read any."""
        read = needs(filter(None, (*(self.estimators or ()), self.estimator)))
        of_samples = {*_OF_SAMPLES, "return_samples", "explain", "units"}
        is_named = not of_samples.isdisjoint(self.model_fields_set)
        is_drawn = is_named or reads_samples(read) or strategy != "greedy"
        return bool(read) and not is_drawn

    def check_light(self, prefix: str = "") -> None:
        """Refuse fields about samples in a light request."""
        for name in _OF_SAMPLES:
            if name in self.model_fields_set:
                message = "must be left out in light mode, which draws no samples"
                raise InvalidRequest(message, field=prefix + name)

    @model_validator(mode="after")
    def _check_heeded(self) -> Self:
        is_alone = self.json_schema is not None and self.units != "fields"
        refuse_if(is_alone, "json_schema", "is heeded with units fields only")
        return self
