"""Pure: the plan of an ask by what can be known of it here; `app.scoring.check` refuses."""

from collections.abc import Sequence
from dataclasses import replace

from app.scoring.ask import Ask
from app.scoring.defaults import OF_SUPPORT, PRIMARY_OF_PARTS, estimators_of, primary_of
from app.scoring.deployment import Deployment
from app.scoring.plan import STRATEGY_NEEDS, Comparing, Plan
from app.scoring.selection import Strategy
from models.estimators import needs
from models.records import SamplingParams
from models.statistics import SENTENCES_READ, STATISTICS, derivable, reads_samples, supplied_by
from models.units.unit import Unit
from workers.protocol import GeneratorInfo

NO_DOCUMENTS = "there are no documents"
_BY_RULES = "no model is asked where documents alone are sent: name estimators, or num_samples"
_OF_LOGPROBS = frozenset({"answer_token_logprobs", "sample_token_logprobs"})
# Statistics that groups of samples are made of.
_EXPLAINED = frozenset({"answer_token_logprobs", "sample_texts", "sample_token_logprobs"})
_EXPLAINED |= {"similarity", "similarity_matrix"}


def make_plan(ask: Ask, deployment: Deployment) -> Plan:
    """The plan of an ask, whether or not the deployment can carry it out."""
    models = deployment.models
    ask = fitted_to(ask, models.generator)
    available = available_statistics(ask, deployment)
    strategy: Strategy = ask.strategy
    if ask.sampling.answer_temperature:
        strategy = "sample"
    if ask.answer is not None:
        strategy = "given"
    similarity = ask.similarity or models.default_similarity
    if ask.samples is not None:
        similarity = ask.similarity or models.similarity_of_given or models.default_similarity
    estimators = estimators_of(ask)
    primary, degraded = ask.primary, False
    if primary is None:
        primary, degraded = primary_of(estimators, available)
    read = needs(estimators) | STRATEGY_NEEDS[strategy]
    plan = Plan(
        ask=ask,
        estimators=estimators,
        primary=primary,
        strategy=strategy,
        similarity=similarity,
        statistics=((read | _shown(ask)) & available) - supplied_by("parts"),
        read=read,
        available=available,
        absent=_absent(ask, models.generator),
        degraded=degraded,
        calibrator=deployment.calibrator,
    )
    if ask.units in (None, "answer"):
        return plan
    return _with_parts(plan, has_nli=models.nli is not None)


def _with_parts(plan: Plan, *, has_nli: bool) -> Plan:
    """The plan with what scores the parts of the answer.

    Sentences have a probe of their own, or at least the probability of their tokens; where there is
    no probe of answers, the light scores of the whole are null with the reason.
    """
    ask, read, available = plan.ask, plan.read, plan.available
    shown = frozenset({"answer_token_texts"})
    of_parts, of_anything = Unit.SUPPLIED, available
    if ask.units == "sentences" and Unit.PREDICTED in read:
        if SENTENCES_READ in available:
            read |= {SENTENCES_READ}
            of_parts |= {Unit.PREDICTED}
        if SENTENCES_READ in available or (ask.estimators is None and ask.primary is None):
            of_anything |= {Unit.PREDICTED}
    compared_by = _scorer_of_parts(ask, read, has_nli=has_nli)
    if compared_by is not None:
        shown |= {"sample_texts"}
    unit_estimators, unit_primary = _of_parts(ask, plan.estimators, of_parts, of_anything)
    return replace(
        plan,
        statistics=plan.statistics | (((read | shown) & available) - supplied_by("parts")),
        read=read,
        available=of_anything,
        unit_estimators=unit_estimators,
        unit_primary=unit_primary,
        parts_compared_by=compared_by,
    )


def fitted_to(ask: Ask, generator: GeneratorInfo) -> Ask:
    """The ask as this generator can answer it, and as the result reports it.

    Where it answers by draws alone, the answer is drawn; where draws are none, it is greedy.
    Samples are drawn for what reads some, and where tokens of calls may not be known.
    """
    is_answered = ask.has_prompt and ask.answer is None
    draws = "sample_texts" in generator.statistics
    drawn_at = ask.sampling.answer_temperature * (is_answered and draws)
    if generator.no_greedy and is_answered and draws and ask.strategy == "greedy" and not ask.light:
        drawn_at = drawn_at or 1.0
    ask = replace(ask, sampling=replace(ask.sampling, answer_temperature=drawn_at))
    reads = reads_samples(needs(estimators_of(ask)))
    if generator.parts_calls and ask.tools and ask.of_tokens:
        ask, reads = replace(ask, primary=ask.primary or OF_SUPPORT), True
    if ask.of_tokens and reads:
        most = max(ask.sampling.num_samples, SamplingParams().num_samples)
        ask = replace(ask, of_tokens=False, sampling=replace(ask.sampling, num_samples=most))
    reads |= ask.units not in (None, "answer") or ask.return_samples or ask.explain
    if drawn_at and ask.num_shown > 1 and not reads:
        ask = replace(ask, sampling=replace(ask.sampling, num_samples=ask.num_shown - 1))
    return ask


def available_statistics(ask: Ask, deployment: Deployment) -> frozenset[str]:
    """All that can be known of an ask here.

    Without a prompt no model answers; a probe reads greedy answers only; given samples have texts,
    and maybe log-probs; of a given answer with log-probs no others are taken.
    """
    sources, generator = frozenset[str](), deployment.models.generator
    if ask.has_prompt:
        sources = generator.statistics - _lost(ask, generator).keys()
    if ask.sampling.answer_temperature or ask.answer is not None:
        sources = sources - supplied_by("probe")
    if ask.answer is not None and generator.no_given:
        sources = sources - supplied_by("answer")
    if ask.answer_token_logprobs is not None:  # of other tokens than the model here would read
        sources = (sources - supplied_by("answer")) | {"answer_token_logprobs"}
    if ask.samples is not None:
        sources = (sources - supplied_by("samples")) | {"sample_texts"}
        if all(sample.token_logprobs is not None for sample in ask.samples):
            sources = sources | {"sample_token_logprobs"}
    if ask.documents is None or _no_closed_book(ask, generator):
        sources = sources - {"closed_book_token_logprobs"}
    if ask.documents is not None:
        sources = sources | {"grounded"}
    return derivable(sources, has_nli=deployment.models.nli is not None)


def _no_closed_book(ask: Ask, generator: GeneratorInfo) -> str:
    """Why the model does not read the answer without the documents; "" where it does."""
    if not ask.has_prompt or ask.answer_token_logprobs is not None:
        return "the model here does not read the answer"
    if ask.grammar is not None:
        return "an answer that is held to a format is read without it, as by another model"
    if ask.has_images:
        return "a prompt with images is not read without its documents"
    return generator.no_given


def _lost(ask: Ask, generator: GeneratorInfo) -> dict[str, str]:
    """Why a generator supplies less of texts under a grammar, and of an answer that is drawn."""
    lost = dict[str, str]()
    if ask.grammar is not None and not ask.tools and generator.no_grammar_logprobs:
        lost = dict.fromkeys(_OF_LOGPROBS, generator.no_grammar_logprobs)
    if ask.sampling.answer_temperature:
        for name in supplied_by("answer"):
            if (of_samples := STATISTICS[name].of_samples or "") in generator.absent:
                lost[name] = generator.absent[of_samples]
    return lost


def _absent(ask: Ask, generator: GeneratorInfo) -> dict[str, str]:
    if ask.by_rules:
        return dict.fromkeys(STATISTICS.keys() - {"grounded"}, _BY_RULES)
    absent = {"grounded": NO_DOCUMENTS, "closed_book_token_logprobs": NO_DOCUMENTS}
    if ask.documents is not None:
        absent = {"closed_book_token_logprobs": _no_closed_book(ask, generator)}
    if not ask.has_prompt or ask.answer_token_logprobs is not None:
        return absent
    if ask.answer is not None and generator.no_given:
        absent |= dict.fromkeys(supplied_by("answer"), generator.no_given)
    absent |= {**_lost(ask, generator), **generator.absent}
    for name, row in STATISTICS.items():
        for source in row.derived_from & absent.keys():
            absent.setdefault(name, absent[source])
    return absent


def _shown(ask: Ask) -> frozenset[str]:
    """Statistics that are returned, whether or not estimators read them."""
    shown: frozenset[str] = frozenset()
    if ask.return_samples:
        shown |= {"sample_texts", "sample_token_logprobs"}
    if ask.explain:
        shown |= _EXPLAINED
    if ask.return_tokens:
        shown |= supplied_by("answer")
    if ask.num_shown > 1:
        shown |= {"sample_texts"}
    if ask.num_shown > 1 and ask.return_tokens:
        shown |= supplied_by("samples")
    return shown


def _of_parts(
    ask: Ask, estimators: Sequence[str], of_parts: frozenset[str], available: frozenset[str]
) -> tuple[tuple[str, ...], str | None]:
    """The estimators that are defined for parts of an answer, and the one that is reported."""
    if ask.claims is not None and not any(claim.quotes for claim in ask.claims):
        available = available - supplied_by("answer")  # their tokens are not known
    defined = [name for name in estimators if needs([name]) <= of_parts]
    for name in (ask.primary, *PRIMARY_OF_PARTS, *defined):
        if name in defined and needs([name]) <= available:
            return tuple(defined), name
    return tuple(defined), next(iter(defined), None)


def _scorer_of_parts(ask: Ask, read: frozenset[str], *, has_nli: bool) -> Comparing | None:
    """What scores the parts of an answer beside its samples; None where nothing does."""
    if ask.light or (ask.of_tokens and ask.samples is None and not reads_samples(read)):
        return None  # none are drawn for the parts alone
    if ask.units == "fields":
        return "similarity"
    if has_nli:
        return "nli"
    return "words"
