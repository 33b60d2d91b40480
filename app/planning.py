"""Pure: what a request needs computed, decided before any work."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.schemas import DEFAULT_ESTIMATORS, LIGHT_ESTIMATORS, GenerateRequest, ScoreRequest
from models.errors import InvalidRequest, ProbeMissing, StatisticUnavailable
from models.estimators import needs
from models.records import (
    ANSWER_STATISTICS,
    PROBE_STATISTICS,
    SAMPLE_STATISTICS,
    GenerationRequest,
    SamplingParams,
)
from models.selection import Strategy

# Below these the sampling law is the greedy one, and consistency 0 by construction.
MIN_SAMPLING_TEMPERATURE = 0.05
MIN_SAMPLING_TOP_P = 0.05

# Reported as `uncertainty` where the client names none: the first of these that is scored.
_PRIMARY = ("cocoa_ppl", "cocoa_ppl_light")

SIMILARITY_STATISTICS = frozenset(
    {"similarity", "similarity_matrix", "token_relevance", "sample_token_relevance"}
)
NLI_STATISTICS = frozenset(
    {"entailment", "contradiction", "answer_entailment", "answer_contradiction"}
)

# What each derived statistic is computed from.
SOURCES = {
    **dict.fromkeys(
        ("similarity", "similarity_matrix", "exact_match", *NLI_STATISTICS),
        frozenset({"sample_texts"}),
    ),
    "token_relevance": frozenset({"answer_token_texts"}),
    "sample_token_relevance": frozenset({"sample_token_texts"}),
}
# What choosing y* among the samples reads.
STRATEGY_NEEDS: dict[Strategy, frozenset[str]] = {
    "greedy": frozenset(),
    "most_probable": frozenset({"sample_token_logprobs"}),
    "most_probable_normalized": frozenset({"sample_token_logprobs"}),
    "mbr": frozenset({"similarity_matrix"}),
    "given": frozenset(),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is computed for one request, and nothing else.

    Attributes:
        estimators: names to score, the primary among them.
        primary: the one reported as `uncertainty`.
        strategy: how y* is chosen, a key of `STRATEGY_NEEDS`.
        statistics: all that estimators, strategy and returned fields read, derived ones included.
        similarity: name of the similarity function; None takes the deployment's default.
        returned: those of the statistics that only returned fields read.
    """

    estimators: tuple[str, ...]
    primary: str
    strategy: Strategy
    statistics: frozenset[str]
    similarity: str | None
    returned: frozenset[str] = frozenset()

    @property
    def is_sampled(self) -> bool:
        """Whether y* is one of the samples."""
        return self.strategy not in ("greedy", "given")

    @property
    def engine_statistics(self) -> frozenset[str]:
        """What the engine is asked for; a sampled y* takes its own from the samples."""
        sources = frozenset().union(
            *(SOURCES.get(name, frozenset({name})) for name in self.statistics)
        )
        if self.is_sampled:
            sources = frozenset(name.replace("answer_", "sample_") for name in sources) | {
                "sample_texts"
            }
        return sources & (ANSWER_STATISTICS | SAMPLE_STATISTICS | PROBE_STATISTICS)


def make_plan(request: GenerateRequest | ScoreRequest, available: frozenset[str]) -> Plan:
    """The plan of a request in a deployment that can supply `available` statistics.

    Raises:
        StatisticUnavailable: an estimator that the client named reads what this deployment cannot
            supply.
        InvalidRequest: sampling parameters under which consistency would be 0 by construction, or
            light mode with something that needs samples.
    """
    strategy: Strategy = "given" if isinstance(request, ScoreRequest) else request.answer
    estimators = _estimators(request, available)
    if isinstance(request, GenerateRequest):
        _check_light(request, estimators)
    # Scoring what a client has is best effort: what it did not bring is null with its reason.
    if strategy != "given":
        _check_available(request, estimators, available)
    wanted = needs(estimators) | STRATEGY_NEEDS[strategy]
    if reads_samples(wanted) and not (
        isinstance(request, ScoreRequest) and request.samples is not None
    ):
        _check_sampling(request)
    shown: frozenset[str] = frozenset()
    if request.return_samples:
        shown |= {"sample_texts", "sample_token_logprobs"}
    if request.return_tokens:
        shown |= ANSWER_STATISTICS
    return Plan(
        estimators=estimators,
        primary=request.estimator
        or next((name for name in _PRIMARY if name in estimators), estimators[0]),
        strategy=strategy,
        statistics=(wanted | shown) & available,
        similarity=request.similarity,
        returned=(shown - wanted) & available,
    )


def generation_request(
    request: GenerateRequest | ScoreRequest,
    statistics: frozenset[str],
    answer_ids: tuple[int, ...] | None = None,
) -> GenerationRequest:
    """What the engine is asked for."""
    messages = None
    if request.messages is not None:
        messages = tuple(
            {"role": message.role, "content": message.content} for message in request.messages
        )
    return GenerationRequest(
        prompt=request.prompt,
        messages=messages,
        chat_template_kwargs=request.chat_template_kwargs or {},
        sampling=SamplingParams(
            num_samples=request.num_samples,
            max_new_tokens=request.max_new_tokens,
            temperature=request.temperature,
            top_k=request.top_k,
            top_p=request.top_p,
            stop=tuple(request.stop),
            seed=request.seed,
        ),
        statistics=statistics,
        answer_ids=answer_ids,
    )


def derivable(sources: frozenset[str], *, has_nli: bool) -> frozenset[str]:
    """The sources, and all that can be computed from them."""
    derived = {name for name, needed in SOURCES.items() if needed <= sources}
    return sources | (derived if has_nli else derived - NLI_STATISTICS)


def missing_statistics(estimator: str, available: frozenset[str]) -> list[str]:
    """Statistics that an estimator reads and this deployment cannot supply."""
    return sorted(needs([estimator]) - available)


def reads_samples(statistics: frozenset[str]) -> bool:
    """Whether any of the statistics is computed from samples."""
    return any(SAMPLE_STATISTICS & ({name} | SOURCES.get(name, frozenset())) for name in statistics)


def is_light(request: GenerateRequest | ScoreRequest) -> bool:
    """Whether the request asks for light mode; scoring a given answer has none."""
    return isinstance(request, GenerateRequest) and request.mode == "light"


def _estimators(
    request: GenerateRequest | ScoreRequest, available: frozenset[str]
) -> tuple[str, ...]:
    names = request.estimators
    if names is None and is_light(request):
        extra = (
            ["high_semantic_entropy_light"]
            if "predicted_high_semantic_entropy" in available
            else []
        )
        names = [*LIGHT_ESTIMATORS, *extra]
    elif names is None:
        names = DEFAULT_ESTIMATORS
    return tuple(dict.fromkeys([*names, request.estimator] if request.estimator else names))


def _check_available(
    request: GenerateRequest | ScoreRequest, estimators: Sequence[str], available: frozenset[str]
) -> None:
    named = (
        estimators
        if request.estimators is not None
        else [request.estimator]
        if request.estimator
        else []
    )
    # All that light mode is for stands and falls with a probe; null scores would hide that there is
    # none.
    for name in estimators if is_light(request) else named:
        missing = missing_statistics(name, available)
        if PROBE_STATISTICS & set(missing):
            raise ProbeMissing(
                f"{name} needs a probe for this model, and none is loaded: train one with "
                "`cocoa probe collect` and `cocoa probe train`",
                field=_named_by(name, request),
            )
        if missing:
            raise StatisticUnavailable(
                f"{name} reads {', '.join(missing)}, which this deployment cannot supply",
                field=_named_by(name, request),
            )


def _named_by(estimator: str, request: GenerateRequest | ScoreRequest) -> str:
    """The field of the request by which an estimator came in."""
    if estimator in (request.estimators or ()):
        return "estimators"
    return "estimator" if estimator == request.estimator else "mode"


def _check_light(request: GenerateRequest, estimators: Sequence[str]) -> None:
    """Light mode draws no samples, and a probe reads the greedy answer only."""
    if request.answer != "greedy" and (
        reading := [n for n in estimators if needs([n]) & PROBE_STATISTICS]
    ):
        raise InvalidRequest(
            f"must be greedy for {reading[0]}, which reads the greedy answer", field="answer"
        )
    if request.mode != "light":
        return
    if request.answer != "greedy":
        raise InvalidRequest("must be greedy in light mode, which draws no samples", field="answer")
    if sampled := [name for name in estimators if reads_samples(needs([name]))]:
        raise InvalidRequest(
            f"{sampled[0]} reads samples, which light mode does not draw",
            field=_named_by(sampled[0], request),
        )
    if request.return_samples:
        raise InvalidRequest(
            "must be false in light mode, which draws no samples", field="return_samples"
        )


def _check_sampling(request: GenerateRequest | ScoreRequest) -> None:
    because = "for estimators that read samples: below, every sample repeats the answer"
    if request.temperature < MIN_SAMPLING_TEMPERATURE:
        raise InvalidRequest(
            f"must be at least {MIN_SAMPLING_TEMPERATURE} {because}", field="temperature"
        )
    if request.top_k == 1:
        raise InvalidRequest(f"must be 0 or at least 2 {because}", field="top_k")
    if request.top_p < MIN_SAMPLING_TOP_P:
        raise InvalidRequest(f"must be at least {MIN_SAMPLING_TOP_P} {because}", field="top_p")
