"""What the bodies of several routes say of prompts, samples and scores."""

from dataclasses import replace
from difflib import get_close_matches
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    PlainValidator,
    model_validator,
)
from pydantic.config import JsonDict
from pydantic_core import PydanticCustomError

from app.http.requests.fields import (
    NULL,
    EstimatorName,
    Message,
    NullIsDefault,
    SampleNumber,
    StopString,
    StopStrings,
    as_list,
    encodable,
    few_values,
    number_or_auto,
)
from app.scoring.ask import Ask, OnReject
from app.scoring.plan import DEFAULT_ESTIMATORS
from models.records import DEFAULT_NEW_TOKENS, SamplingParams
from models.waves import DEFAULT_MAX_SAMPLES, DEFAULT_STOP_MASS

AnswerStrategy = Literal["greedy", "sample", "most_probable", "most_probable_normalized", "mbr"]

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
OF_PROMPT: JsonDict = {
    "required": ["prompt"],
    "properties": {"prompt": {"type": "string"}, "messages": NULL, "chat_template_kwargs": NULL},
}
OF_MESSAGES: JsonDict = {
    "required": ["messages"],
    "properties": {"messages": {"type": "array"}, "prompt": NULL},
}


class Prompted(NullIsDefault):
    """One input: raw text, or a chat."""

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
        BeforeValidator(few_values),
        AfterValidator(encodable),
    ] = None

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
        PlainValidator(number_or_auto, json_schema_input_type=SampleNumber | Literal["auto"]),
        Field(
            description='How many are drawn; "auto" draws in waves of 2, 3 and then 5, until the '
            "answer and the distinct samples hold `stop_mass` of the model's probability."
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
    temperature: Annotated[
        float, Field(ge=0, le=2, description="Of samples; at least 0.05 where any are drawn.")
    ] = 1.0
    top_k: Annotated[
        int,
        Field(ge=0, le=1000, description="Samples keep so many of the likeliest tokens; 0: all."),
    ] = 50
    return_samples: Annotated[bool, Field(description="Adds `samples` to the response.")] = False
    explain: Annotated[
        bool, Field(description="Samples in groups by meaning, and a sentence about them.")
    ] = False
    timeout_s: Annotated[
        float, Field(gt=0, le=600, description="Seconds until the request is given up.")
    ] = 60.0
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

    def to_ask(self) -> Ask:
        """What every request asks, without what it asks it of."""
        return Ask(
            sampling=SamplingParams(
                num_samples=self._most_samples,
                temperature=self.temperature,
                top_k=self.top_k,
                stop_mass=self._stop_mass,
            ),
            estimators=None if self.estimators is None else tuple(self.estimators),
            primary=self.estimator,
            similarity=self.similarity,
            return_samples=self.return_samples,
            explain=self.explain,
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


class ScoringRequest(ScoresWanted, Prompted):
    """An input, how texts are drawn, and which scores are wanted of them."""

    max_new_tokens: Annotated[
        int | None,
        Field(
            ge=1,
            le=8192,
            description="Tokens of the answer, and of each sample. "
            f"Default: {DEFAULT_NEW_TOKENS}, or as many of them as fit the context.",
        ),
    ] = None
    top_p: Annotated[
        float,
        Field(gt=0, le=1, description="Samples keep the likeliest tokens of so much probability."),
    ] = 1.0
    stop: Annotated[
        StopStrings,
        BeforeValidator(as_list, json_schema_input_type=StopString | StopStrings),
        Field(description="One or several strings that end a text; they are not part of it."),
    ] = []  # noqa: RUF012 - pydantic copies it for each body
    seed: Annotated[
        int | None,
        Field(ge=0, lt=2**63, description="Repeats the samples. Default: one is drawn."),
    ] = None
    return_tokens: Annotated[bool, Field(description="Adds `tokens` to the response.")] = False

    def to_ask(self) -> Ask:
        """What every request asks."""
        ask = super().to_ask()
        messages = None
        if self.messages is not None:
            messages = tuple({"role": one.role, "content": one.content} for one in self.messages)
        return replace(
            ask,
            prompt=self.prompt,
            messages=messages,
            chat_template_kwargs=self.chat_template_kwargs or {},
            sampling=replace(
                ask.sampling,
                max_new_tokens=self.max_new_tokens,
                top_p=self.top_p,
                stop=tuple(self.stop),
                seed=self.seed,
            ),
            return_tokens=self.return_tokens,
        )


def nearest_field(name: str) -> str | None:
    """The field that an unknown one was probably meant to be, among those of all requests."""
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    close = get_close_matches(name, ScoringRequest.model_fields, n=1, cutoff=0.75)
    return close[0] if close else None
