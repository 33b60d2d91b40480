"""The seam: all that the rest of the service knows of workers.

A `Generator` answers prompts, a `SimilarityScorer` scores pairs of texts. Both are asynchronous,
in this process or another one, ours or an existing engine behind an adapter. Each says what it is
in a frozen `info`, and every reply names the identity of the weights that spoke, so that nobody
takes the numbers of one model for those of another.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from models.engines.protocol import EngineInfo
from models.errors import InvalidRequest, SimilarityUnavailable
from models.probes.card import Card
from models.ranges import Exact, Logprob
from models.records import Generation, GenerationRequest, OnToken, Pair, RawPrompt, Tokenized
from models.similarity.pairs import PairRules

# Of what is about tokens of a prompt, where `EngineInfo.tokenizer` is empty.
NO_TOKENS = "needs a model in this process or in a worker of ours: tokens of others are not known"
# The K values of one pair, and whether it was cut to the model's length.
PairScore = tuple[tuple[float, ...], bool]


@dataclass(frozen=True, slots=True)
class ProbeInfo:
    """A probe that reads a generator's hidden states."""

    id: str  # short name, which changes with the weights
    training_set: str
    layer: int  # k of `hidden_states[k]`
    sha256: str  # of its weights
    # Nats of semantic entropy above which it calls an answer's high; None without a class.
    split: float | None = None
    # Share of answers above the split, among held-out ones of its training set.
    base_rate: float | None = None

    @classmethod
    def of(cls, card: Card) -> Self:
        return cls(
            card.sha256[:12],
            card.training_set,
            card.layer,
            card.sha256,
            split=card.split,
            base_rate=card.metrics.get("test", {}).get("positive_share"),
        )

    @property
    def entropy_split(self) -> dict[str, float | None] | None:
        """What it counts as high entropy, and how much is; None for other probes."""
        if self.split is None:
            return None
        return {"nats": self.split, "base_rate": self.base_rate}


@dataclass(frozen=True, slots=True)
class GeneratorInfo(EngineInfo):
    """Facts about a generator: its engine, or a server behind an adapter, and its probes.

    A field `no_…` has the reason why it cannot do that; "" where it can.
    """

    # By the statistic that each predicts, which is among `statistics`.
    probes: Mapping[str, ProbeInfo] = field(default_factory=dict)
    prompts: str = ""  # sha256 of the calibration's, that it compares others with; "" for none
    # Statistics that it cannot supply, with reasons where there is more to say.
    absent: Mapping[str, str] = field(default_factory=dict)
    # Of an existing server behind an adapter, as they were tried out, by name.
    capabilities: Mapping[str, str | int | bool | None] = field(default_factory=dict)
    no_images: str = "the model in this process or in a worker reads texts alone"
    no_greedy: str = ""
    no_given: str = ""
    parts_calls: bool = False  # from text, so that their tokens may not be known
    no_grammar_logprobs: str = ""


def refuse_unheeded(field: str, reason: str) -> None:
    """Raise `InvalidRequest` for a field that is not heeded for this reason; "" where it is."""
    if reason:
        raise InvalidRequest(f"is not heeded here: {reason}", field=field)


@dataclass(frozen=True, slots=True)
class SimilarityInfo:
    """Facts about a similarity scorer."""

    identity: str  # digest of everything that decides its scores; equal on replicas
    model_id: str  # id or name without a local path
    # Names the weights exactly; None for a function of two texts, which has none and costs less
    # than remembering its scores.
    revision: str | None
    labels: tuple[str, ...]  # names of the K values of a pair
    max_pair_tokens: int | None  # tokens of a pair beyond which it is cut; None where nothing is
    rules: PairRules  # which pairs are known without asking
    # Whether it was made for the answers of another language model only.
    is_out_of_domain: bool = False

    @property
    def is_embedded(self) -> bool:
        """True for a model that ships with the project."""
        return self.model_id == "embedded"


@dataclass(frozen=True, slots=True)
class FirstTokenReply(Exact):
    """Log-probabilities in nats of groups of first tokens, None for a group without tokens."""

    logprobs: tuple[Logprob | None, ...]
    identity: str


@dataclass(frozen=True, slots=True)
class PairReply:
    """Scores of distinct ordered pairs."""

    scores: Mapping[Pair, PairScore]
    identity: str

    def check_finite(self) -> None:
        """Raises `SimilarityUnavailable` where a model has no similarity for a pair."""
        for values, _ in self.scores.values():
            if not all(map(math.isfinite, values)):
                raise SimilarityUnavailable(
                    "the similarity model has no finite number for a pair: it makes a vector of "
                    "zeros of a text, or has failed"
                )


class Watched(Protocol):
    """Work that may hang."""

    @property
    def busy_since(self) -> float | None:
        """Monotonic seconds at which its longest running blocking call began; None without one."""


class Worker(Watched, Protocol):
    """A worker, as the supervisor knows it."""

    async def run(self) -> None:
        """Serve until closed or cancelled; raises where the model is lost.

        All who wait then get `NotReady`, as do all who come later.
        """

    async def warm_up(self) -> None:
        """Ask once for everything, so that no client pays for first-call initialisation."""

    async def close(self) -> None:
        """End `run` and free the model."""


class Generator(Worker, Protocol):
    """Answers prompts, draws samples, reads probes."""

    @property
    def info(self) -> GeneratorInfo: ...

    @property
    def num_waiting(self) -> int:
        """Requests of which nothing has been computed yet."""

    async def generate(
        self, request: GenerationRequest, on_token: OnToken | None = None
    ) -> Generation:
        """Answer and samples of one request.

        `on_token` is called on the event loop with each token of the answer, once and in order, the
        terminating one included; their texts join to its `text`. Cancelling the awaiting task frees
        the request's rows by the next step.

        Raises:
            InvalidRequest: the request does not fit this model; nothing was computed.
            DeadlineExceeded: the request's `timeout_s` has passed.
            InvalidLogits: NaN or infinity among this request's numbers.
            EngineError: the model failed; may be repeated.
            NotReady: the model has stopped.
        """

    async def first_token_logprobs(
        self, request: GenerationRequest, groups: Sequence[Sequence[str]]
    ) -> FirstTokenReply:
        """Log of each group of spellings' summed probability as the prompt's next token.

        One prefill, no decoding. A spelling stands for its first token; a token that two groups
        share counts in neither. Raises as `generate` does.
        """

    async def tokenize(self, prompt: RawPrompt, *, special: bool = True) -> Tokenized:
        """As `Engine.tokenize`; `InvalidRequest`, too, where `info.tokenizer` is empty."""


class SimilarityScorer(Worker, Protocol):
    """Scores ordered pairs of texts, by a model of its own or by a function."""

    @property
    def info(self) -> SimilarityInfo: ...

    async def compare(self, pairs: Sequence[Pair]) -> PairReply:
        """Scores of the distinct pairs.

        Raises:
            SimilarityUnavailable: the model failed on one of these pairs.
            NotReady: the model has stopped.
        """

    async def fit_contexts(self, texts: Sequence[Pair]) -> list[str]:
        """For each (context, text) the longest right part of the context that is not cut.

        It is not cut in a pair of two texts `context + " " + text`. Raises as `compare` does.
        """


class NliScorer(SimilarityScorer, Protocol):
    """The `SimilarityScorer` of natural language inference, which tells of its tokens."""

    async def token_ends(self, texts: Sequence[str]) -> list[list[int]]:
        """For each text the character behind each of its tokens. Raises as `compare` does."""


@dataclass(frozen=True, slots=True)
class Served:
    """The workers of a process: a generator, similarity scorers, an NLI model, or some of them."""

    generator: Generator | None = None
    # Similarity functions by name.
    similarity_scorers: Mapping[str, SimilarityScorer] = field(default_factory=dict)
    nli: NliScorer | None = None

    def by_name(self) -> dict[str, Generator | SimilarityScorer]:
        """All of them, as the supervisor, the log and metrics call them."""
        named: dict[str, Generator | SimilarityScorer] = {}
        if self.generator is not None:
            named["generation"] = self.generator
        for name, similarity_scorer in self.similarity_scorers.items():
            named[f"similarity-{name}"] = similarity_scorer
        if self.nli is not None:
            named["nli"] = self.nli
        return named


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers(Served):
    """The workers of one deployment."""

    generator: Generator
    default_similarity: str  # the function that serves where a request names none
    # The one that serves where a request names none and brings its samples; "" for the default.
    similarity_of_given: str = ""
