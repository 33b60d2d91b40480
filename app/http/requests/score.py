"""Bodies of `POST /score`."""

from dataclasses import replace
from typing import Annotated, Any, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from app.http.requests.fields import NULL, Body, TokenLogprobs, encodable
from app.http.requests.scoring import OF_MESSAGES, OF_PROMPT, ScoringRequest
from app.scoring.ask import Ask, GivenSample
from models.records import GivenAnswer

_WITHOUT_PROMPT: JsonDict = {"prompt": NULL, "messages": NULL, "chat_template_kwargs": NULL}
_OF_SAMPLES: JsonDict = {
    "required": ["samples"],
    "properties": {**_WITHOUT_PROMPT, "samples": {"type": "array"}},
}


_OF_LOGPROBS: JsonDict = {
    "required": ["answer_token_logprobs"],
    "properties": {**_WITHOUT_PROMPT, "answer_token_logprobs": {"type": "array"}},
}


class ClientSample(Body):
    """A sample that the client brings; its log-probs, in nats, where it has them."""

    text: Annotated[
        str, Field(description="As it continues the prompt."), AfterValidator(encodable)
    ]
    token_logprobs: Annotated[
        TokenLogprobs | None, Field(description="Log-prob of each token, in nats.")
    ] = None

    def to_given(self) -> GivenSample:
        """The sample as an ask brings it."""
        logprobs = None if self.token_logprobs is None else tuple(self.token_logprobs)
        return GivenSample(self.text, logprobs)


class ScoreRequest(ScoringRequest):
    """An answer that exists already.

    Without prompt and messages no model is asked, and `samples` or `answer_token_logprobs` must be
    given.
    """

    answer: Annotated[
        str,
        Field(description="The text to be scored, as it continues the prompt."),
        AfterValidator(encodable),
    ]
    append_eos: Annotated[
        bool, Field(description="Whether the answer ends there; its end then counts.")
    ] = True
    answer_token_logprobs: Annotated[
        TokenLogprobs | None,
        Field(
            description="Log-prob of each token, in nats, of whoever wrote the answer, its end "
            "included; the model here does not read the answer then."
        ),
    ] = None
    samples: Annotated[
        list[ClientSample] | None,
        Field(
            min_length=1,
            max_length=64,
            fail_fast=True,
            description="Other answers to the same prompt. Default: some are drawn here.",
        ),
    ] = None

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [OF_PROMPT, OF_MESSAGES, _OF_SAMPLES, _OF_LOGPROBS]}
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


class ScoreBatch(Body):
    """Several answers in one call; each is checked on its own."""

    items: Annotated[
        list[Any],
        Field(
            min_length=1,
            max_length=64,
            description="Bodies of `ScoreRequest`; a fault of one fails that one alone.",
        ),
    ]
