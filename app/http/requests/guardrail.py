"""Body of LiteLLM's generic guardrail API, which it calls before and after it calls a model."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from app.http.requests.bodies import ScoreRequest
from app.http.requests.fields import (
    EstimatorName,
    NullIsDefault,
    SampleNumber,
    encodable,
    few_values,
)
from app.http.requests.messages import ChatMessage, Text
from app.http.requests.tools import Tool, tools_of


def _texts_alone(messages: list[ChatMessage]) -> list[ChatMessage]:
    """The messages, unless one shows an image."""
    if any(message.images for message in messages):
        raise PydanticCustomError("not_supported", "answers about images are not judged here")
    return messages


Chat = Annotated[
    list[ChatMessage],
    Field(min_length=1, max_length=1024, fail_fast=True),
    AfterValidator(_texts_alone),
]
Tools = Annotated[list[Tool], Field(max_length=128), BeforeValidator(few_values)]
CallId = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(encodable)]


class GuardrailParams(NullIsDefault):
    """What LiteLLM's configuration says of this guardrail; the fields of `POST /score`."""

    target_error: Annotated[float | None, Field(gt=0, lt=1)] = None
    """Blocks what `decision.action` does not accept at this share of wrong answers."""
    threshold: float | None = None
    """Blocks an uncertainty above this real number; in place of `target_error`."""
    estimator: EstimatorName | None = None
    """Whose value is the uncertainty. Default: as of `POST /score`."""
    similarity: Annotated[str | None, Field(max_length=32)] = None
    """Similarity function. Default: the deployment's."""
    calibration: Annotated[str | None, Field(max_length=64)] = None
    """Group of the calibrator. Default: "all"."""
    num_samples: SampleNumber = 10
    """How many are drawn."""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 60.0
    """Seconds until the judgement of all texts is given up."""

    @model_validator(mode="after")
    def _check_bound(self) -> Self:
        if (self.target_error is None) == (self.threshold is None):
            message = "exactly one of target_error and threshold must be given"
            raise PydanticCustomError("one_of", message, {"field": "target_error"})
        return self

    @property
    def as_score(self) -> dict[str, Any]:
        """What is said of the scores, as `ScoreRequest` has it."""
        return self.model_dump(exclude_unset=True, exclude_none=True, exclude={"threshold"})


class Asked(NullIsDefault):
    """What a model was asked: a chat with its tools, or one raw text."""

    prompt: Annotated[str | None, Field(min_length=1), AfterValidator(encodable)] = None
    messages: Chat | None = None
    tools: Tools = []  # noqa: RUF012 - pydantic copies it for each body

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise PydanticCustomError("one_of", "exactly one of prompt and messages must be given")
        return self

    @property
    def as_score(self) -> dict[str, Any]:
        """The input as `ScoreRequest` has it, which takes no tools."""
        return {"prompt": self.prompt, "messages": self.messages}

    @property
    def tools_shown(self) -> tuple[dict[str, Any], ...]:
        """Tools as the model's template gets them; raw text shows none."""
        if self.messages is None:
            return ()
        return tools_of(self.tools)


class GuardrailCall(NullIsDefault):
    """One call of LiteLLM's. What else it tells, of its keys and users, is not read."""

    model_config = ConfigDict(extra="ignore")

    input_type: Literal["request", "response"]
    """Whether a model is about to be asked, or has answered."""
    litellm_call_id: CallId
    """By which an answer finds what was asked."""
    texts: Annotated[list[Text], Field(max_length=1024, fail_fast=True)] = []  # noqa: RUF012
    """With response the answers, which are judged one after the other until one does not pass; with
    request the prompt, where there are no `structured_messages`."""
    structured_messages: Chat | None = None
    """What the model was asked. An answer that brings it needs no request before."""
    tools: Tools = []  # noqa: RUF012 - pydantic copies it for each body
    """That the model may call."""
    additional_provider_specific_params: GuardrailParams
    """What passes: LiteLLM's configuration of the guardrail."""
    images: list[Any] = []  # noqa: RUF012 - pydantic copies it for each body
    """None: answers about images are not judged."""
    tool_calls: list[Any] = []  # noqa: RUF012 - pydantic copies it for each body
    """None in an answer."""

    @model_validator(mode="after")
    def _check_readable(self) -> Self:
        is_answer = self.input_type == "response"
        is_prompt = self.structured_messages is not None or (len(self.texts) == 1 and self.texts[0])
        faults = {
            "images": (self.images, "answers about images are not judged here"),
            "tool_calls": (
                is_answer and self.tool_calls,
                "an answer that calls tools is not judged here, texts alone are",
            ),
            "texts": (
                not (self.texts if is_answer else is_prompt),
                "must hold an answer, or, without structured_messages, one prompt",
            ),
        }
        for field, (applies, message) in faults.items():
            if applies:
                raise PydanticCustomError("not_supported", message, {"field": field})
        return self

    @property
    def asked(self) -> Asked | None:
        """What the model was asked; None where an answer does not say."""
        if self.structured_messages is not None:
            return Asked(messages=self.structured_messages, tools=self.tools)
        if self.input_type == "response":
            return None
        return Asked(prompt=self.texts[0])


def score_request(asked: Asked, text: str, params: GuardrailParams) -> ScoreRequest:
    """An answer to what was asked, as `POST /score` would have it."""
    return ScoreRequest.model_validate({"answer": text, **asked.as_score, **params.as_score})
