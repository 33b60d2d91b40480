"""Pure: all that follows from an ask before any work, derived once; `app.scoring.check` refuses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import Any, Literal

from app.scoring.ask import PARTS, Ask
from app.scoring.defaults import (
    OF_DOCUMENTS,
    OF_SUPPORT,
    PRIMARY_OF_PARTS,
    estimators_of,
    primary_of,
    primary_of_reasoned,
)
from app.scoring.deployment import Deployment
from app.scoring.selection import Strategy
from models.calibration import ALL, Binding, Calibration, Calibrator
from models.estimators import needs
from models.records import DEFAULT_NEW_TOKENS, GenerationRequest, SamplingParams
from models.statistics import (
    SENTENCES_READ,
    STATISTICS,
    Source,
    derivable,
    reads_samples,
    sources_of,
    supplied_by,
)
from models.units.unit import Kind, Unit
from workers.protocol import GeneratorInfo

# Statistics by which y* is chosen among the samples.
STRATEGY_NEEDS: dict[Strategy, frozenset[str]] = {
    "greedy": frozenset(),
    "sample": frozenset({"sample_texts"}),
    "most_probable": frozenset({"sample_token_logprobs"}),
    "most_probable_normalized": frozenset({"sample_token_logprobs"}),
    "mbr": frozenset({"similarity_matrix"}),
    "given": frozenset(),
}
# The text beside which samples have a limit; another strategy may choose any of them.
_BOUNDED_BY: Mapping[Strategy, int] = {"greedy": 0, "sample": 1}
# A larger limit changes nothing but the texts that ended at the smaller one: these may be so many.
MAX_SHARE_CUT = 0.01
NO_CALIBRATOR = (
    "no calibrator is loaded: see COCOA_CALIBRATOR; `cocoa calibrate` makes one of labelled answers"
)
NO_DOCUMENTS = "there are no documents"
BY_RULES = "no model is asked where documents alone are sent: name estimators, or num_samples"
# Statistics that groups of samples are made of.
_EXPLAINED = frozenset({"answer_token_logprobs", "sample_texts", "sample_token_logprobs"})
_EXPLAINED |= {"similarity", "similarity_matrix"}
# The similarity scorer of a part with its counterparts in the samples; "words" needs no model.
Comparing = Literal["similarity", "nli", "words"]
_COMPARED_BY: dict[Kind, Comparing] = {"field": "similarity", "sentence": "nli", "claim": "nli"}
# Statistics that a generator supplies in one reply; `p_true_logprob` needs one of its own.
_GENERATED = supplied_by("answer", "samples", "probe")


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The calibration of an estimator, and the settings that bind it."""

    calibrator: Calibrator
    binding: Binding
    calibration: Calibration


@dataclass(frozen=True)
class Plan:
    """All that follows from an ask: its computation, and the judge of its scores."""

    ask: Ask
    estimators: tuple[str, ...]  # names to score, the primary among them
    primary: str
    strategy: Strategy
    similarity: str
    statistics: frozenset[str]  # all that is computed, derived ones included
    # All that estimators and the strategy read, be it known here or not; of `statistics` the
    # others are for returned fields only.
    read: frozenset[str]
    available: frozenset[str] = frozenset()  # all that can be known of the answer or its parts
    # The generator's reasons for what cannot be.
    absent: Mapping[str, str] = field(default_factory=dict)
    # The primary is a weaker one than would be reported if all could be known.
    degraded: bool = False
    is_reasoned: bool = False  # the answer has turned out to have a reasoning before it
    # Those of `estimators` that are defined for parts of an answer; empty where none are wanted.
    unit_estimators: tuple[str, ...] = ()
    unit_primary: str | None = None  # the one whose value is the uncertainty of a part
    # What scores parts beside their counterparts in the samples; None where they are not
    # compared.
    parts_compared_by: Comparing | None = None
    calibrator: Calibrator | None = None

    @property
    def is_sampled(self) -> bool:
        return self.strategy not in ("greedy", "given")

    @cached_property
    def calibrated(self) -> Calibrated | str:
        """The calibration of the primary, or why there is none."""
        return _calibrated(self, self.primary, "answer")

    @cached_property
    def unit_calibrated(self) -> Calibrated | str:
        """The calibration of the parts of the answer, or why there is none."""
        if self.unit_primary == OF_DOCUMENTS and self.primary != OF_DOCUMENTS:
            return f"{OF_DOCUMENTS} does not tell what is right: it judges where you name it alone"
        return _calibrated(self, self.unit_primary, PARTS[self.ask.units])

    @cached_property
    def generated(self) -> frozenset[str]:
        """Statistics of the generator; a sampled y* takes its own from the samples."""
        sources = sources_of(self.statistics)
        if self.is_sampled:
            sources = frozenset(STATISTICS[name].of_samples or name for name in sources)
            sources |= {"sample_texts"}
        return sources & _GENERATED

    @cached_property
    def request(self) -> GenerationRequest:
        """The request to the generator, where one is sent."""
        return generation_request(self.ask, self.generated)

    @property
    def given_texts(self) -> list[str]:
        """Texts that came with the ask to be scored or compared, the answer last."""
        texts = list(map(itemgetter("text"), self.ask.documents or ()))
        texts += map(attrgetter("text"), self.ask.samples or ())
        if self.ask.answer is not None:
            texts.append(self.ask.answer.text)
        return texts

    @property
    def num_rows(self) -> int:
        if self.ask.samples is not None:
            return 1 + len(self.ask.samples)
        if not self.ask.has_prompt:
            return 1
        return 1 + self.request.num_samples

    def asks(self, source: Literal["similarity", "nli"]) -> bool:
        """True where this source compares anything, be it parts."""
        return source == self.parts_compared_by or self.reads(source)

    def reads(self, *sources: Source) -> bool:
        """True where any planned statistic is of these sources, such as "similarity" or "nli"."""
        return not self.statistics.isdisjoint(supplied_by(*sources))

    def for_reasoned(self, *, answer: bool) -> "Plan":
        """The plan once the answer, or a sample alone, has turned out to have a reasoning before.

        A default uncertainty is then one that does not weigh answers by probability.
        """
        primary = self.primary
        if self.ask.primary is None and "sample_token_logprobs" in needs([primary]):
            primary = primary_of_reasoned(self.estimators) or primary
        return replace(self, primary=primary, is_reasoned=answer)


def make_plan(ask: Ask, deployment: Deployment) -> Plan:
    """The plan of an ask, whether or not the deployment can carry it out."""
    models = deployment.models
    ask = fitted_to(ask, models.generator)
    available = available_statistics(ask, deployment)
    strategy: Strategy = ask.strategy
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
    compared_by = _similarity_scorer_of_parts(ask, read, has_nli=has_nli)
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


_OF_LOGPROBS = frozenset({"answer_token_logprobs", "sample_token_logprobs"})


def fitted_to(ask: Ask, generator: GeneratorInfo) -> Ask:
    """The ask as this generator can answer it, and as the result reports it.

    Where it answers by draws alone, the answer is a sample; where draws are none, the greedy one.
    Samples are drawn for what reads some, and where tokens of calls may not be known.
    """
    is_answered = ask.has_prompt and ask.answer is None
    draws = "sample_texts" in generator.statistics
    if generator.no_greedy and draws and is_answered and ask.strategy == "greedy" and not ask.light:
        ask = replace(ask, strategy="sample")
    if is_answered and ask.strategy == "sample" and not draws:
        ask = replace(ask, strategy="greedy")
    reads = reads_samples(needs(estimators_of(ask)))
    if generator.parts_calls and ask.tools and ask.of_tokens:
        ask, reads = replace(ask, primary=ask.primary or OF_SUPPORT), True
    if ask.of_tokens and reads:
        most = max(ask.sampling.num_samples, SamplingParams().num_samples)
        ask = replace(ask, of_tokens=False, sampling=replace(ask.sampling, num_samples=most))
    has_parts = ask.units not in (None, "answer")
    if ask.strategy == "sample" and not (has_parts or reads or reads_samples(_shown(ask))):
        ask = replace(ask, sampling=replace(ask.sampling, num_samples=ask.num_shown))
    return ask


def available_statistics(ask: Ask, deployment: Deployment) -> frozenset[str]:
    """All that can be known of an ask here.

    Without a prompt no model answers; a probe reads greedy answers only; given samples have texts,
    and maybe log-probs; of a given answer with log-probs no others are taken.
    """
    sources, generator = frozenset[str](), deployment.models.generator
    if ask.has_prompt:
        sources = generator.statistics - _lost_to_grammar(ask, generator)
    if ask.answer is not None:
        sources = sources - supplied_by("probe")
        if generator.no_given:
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


def _lost_to_grammar(ask: Ask, generator: GeneratorInfo) -> frozenset[str]:
    """The statistics that a generator supplies of other texts, and not of those under a grammar."""
    is_held = ask.grammar is not None and not ask.tools
    if is_held and generator.no_grammar_logprobs:
        return _OF_LOGPROBS
    return frozenset()


def _absent(ask: Ask, generator: GeneratorInfo) -> dict[str, str]:
    if ask.by_rules:
        return dict.fromkeys(STATISTICS.keys() - {"grounded"}, BY_RULES)
    absent = {"grounded": NO_DOCUMENTS, "closed_book_token_logprobs": NO_DOCUMENTS}
    if ask.documents is not None:
        absent = {"closed_book_token_logprobs": _no_closed_book(ask, generator)}
    if not ask.has_prompt or ask.answer_token_logprobs is not None:
        return absent
    if ask.answer is not None and generator.no_given:
        absent |= dict.fromkeys(supplied_by("answer"), generator.no_given)
    absent |= dict.fromkeys(_lost_to_grammar(ask, generator), generator.no_grammar_logprobs)
    absent |= generator.absent
    for name, row in STATISTICS.items():
        for source in row.derived_from & absent.keys():
            absent.setdefault(name, absent[source])
    return absent


def generation_request(ask: Ask, statistics: frozenset[str]) -> GenerationRequest:
    if ask.samples is not None:
        statistics = statistics - supplied_by("samples")
    if ask.answer_token_logprobs is not None:
        statistics = statistics - supplied_by("answer")
    sampling = ask.sampling
    if ask.requires_call:  # has no words that a stop string could end
        sampling = replace(sampling, stop=())
    return GenerationRequest(
        prompt=ask.prompt,
        prompt_ids=ask.prompt_ids,
        echo=ask.echo,
        messages=ask.messages,
        tools=ask.tools,
        chat_template_kwargs=ask.chat_template_kwargs,
        sampling=sampling,
        statistics=statistics,
        grammar=ask.grammar,
        answer=ask.answer,
        documents=ask.documents_to_show,
        num_tops=ask.num_tops,
        tops_of=ask.shown,
        bounded_by=_BOUNDED_BY.get(ask.strategy),
    )


def _shown(ask: Ask) -> frozenset[str]:
    """Statistics that are returned, whether or not estimators read them."""
    shown: frozenset[str] = frozenset()
    if ask.return_samples:
        shown |= {"sample_texts", "sample_token_logprobs"}
    if ask.explain:
        shown |= _EXPLAINED
    if ask.return_tokens:
        shown |= supplied_by("answer")
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


def _similarity_scorer_of_parts(
    ask: Ask, read: frozenset[str], *, has_nli: bool
) -> Comparing | None:
    """What scores the parts of an answer beside its samples; None where nothing does."""
    if ask.light or (ask.of_tokens and ask.samples is None and not reads_samples(read)):
        return None  # none are drawn for the parts alone
    comparing = _COMPARED_BY[PARTS[ask.units]]
    if comparing == "nli" and not has_nli:
        return "words"
    return comparing


def _calibrated(plan: Plan, primary: str | None, unit: Kind) -> Calibrated | str:
    """The calibration of an estimator for such asks and units, in the group that the ask names.

    Where there is none, the reason, and the request that would have one: the calibrated settings
    that differ least from those of the ask.
    """
    if primary is None:
        return f"no estimator of this request is defined for a {unit}"
    if plan.calibrator is None:
        return NO_CALIBRATOR
    if plan.ask.samples is not None:
        return "scores on given samples are not calibrated: let the model draw them"
    if plan.ask.answer_token_logprobs is not None:
        return "scores on given log-probs are not calibrated: let the model read the answer"
    if plan.is_reasoned:
        return "answers behind a reasoning are not calibrated"
    nearest: dict[str, tuple[str, str]] | None = None
    for part in plan.calibrator.parts:
        calibrations = part.groups.get(plan.ask.calibration or ALL, {})
        if part.binding.unit != unit or primary not in calibrations:
            continue
        differing = _differing(plan, needs([primary]), part.binding)
        if not differing:
            return Calibrated(plan.calibrator, part.binding, calibrations[primary])
        if nearest is None or len(differing) < len(nearest):
            nearest = differing
    if nearest is None and unit != "answer":
        return f"{primary} of a {unit} is not calibrated"
    if nearest is None:
        return f"{primary} is not calibrated: see GET /version for estimators that are"
    bound, requested = map(", ".join, zip(*nearest.values(), strict=True))
    return f"not calibrated for {requested}: ask with {bound}, or calibrate for it"


def _differing(plan: Plan, read: frozenset[str], binding: Binding) -> dict[str, tuple[str, str]]:
    """The calibrated and the requested value, in words, by name, where scores do not compare."""
    ask, sampling = plan.ask, plan.ask.sampling
    compared: dict[str, tuple[Any, Any]] = {
        "strategy": (binding.strategy, plan.strategy),
        "stop": (list(binding.stop), list(sampling.stop)),
    }
    how_it_reasons = ask.how_it_reasons
    for name in binding.reasoning.keys() | how_it_reasons.keys():
        compared[name] = binding.reasoning.get(name), how_it_reasons.get(name)
    if ask.answer is not None:
        if read == needs([OF_DOCUMENTS]) and binding.strategy == plan.strategy:
            return {}  # no model has a part in the answer, nor in its score
        compared["append_eos"] = True, ask.answer.append_eos
    if reads_samples(read) or plan.is_sampled:
        for name in ("temperature", "top_k", "top_p"):
            compared[name] = getattr(binding, name), getattr(sampling, name)
    if reads_samples(read | (STRATEGY_NEEDS[plan.strategy] - STRATEGY_NEEDS["sample"])):
        compared["num_samples"] = binding.num_samples, sampling.num_samples
    if read & supplied_by("similarity"):
        compared["similarity"] = (binding.similarity, plan.similarity)
    if plan.parts_compared_by == "words" and "similarity" in read and binding.unit != "answer":
        compared["compared by"] = "nli" if binding.nli else "words", "words"
    schema_use = ask.schema_use
    used = f"{binding.schema_use} {schema_use}"
    if binding.unit != "answer" or "followed" in used:
        compared["json_schema"] = binding.schema_use, schema_use
    elif "called" in used:
        compared["tools"] = binding.schema_use, schema_use
    limit, bound_limit = sampling.max_new_tokens or DEFAULT_NEW_TOKENS, binding.max_new_tokens
    if limit < bound_limit or binding.share_cut > MAX_SHARE_CUT:
        compared["max_new_tokens"] = bound_limit, limit
    differing: dict[str, tuple[str, str]] = {}
    if binding.input != ask.input:
        differing["input"] = binding.input, ask.input
    for name, (bound, requested) in compared.items():
        if bound != requested:
            called = ask.names.get(name, name)
            differing[name] = f"{called} {_in_words(bound)}", f"{called} {_in_words(requested)}"
    if "strategy" in differing and binding.strategy == "greedy" and ask.greedy_by is not None:
        differing["strategy"] = ask.greedy_by, f"temperature {sampling.temperature}"
        if binding.temperature == SamplingParams().temperature:
            differing.pop("temperature", None)
    return differing


def _in_words(value: Any) -> str:
    if value is None:
        return "not set"
    return str(value)
