"""Pure: what an ask needs computed, decided before any work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from app.scoring.ask import PARTS, Ask
from app.scoring.defaults import (
    PRIMARY_OF_PARTS,
    estimators_of,
    primary_of,
    primary_of_reasoned,
)
from app.scoring.limits import check_available, check_light, check_sampling, named_by
from models.errors import Forbidden, InvalidRequest, StatisticUnavailable
from models.estimators import FOUND_MASS_NEEDS, needs
from models.selection import Strategy
from models.statistics import (
    ANSWER_STATISTICS,
    PROBE_STATISTICS,
    SAMPLE_STATISTICS,
    SENTENCES_READ,
    STATISTICS,
    Source,
    derivable,
    reads_samples,
    sources_of,
    supplied_by,
)
from models.units.unit import PREDICTED, UNIT_STATISTICS, Kind

# What choosing y* among the samples reads.
STRATEGY_NEEDS: dict[Strategy, frozenset[str]] = {
    "greedy": frozenset(),
    "sample": frozenset({"sample_texts"}),
    "most_probable": frozenset({"sample_token_logprobs"}),
    "most_probable_normalized": frozenset({"sample_token_logprobs"}),
    "mbr": frozenset({"similarity_matrix"}),
    "given": frozenset(),
}
# What groups of samples are made of.
_EXPLAINED = frozenset(
    {
        "answer_token_logprobs",
        "sample_texts",
        "sample_token_logprobs",
        "similarity",
        "similarity_matrix",
    }
)
# What says how far samples have the same in the place of a part.
_COMPARED_BY: Mapping[Kind, Literal["similarity", "nli"]] = {
    "field": "similarity",
    "sentence": "nli",
    "claim": "nli",
}
# Statistics that a generator is asked for in one go; `p_true_logprob` is a question of its own.
_GENERATED = supplied_by("answer", "samples", "probe")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is computed for one ask, and nothing else.

    Attributes:
        estimators: names to score, the primary among them.
        primary: the one whose value is the uncertainty.
        strategy: how y* is chosen.
        similarity: name of the similarity function.
        statistics: all that estimators, strategy and returned fields read, derived ones included.
        returned: those of the statistics that only returned fields read.
        degraded: whether the primary is a weaker one than would be reported if all could be known.
        is_reasoned: whether the answer has turned out to have a reasoning before it.
        unit_estimators: those of `estimators` that are defined for parts of an answer; empty where
            none are wanted.
        unit_primary: the one whose value is the uncertainty of a part.
        parts_compared_by: what compares parts with what the samples have in their place; None where
            they are not.
    """

    estimators: tuple[str, ...]
    primary: str
    strategy: Strategy
    similarity: str
    statistics: frozenset[str]
    returned: frozenset[str] = frozenset()
    degraded: bool = False
    is_reasoned: bool = False
    unit_estimators: tuple[str, ...] = ()
    unit_primary: str | None = None
    parts_compared_by: Literal["similarity", "nli"] | None = None

    @property
    def is_sampled(self) -> bool:
        """Whether y* is one of the samples."""
        return self.strategy not in ("greedy", "given")

    @property
    def generated(self) -> frozenset[str]:
        """What the generator is asked for; a sampled y* takes its statistics from the samples."""
        sources = sources_of(self.statistics)
        if self.is_sampled:
            sources = frozenset(STATISTICS[name].of_samples or name for name in sources)
            sources |= {"sample_texts"}
        return sources & _GENERATED

    def asks(self, source: Literal["similarity", "nli"]) -> bool:
        """Whether these compare anything, be it parts."""
        return source == self.parts_compared_by or self.reads(source)

    def reads(self, *sources: Source) -> bool:
        """Whether any planned statistic is of these sources, such as "similarity" or "nli"."""
        return not self.statistics.isdisjoint(supplied_by(*sources))


def available_statistics(ask: Ask, supplied: frozenset[str], *, has_nli: bool) -> frozenset[str]:
    """What can be known of an ask where a generator supplies these statistics.

    Without a prompt no model is asked; a probe reads greedy answers only; samples that are brought
    along have texts, and maybe log-probs; of an answer with its own log-probs no others are taken.
    """
    sources: frozenset[str] = frozenset()
    if ask.has_prompt:
        sources = supplied
    if ask.answer is not None:
        sources = sources - PROBE_STATISTICS
    if ask.answer_token_logprobs is not None:  # of other tokens than the model here would read
        sources = (sources - ANSWER_STATISTICS) | {"answer_token_logprobs"}
    if ask.samples is not None:
        sources = (sources - SAMPLE_STATISTICS) | {"sample_texts"}
        if all(sample.token_logprobs is not None for sample in ask.samples):
            sources = sources | {"sample_token_logprobs"}
    return derivable(sources, has_nli=has_nli)


def make_plan(
    ask: Ask,
    available: frozenset[str],
    default_similarity: str,
    absent: Mapping[str, str] = MappingProxyType({}),
) -> Plan:
    """The plan of an ask.

    Args:
        ask: that is planned.
        available: statistics of it that can be known.
        default_similarity: where it names none.
        absent: of the others, why the generator does not supply them, where it says so.

    Raises:
        StatisticUnavailable: a named estimator or the strategy reads what cannot be supplied here.
        InvalidRequest: sampling parameters under which consistency would be 0 by construction, or
            light mode with something that needs samples.
    """
    strategy = ask.strategy
    if ask.answer is not None:
        strategy = "given"
    estimators = estimators_of(ask)
    check_light(ask, estimators)
    wanted = needs(estimators) | STRATEGY_NEEDS[strategy]
    # Sentences have a probe of their own, or at least the probability of their tokens; where there
    # is no probe of answers, the light scores of the whole are null with the reason.
    of_anything = available
    if ask.units == "sentences" and PREDICTED in wanted:
        wanted |= {SENTENCES_READ} & available
        if SENTENCES_READ in available or (ask.estimators is None and ask.primary is None):
            of_anything |= {PREDICTED}
    # Scoring what exists already is best effort: what was not brought is null with its reason.
    if strategy != "given":
        check_available(ask, estimators, of_anything, absent)
    if missing := STRATEGY_NEEDS[strategy] - available:
        message = f"{strategy} reads {', '.join(sorted(missing))}, which cannot be supplied here"
        raise StatisticUnavailable(message, field="strategy")
    if reads_samples(wanted) and ask.samples is None and ask.sampling.stop_mass is not None:
        if missing := FOUND_MASS_NEEDS - available:
            message = f"auto reads {', '.join(sorted(missing))}, which cannot be supplied here"
            raise StatisticUnavailable(message, field="num_samples")
        wanted |= FOUND_MASS_NEEDS
    shown: frozenset[str] = frozenset()
    if ask.return_samples:
        shown |= {"sample_texts", "sample_token_logprobs"}
    if ask.explain:
        shown |= _EXPLAINED
    if ask.return_tokens:
        shown |= ANSWER_STATISTICS
    unit_estimators: tuple[str, ...] = ()
    unit_primary: str | None = None
    if ask.splits_claims and not ask.has_prompt:
        raise InvalidRequest("no model splits the answer: send a prompt, or claims", field="units")
    parts_compared_by = _comparer_of_parts(ask, wanted, available)
    if ask.units not in (None, "answer"):
        of_parts = UNIT_STATISTICS
        if SENTENCES_READ in wanted:
            of_parts |= {PREDICTED}
        unit_estimators, unit_primary = _of_parts(ask, estimators, of_parts, of_anything)
        shown |= {"answer_token_texts"}
    if parts_compared_by is not None:
        shown |= {"sample_texts"}
    if reads_samples((wanted | shown) & available) and ask.samples is None:
        check_sampling(ask)
    primary, degraded = ask.primary, False
    if primary is None:
        primary, degraded = primary_of(estimators, available)
    return Plan(
        estimators=estimators,
        primary=primary,
        strategy=strategy,
        similarity=ask.similarity or default_similarity,
        statistics=(wanted | shown) & available,
        returned=(shown - wanted) & available,
        degraded=degraded,
        unit_estimators=unit_estimators,
        unit_primary=unit_primary,
        parts_compared_by=parts_compared_by,
    )


def check_modes(ask: Ask) -> None:
    """Refuse what is of a mode that the caller may not ask for.

    Raises:
        Forbidden: names the mode.
    """
    modes = ask.caller.modes
    if ask.mode not in modes:
        raise Forbidden(f"this key may not ask for mode {ask.mode}", field="light")
    if "light" in modes:
        return
    for name in estimators_of(ask):
        if needs([name]) & PROBE_STATISTICS:
            message = f"this key may not ask for mode light, and {name} is of that mode"
            raise Forbidden(message, field=named_by(name, ask))


def check_streamed(ask: Ask, plan: Plan) -> None:
    """Refuse an ask whose answer is not certain while it is written.

    Raises:
        InvalidRequest: y* is chosen among finished samples, or may be held back or replaced.
    """
    if plan.is_sampled and plan.strategy != "sample":
        message = "must be greedy or sample where tokens are streamed: others choose among samples"
        raise InvalidRequest(message, field="strategy")
    if ask.on_reject != "answer":
        message = "must be answer where tokens are streamed: they are read before the decision"
        raise InvalidRequest(message, field="on_reject")
    if ask.on_unit_reject != "keep":
        message = "must be keep where tokens are streamed: they are read before the decision"
        raise InvalidRequest(message, field="on_unit_reject")


def for_reasoned(plan: Plan, ask: Ask, *, answer: bool) -> Plan:
    """The plan once the answer, or a sample alone, has turned out to have a reasoning before it.

    An uncertainty that nobody named is then one that does not weigh answers by probability.
    """
    primary = plan.primary
    if ask.primary is None and "sample_token_logprobs" in needs([primary]):
        primary = primary_of_reasoned(plan.estimators) or primary
    return replace(plan, primary=primary, is_reasoned=answer)


def _of_parts(
    ask: Ask, estimators: Sequence[str], of_parts: frozenset[str], available: frozenset[str]
) -> tuple[tuple[str, ...], str | None]:
    """The estimators that are defined for parts of an answer, and the one that is reported.

    Args:
        ask: that wants parts.
        estimators: of it.
        of_parts: statistics that a part supplies.
        available: statistics that can be known.

    Raises:
        InvalidRequest: neither samples nor tokens of the answer can be known.
    """
    if available.isdisjoint({"sample_texts", "answer_token_texts"}):
        message = "needs samples, or a prompt: of parts of the answer nothing is known without"
        raise InvalidRequest(message, field="units")
    if ask.claims is not None and not any(one.quotes for one in ask.claims):
        available = available - ANSWER_STATISTICS  # nobody knows which tokens are theirs
    defined = [name for name in estimators if needs([name]) <= of_parts]
    for name in (ask.primary, *PRIMARY_OF_PARTS, *defined):
        if name in defined and needs([name]) <= available:
            return tuple(defined), name
    return tuple(defined), next(iter(defined), None)


def _comparer_of_parts(
    ask: Ask, wanted: frozenset[str], available: frozenset[str]
) -> Literal["similarity", "nli"] | None:
    """What compares the parts of an answer with its samples; None where nothing does.

    Raises:
        StatisticUnavailable: an NLI model is to do it, and there is none.
    """
    if ask.units in (None, "answer") or ask.light:
        return None
    if ask.of_tokens and ask.samples is None and not reads_samples(wanted):
        return None  # none are drawn for the parts alone
    compared_by = _COMPARED_BY[PARTS[ask.units]]
    if compared_by == "nli" and "sample_texts" in available and "entailment" not in available:
        message = f"{ask.units} need an NLI model, and none is loaded: see COCOA_NLI__MODEL"
        raise StatisticUnavailable(message, field="units")
    return compared_by
