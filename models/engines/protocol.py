"""The contract of every engine.

tests/contract/test_engines.py runs on each implementation, the fake first.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from annotated_types import Ge

from models.errors import InvalidRequest
from models.records import Generation, GenerationRequest, OnToken

OnStep = Callable[
    [int], None
]  # told after each step how many rows it decoded; 0 when the batch has run empty


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What a deployment says about its language model.

    Attributes:
        engine: key of `models.engines.ENGINES`.
        model: Hugging Face id, local path, or "embedded" for the model that ships with the project.
        dtype: "auto" takes the checkpoint's own.
        device: "auto" takes CUDA where there is one.
        max_rows: rows (answers and samples of all requests) that decode together.
        max_cache_tokens: bound of rows times the longest row's final length, so of key-value
            memory.
        admission_limit: requests running or waiting before a further one is refused.
        threads: intra-op threads; 0 divides the cores among the models of the process.
    """

    engine: str = "transformers"
    model: str = "embedded"
    revision: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = "auto"
    attn_implementation: str | None = None
    max_rows: Annotated[int, Ge(1)] = 256
    max_cache_tokens: Annotated[int, Ge(1)] = 131_072
    admission_limit: Annotated[int, Ge(1)] = 64
    threads: Annotated[int, Ge(0)] = 0


class Engine(Protocol):
    """A language model that answers one prompt and draws samples of the answer.

    Attributes:
        model_id: id or name without a local path.
        revision: what names the weights exactly; None where nothing does.
        statistics: those it can supply.
        max_context_tokens: bound of prompt and new tokens.
        num_waiting: requests of which nothing has been computed yet.
        dtype: of the weights, and of what they compute.
        num_layers, hidden_size: L and d of the hidden states; 0 without the statistic
            `answer_hidden_mean`.
    """

    model_id: str
    revision: str | None
    statistics: frozenset[str]
    max_context_tokens: int
    dtype: str
    num_layers: int
    hidden_size: int

    @property
    def num_waiting(self) -> int: ...

    @property
    def busy_since(self) -> float | None:
        """Monotonic seconds at which the current blocking call began; None where none runs."""

    async def run(self) -> None:
        """Serve `generate` calls until `close`.

        Raises where the model is lost, after failing every waiter.
        """

    async def generate(
        self, request: GenerationRequest, on_token: OnToken | None = None
    ) -> Generation:
        """Answer and samples of one request.

        `on_token` is called on the event loop with each new piece of the answer's text; the pieces
        join to `text`. Cancelling the awaiting task frees the request's rows by the next step.

        Raises:
            InvalidRequest: the request does not fit this model; nothing was computed.
            InvalidLogits: NaN or infinity in a row of this request.
            EngineError: a step failed; may be repeated.
        """

    async def first_token_logprobs(
        self, request: GenerationRequest, groups: Sequence[Sequence[str]]
    ) -> list[float | None]:
        """Log of each group of spellings' summed probability as the prompt's next token.

        It takes one prefill and no decoding.

        A spelling stands for its first token; a token that two groups share counts in neither; an
        empty group is None.
        """

    async def encode_answer(self, text: str, *, append_eos: bool) -> tuple[int, ...]:
        """Token ids of an answer that exists already, for `GenerationRequest.answer_ids`."""

    async def close(self) -> None:
        """End `run`, fail what still waits, free the model."""


def check_hidden_layers(request: GenerationRequest, num_layers: int) -> None:
    """Refuse layers that no hidden state can be read of.

    Raises:
        InvalidRequest: a layer outside 0 < k < num_layers, or a given answer, whose steps are never
            taken.
    """
    if not all(0 < layer < num_layers for layer in request.hidden_layers):
        raise InvalidRequest(f"hidden layers must lie between 1 and {num_layers - 1}")
    if request.hidden_layers and request.answer_ids is not None:
        raise InvalidRequest(
            "hidden states are averaged over a greedy answer, not over a given one"
        )
