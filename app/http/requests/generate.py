"""Body of `POST /generate-with-uncertainty`."""

from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from app.http.requests.scoring import OF_MESSAGES, OF_PROMPT, AnswerStrategy, ScoringRequest
from app.scoring.ask import Ask


class GenerateRequest(ScoringRequest):
    """A prompt, and which uncertainty scores are wanted of its answer."""

    mode: Annotated[
        Literal["full", "light"],
        Field(
            description="`light` draws no samples: a probe on the model's hidden states predicts "
            "what they would show."
        ),
    ] = "full"
    strategy: Annotated[
        AnswerStrategy,
        Field(description="Which answer is scored: the greedy one, or one of the samples."),
    ] = "greedy"
    stream: Annotated[
        bool,
        Field(
            description="Server-sent events: `token` as they are written, then `result` or "
            "`error`. With `strategy` greedy or sample, and `on_reject` answer."
        ),
    ] = False

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [OF_PROMPT, OF_MESSAGES],
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
