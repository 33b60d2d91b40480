"""Pure: what follows from an ask before any work: its request, and what judges its scores."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter, itemgetter
from typing import Any, Literal

from app.scoring.ask import PARTS, Ask
from app.scoring.defaults import OF_DOCUMENTS, primary_of_reasoned
from app.scoring.selection import Strategy
from models.calibration import ALL, Binding, Calibration, Calibrator
from models.estimators import needs
from models.records import DEFAULT_NEW_TOKENS, GenerationRequest
from models.statistics import STATISTICS, reads_samples, sources_of, supplied_by
from models.units.unit import Kind

# Statistics by which y* is chosen among the samples; none where it is no sample of theirs.
STRATEGY_NEEDS: dict[Strategy, frozenset[str]] = {
    "greedy": frozenset(),
    "sample": frozenset(),
    "most_probable": frozenset({"sample_token_logprobs"}),
    "most_probable_normalized": frozenset({"sample_token_logprobs"}),
    "mbr": frozenset({"similarity_matrix"}),
    "given": frozenset(),
}
# A larger limit changes nothing but the texts that ended at the smaller one: these may be so many.
MAX_SHARE_CUT = 0.01
NO_CALIBRATOR = (
    "no calibrator is loaded: see COCOA_CALIBRATOR; `cocoa calibrate` makes one of labelled answers"
)
# The similarity scorer of a part with its counterparts in the samples; "words" needs no model.
Comparing = Literal["similarity", "nli", "words"]
_Model = Literal["similarity", "nli"]
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
    def is_chosen(self) -> bool:
        """True where the answer is one of the samples."""
        return bool(STRATEGY_NEEDS[self.strategy])

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
        """Statistics of the generator; a y* among the samples has its own from them."""
        sources = sources_of(self.statistics)
        if self.is_chosen:
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
    def documents_judged_by(self) -> Literal["nli", "words"]:
        """What says how far documents say a sentence.

        That is the NLI model where it compares both sentences and answers with the samples.
        """
        if self.parts_compared_by == "nli" and self.similarity == "nli":
            return "nli"
        return "words"

    @property
    def num_rows(self) -> int:
        if self.ask.samples is not None:
            return 1 + len(self.ask.samples)
        if not self.ask.has_prompt:
            return 1
        return 1 + self.request.num_samples

    def asks(self, source: _Model) -> bool:
        """True where this model compares anything, be it parts."""
        return source == self.parts_compared_by or self.reads(source)

    def reads(self, source: _Model) -> bool:
        """True where any planned statistic is of this model."""
        return not self.statistics.isdisjoint(supplied_by(source))

    def for_reasoned(self, *, answer: bool) -> "Plan":
        """The plan once the answer, or a sample alone, has turned out to have a reasoning before.

        A default uncertainty is then one that does not weigh answers by probability.
        """
        primary = self.primary
        if self.ask.primary is None and "sample_token_logprobs" in needs([primary]):
            primary = primary_of_reasoned(self.estimators) or primary
        return replace(self, primary=primary, is_reasoned=answer)


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
        num_shown=ask.num_shown,
        limits_samples=not STRATEGY_NEEDS[ask.strategy],  # which may choose any of them
    )


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
    compared: dict[str, tuple[Any, Any]] = {"stop": (list(binding.stop), list(sampling.stop))}
    strategies = binding.strategy, plan.strategy
    if "sample" in strategies:
        compared["answer_temperature"] = binding.answer_temperature, sampling.answer_temperature
    if not {*strategies} <= {"greedy", "sample"}:
        compared["strategy"] = strategies
    how_it_reasons = ask.how_it_reasons
    for name in binding.reasoning.keys() | how_it_reasons.keys():
        compared[name] = binding.reasoning.get(name), how_it_reasons.get(name)
    if ask.answer is not None:
        is_by_words = plan.documents_judged_by == binding.documents_judged_by == "words"
        if read == needs([OF_DOCUMENTS]) and binding.strategy == plan.strategy and is_by_words:
            return {}  # no model has a part in the answer, nor in its score
        compared["append_eos"] = True, ask.answer.append_eos
    drawn_by = ["top_k", "top_p"] * (plan.strategy == "sample")
    if reads_samples(read | STRATEGY_NEEDS[plan.strategy]):
        drawn_by = ["temperature", "top_k", "top_p", "num_samples"]
    for name in drawn_by:
        compared[name] = getattr(binding, name), getattr(sampling, name)
    if read & supplied_by("similarity"):
        compared["similarity"] = (binding.similarity, plan.similarity)
    if plan.parts_compared_by == "words" and "similarity" in read and binding.unit != "answer":
        compared["compared by"] = "nli" if binding.nli else "words", "words"
    if "grounded" in read:
        judges = binding.documents_judged_by, plan.documents_judged_by
        compared["documents judged by"] = judges
    uses = binding.schema_use, ask.schema_use
    if "called" in " ".join(uses):
        compared["tools"] = uses
    elif binding.unit != "answer" or "followed" in uses:
        compared["json_schema"] = uses
    limit, bound_limit = sampling.max_new_tokens or DEFAULT_NEW_TOKENS, binding.max_new_tokens
    if limit < bound_limit or binding.share_cut > MAX_SHARE_CUT:
        compared["max_new_tokens"] = bound_limit, limit
    differing: dict[str, tuple[str, str]] = {}
    if binding.input != ask.input:
        differing["input"] = binding.input, ask.input
    for name, (bound, requested) in compared.items():
        if bound != requested:
            called = ask.names.get(name, name)
            told = f"{called} {_in_words(bound)}", f"{called} {_in_words(requested)}"
            differing.setdefault(called, told)  # one temperature may be the answer's and samples'
    return differing


def _in_words(value: Any) -> str:
    if value in (None, "sample"):  # which a temperature of the answer requests
        return "not set"
    return str(value).removesuffix(".0")
