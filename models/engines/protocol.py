"""The contract of every engine: blocking calls around one language model.

An engine knows no event loop, no queue of waiters and no deadline; those belong to the worker that
owns it (`workers.generation`). tests/contract/test_engines_*.py run on each implementation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Protocol, TypeVar

from annotated_types import Ge
from pydantic import StringConstraints

from models.errors import CocoaError, InvalidRequest, PromptTooLong
from models.records import (
    DEFAULT_NEW_TOKENS,
    Generation,
    GenerationRequest,
    Grammar,
    RawPrompt,
    Token,
    Tokenized,
)

NO_REASONING = "the model is not known to reason"
NO_GRAMMAR = "no text can be held to a schema by this engine"
# "auto", "off", or a tag, a comma and the other tag.
_REASONING = r"^(auto|off|[^,\s]+\s*,\s*[^,\s]+)$"


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Settings of the language model."""

    engine: str = "transformers"  # key of `models.engines.ENGINES`
    # Hugging Face id, local path, or the name of one that ships with the project
    # (`models.embedded.LANGUAGE_MODELS`).
    model: str = "embedded"
    revision: str | None = None
    # "auto" takes the checkpoint's own, or float32 on a processor without instructions for it.
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    device: str = "auto"  # "auto" takes CUDA where there is one
    attn_implementation: str | None = None
    # The tags around what the model writes before an answer, as "<think>,</think>"; "auto" takes
    # them from its chat template and tokenizer, "off" calls it all answer.
    reasoning: Annotated[str, StringConstraints(pattern=_REASONING)] = "auto"
    # Rows (answers and samples of all requests) that decode together; fewer where their logits
    # would take more than 128 MiB.
    max_rows: Annotated[int, Ge(1)] = 256
    # Bound of rows times the longest row's final length, so of key-value memory.
    max_cache_tokens: Annotated[int, Ge(1)] = 131_072
    # Requests running or waiting before a further one is refused.
    admission_limit: Annotated[int, Ge(1)] = 64
    threads: Annotated[int, Ge(0)] = 0  # intra-op; 0: all cores, half of them where embedded


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """Facts about an engine, which never change while it lives."""

    # Digest of everything that decides an answer: weights, precision, tokenizer, chat template,
    # terminating tokens; equal on replicas.
    identity: str
    model_id: str  # id or name without a local path
    revision: str  # names the weights exactly
    dtype: str  # of the weights, and of what they compute
    statistics: frozenset[str]  # those of `models.statistics` that it can supply
    # Bound of prompt and new tokens, the deployment's own bounds among them.
    max_context_tokens: int
    num_layers: int = 0  # L of the hidden states; 0 where the engine does not show them
    hidden_size: int = 0  # d of the hidden states
    # On which it agreed at its start with the model's own full forward pass; None if not tried.
    self_test_tokens: int | None = None
    # The reason why it cannot heed `max_reasoning_tokens`; "" where it does.
    no_reasoning_limit: str = NO_REASONING
    max_tops: int = 0  # bound of the likeliest tokens that it can report at each place
    no_grammar: str = NO_GRAMMAR  # the reason why no text can follow a grammar; "" where it can
    bounds_samples: bool = False  # whether it heeds `limits_samples`
    # Whether its chat template shows messages before the latest one, as far as that is known.
    takes_turns: bool = True
    # Special tokens and chat template of its tokenizer, by the names of `transformers`; empty where
    # it is not to `tokenize`, nor to read `prompt_ids`.
    tokenizer: Mapping[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Job:
    """One request on its way through an engine."""

    request: GenerationRequest  # as `fitted` gives it back
    streams: bool = False  # whether the answer's tokens are reported as they come
    cancelled: bool = False  # set by the worker; its rows leave before the next step
    # Monotonic seconds at which its first computation began; None while it waits.
    started_at: float | None = None


JobT = TypeVar("JobT", bound=Job)


@dataclass(slots=True)
class StepReport:
    """The outcome of one step."""

    # New ones of the answers that are streamed, each once and in order. The worker reports what an
    # engine leaves out when the job is finished.
    tokens: list[tuple[Job, Token]] = field(default_factory=list)
    finished: list[Job] = field(default_factory=list)  # jobs whose result can be had now
    # Jobs that ended in an error of their own.
    failed: list[tuple[Job, CocoaError]] = field(default_factory=list)
    num_rows: int = 0  # rows that were decoded


class Engine(Protocol[JobT]):
    """A language model that answers prompts and draws samples of the answers.

    `step` and `abandon` are called on one thread, what says so on any, the others on a second one;
    never two calls of the same thread at once.
    """

    @property
    def info(self) -> EngineInfo: ...

    @property
    def is_idle(self) -> bool:
        """True where no job runs or waits, so that a step without new jobs would do nothing."""

    def vocabulary(self) -> str:
        """The vocabulary, which `models.grammar.trial` reads first; on any thread.

        As the next two it is not called where `info.no_grammar` says why.
        """

    def grammar_source(self, grammar: Grammar) -> str:
        """A grammar as `models.grammar.trial` reads it; on any thread."""

    def compile(self, grammar: Grammar) -> None:
        """Have a grammar ready for `prepare`, which has passed its trial; on any thread.

        Raises:
            InvalidRequest: no text can follow it, or it is too large.
        """

    def tokenize(self, prompt: RawPrompt, *, special: bool = True) -> Tokenized:
        """Text and ids of a prompt; those of a text with or without special tokens around it.

        Raises:
            InvalidRequest: an id is none of the model's.
        """

    def prepare(self, request: GenerationRequest, *, streams: bool = False) -> JobT:
        """The job of a request, tokenised.

        Raises:
            InvalidRequest: the request does not fit this model.
        """

    def prepare_first_token(
        self, request: GenerationRequest, groups: Sequence[Sequence[str]]
    ) -> JobT:
        """The job that `first_token_logprobs` reads. Raises as `prepare` does."""

    def step(self, incoming: Sequence[JobT]) -> StepReport:
        """Take the new jobs, drop cancelled ones, and bring all others forward a little.

        Raises:
            ModelLost: no later call can succeed.
            Exception: the step failed; the caller then calls `abandon`.
        """

    def abandon(self) -> None:
        """Forget every job that has started."""

    def generation(self, job: JobT) -> Generation:
        """Answer and samples of a finished job of `prepare`."""

    def first_token_logprobs(self, job: JobT) -> list[float | None]:
        """Log of each group of spellings' summed probability as the prompt's next token.

        A spelling stands for its first token; a token that two groups share counts in neither; a
        group without tokens is None.
        """


def fitted(
    num_prompt: int, num_answer: int, request: GenerationRequest, limits: Mapping[str, int]
) -> GenerationRequest:
    """The request with a `max_new_tokens` that fits: its own one, or the default; see `clamps`.

    All numbers are of tokens; limits are by their names in words.

    Raises:
        PromptTooLong: the request exceeds a limit; names both lengths and the limit.
    """
    num_new = request.sampling.max_new_tokens or DEFAULT_NEW_TOKENS
    sizes = {"answer": num_answer}  # what is refused where it does not fit
    if request.sampling.max_new_tokens and not request.sampling.clamps:
        sizes["max_new_tokens"] = num_new
    for name, limit in limits.items():
        if (room := limit - num_prompt) <= 0:
            field = "prompt" if request.prompt is not None else "messages"
            message = f"the prompt has {num_prompt} tokens, {name} holds {limit}"
            raise PromptTooLong(message, field=field)
        for field, size in sizes.items():
            if size > room:
                words = "the answer has" if field == "answer" else "max_new_tokens is"
                raise PromptTooLong(
                    f"the prompt has {num_prompt} tokens and {words} {size}; "
                    f"{name} holds {limit}: at most {room} new tokens fit",
                    field=field,
                )
        num_new = min(num_new, room)
    return replace(request, sampling=replace(request.sampling, max_new_tokens=num_new))


def check_hidden_layers(request: GenerationRequest, num_layers: int) -> None:
    """Refuse layers that no hidden state can be read of.

    Raises:
        InvalidRequest: a layer outside 0 < k < num_layers, or the mean over a given answer, whose
            steps are never taken.
    """
    layers = request.hidden_layers
    if request.prompt_layer:
        layers = (*layers, request.prompt_layer)
    if not all(0 < layer < num_layers for layer in layers):
        raise InvalidRequest(f"hidden layers must lie between 1 and {num_layers - 1}")
    if request.hidden_layers and request.answer is not None:
        raise InvalidRequest("hidden states are averaged over a greedy answer, not a given one")
