"""What the core gives back: everything that any door may say of one ask."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from app.scoring.ask import Ask
from app.scoring.evidence import Evidence
from app.scoring.judging import Judgement
from app.scoring.plan import Plan
from models.estimators import (
    FOUND_MASS_NEEDS,
    Undefined,
    consistency_std_error,
    found_mass,
    needs,
)
from models.records import Generation, ProbeReading
from models.similarity.pairs import num_distinct
from workers.protocol import ComparerInfo, ProbeInfo

# Where the statistics came from: the cache, an identical ask under way, or this one's own work.
Source = Literal["cache", "joined", "computed"]
Outcome = Literal["accepted", "given", "held_back", "escalated", "escalation_failed"]
STAGES = ("queue", "generate", "similarity", "score")


@dataclass(frozen=True, slots=True)
class Computed:
    """All that costs a model.

    Attributes:
        generation: None where no model was asked for an answer.
        similarity_s: seconds between generation and scoring; 0 where they were remembered.
    """

    generation: Generation | None
    evidence: Evidence
    similarity_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Escalation:
    """What a second model was asked, as the first one's answer did not pass.

    Attributes:
        text: its answer; None where it gave none, for `error`.
    """

    model: str
    text: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One scored ask.

    Attributes:
        computed: generation and evidence.
        scores: estimator to its value; None where it has none, for which `reasons` says why.
        source: of what was computed.
        comparer: of the plan's similarity function.
        nli: None where there is no NLI model.
        probes: of the generator, by the statistic that each predicts.
        judgement: what the uncertainty means.
        has_shifted: whether what is served no longer looks like what was calibrated.
        escalation: where a second model was asked.
        score_s: seconds that the estimators took.
        total_s: seconds from the ask to here.
    """

    ask: Ask
    plan: Plan
    computed: Computed
    scores: Mapping[str, float | None]
    reasons: Mapping[str, str]
    source: Source
    comparer: ComparerInfo
    nli: ComparerInfo | None
    probes: Mapping[str, ProbeInfo]
    score_s: float
    total_s: float
    judgement: Judgement = field(default_factory=Judgement)
    has_shifted: bool = False
    escalation: Escalation | None = None

    @property
    def text(self) -> str | None:
        """What the client may read: the answer, a second model's, or nothing."""
        if self.escalation is not None and self.escalation.text is not None:
            return self.escalation.text
        return None if self.is_held_back else self.evidence.subject.answer.text

    @property
    def outcome(self) -> Outcome | None:
        """What became of an answer that was asked to keep a target error."""
        decision = self.judgement.decision
        if decision is None:
            return None
        if decision.accept:
            return "accepted"
        if self.escalation is not None:
            return "escalation_failed" if self.escalation.text is None else "escalated"
        return "held_back" if self.is_held_back else "given"

    @property
    def is_held_back(self) -> bool:
        """Whether the answer does not pass, and was not to be given then."""
        decision = self.judgement.decision
        return decision is not None and not decision.accept and self.ask.on_reject == "abstain"

    @property
    def generation(self) -> Generation | None:
        """What the model wrote; None where it was not asked."""
        return self.computed.generation

    @property
    def evidence(self) -> Evidence:
        """Statistics, y* and samples."""
        return self.computed.evidence

    @property
    def uncertainty(self) -> float | None:
        """Value of the primary estimator."""
        return self.scores[self.plan.primary]

    @property
    def stage_s(self) -> dict[str, float]:
        """Seconds of each of `STAGES`; 0 where the stage was not taken."""
        generation = self.generation
        queue_s = 0.0 if generation is None else generation.queue_s
        generate_s = 0.0 if generation is None else generation.generate_s
        seconds = (queue_s, generate_s, self.computed.similarity_s, self.score_s)
        return dict(zip(STAGES, seconds, strict=True))

    @property
    def is_read(self) -> bool:
        """Whether the model read a given answer."""
        is_given = self.plan.strategy == "given" and self.generation is not None
        return is_given and self.ask.answer_token_logprobs is None

    @property
    def samples_source(self) -> Literal["model", "client"] | None:
        """Who drew the samples; None where there are none."""
        if self.ask.samples is not None:
            return "client"
        return "model" if self.evidence.subject.samples else None

    @property
    def num_distinct_samples(self) -> int:
        """Different texts among the samples, as they are compared."""
        return num_distinct(self.evidence.subject.texts, self.comparer.rules)

    @property
    def consistency_std_error(self) -> float | None:
        """Of `consistency`; None for fewer than two similarities."""
        similarity = self.evidence.statistics.get("similarity")
        return None if similarity is None else consistency_std_error(similarity)

    @property
    def found_mass(self) -> float | None:
        """Probability of all that was found; None where what it is made of was not computed."""
        statistics = self.evidence.statistics
        if not statistics.keys() >= FOUND_MASS_NEEDS:
            return None
        try:
            return found_mass(**{name: statistics[name] for name in FOUND_MASS_NEEDS})
        except Undefined:
            return None

    @property
    def entropy_method(self) -> Literal["exact", "topk_bounds"] | None:
        """How the entropies of the answer's tokens are known; None where they are not."""
        if "answer_token_entropies" in self.evidence.statistics:
            return "exact"
        return None if self.mte_bounds is None else "topk_bounds"

    @property
    def mte_bounds(self) -> tuple[float, float] | None:
        """Between what the answer's mean token entropy lies, where it is not known exactly."""
        is_drawn = self.evidence.subject.answer_sample is None
        return self.generation.mte_bounds if self.generation and is_drawn else None

    @property
    def stopped_by(self) -> Literal["found_mass", "max_samples"] | None:
        """What ended the waves of samples; None where all were drawn at once, or none."""
        sampling = self.ask.sampling
        if self.samples_source != "model" or sampling.stop_mass is None:
            return None
        is_early = len(self.evidence.subject.samples) < sampling.num_samples
        is_enough = (self.found_mass or 0.0) >= sampling.stop_mass
        return "found_mass" if is_early or is_enough else "max_samples"

    @property
    def sample_similarities(self) -> list[float | None]:
        """Similarity (M,) of each sample to the answer; None for the one that is the answer."""
        subject = self.evidence.subject
        values: list[float | None] = [None] * len(subject.samples)
        similarity = self.evidence.statistics.get("similarity")
        if similarity is not None:
            others = (i for i in range(len(values)) if i != subject.answer_sample)
            for i, value in zip(others, similarity.tolist(), strict=True):
                values[i] = value
        return values

    @property
    def probe(self) -> tuple[ProbeInfo, ProbeReading] | None:
        """The probe behind the uncertainty, or where that reads none, the first that was read."""
        readings = {} if self.generation is None else self.generation.probe_readings
        if not readings:
            return None
        wanted = needs([self.plan.primary])
        name = next((name for name in readings if name in wanted), min(readings))
        return self.probes[name], readings[name]

    @property
    def entropy_probe(self) -> ProbeInfo | None:
        """The probe behind `high_semantic_entropy_light`, where that is scored."""
        wanted = self.plan.statistics & needs(["high_semantic_entropy_light"])
        return next((self.probes[name] for name in wanted), None)

    @property
    def warnings(self) -> list[str]:
        """Codes of what a reader of the scores should know."""
        subject, codes = self.evidence.subject, []
        texts = (subject.answer, *subject.samples)
        if not subject.answer.compared_text:
            codes.append("empty_answer")
        if subject.answer.finish_reason == "length":
            codes.append("answer_truncated")
        if any(sample.finish_reason == "length" for sample in subject.samples):
            codes.append("samples_truncated")
        asked = [self.comparer] if self.plan.reads("similarity") else []
        if self.nli is not None and self.plan.reads("nli"):
            asked.append(self.nli)
        if any(info.is_out_of_domain for info in asked):
            codes.append("similarity_out_of_domain")
        if self.evidence.truncated:
            codes.append("similarity_truncated")
        if any(one.compared_text != one.text.strip() for one in texts):
            codes.append("reasoning_excluded")
        if self.has_shifted:
            codes.append("calibration_shift")
        if self.escalation is not None and self.escalation.text is None:
            codes.append("escalation_failed")
        return codes + list(() if self.generation is None else self.generation.warnings)
