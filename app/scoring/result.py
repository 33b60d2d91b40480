"""The result of one ask: everything that may be reported of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Literal

from app.scoring.ask import Ask
from app.scoring.derive import Evidence
from app.scoring.explaining import SampleGroup, groups_of, sentence, shaky_units, support_of
from app.scoring.judging import Judgement
from app.scoring.plan import Plan
from app.scoring.questions import Subject
from app.scoring.units import ScoredUnits
from models.estimators import needs
from models.records import FINISH_REASONS, ProbeReading
from models.statistics import SENTENCES_READ
from models.warnings import Warned
from workers.protocol import GeneratorInfo, ProbeInfo, SimilarityInfo

# The origin of statistics: the cache, identical work under way, or this caller's own work.
Source = Literal["cache", "joined", "computed"]
Outcome = Literal["accepted", "given", "held_back"]
# In place of the sentence on samples of the same meaning.
_GROUPS_UNKNOWN = (
    "How many samples mean the same is not known: the similarity model was not made for such texts."
)
STAGES = ("queue", "generate", "similarity", "score")


@dataclass(frozen=True, slots=True)
class Result:
    """One scored ask."""

    plan: Plan
    evidence: Evidence
    # Estimator to its value; None where it has none, for which `reasons` says why.
    scores: Mapping[str, float | None]
    reasons: Mapping[str, str]
    source: Source
    similarity_scorer: SimilarityInfo  # that of the plan's similarity function
    nli: SimilarityInfo | None
    generator: GeneratorInfo  # the model that is here, asked or not
    stage_s: Mapping[str, float]  # seconds of each of `STAGES`; 0 where the stage was not taken
    total_s: float  # seconds from the ask to here
    name: str = ""  # of its statistics in a cache; "" where none may serve
    judgement: Judgement = field(default_factory=Judgement)
    units: ScoredUnits | None = None

    @property
    def ask(self) -> Ask:
        return self.plan.ask

    @property
    def text(self) -> str | None:
        """The text that the client may read: the answer, or nothing."""
        if self.is_held_back:
            return None
        return self.evidence.subject.answer.text

    @property
    def passed_text(self) -> str | None:
        """The text for a client that reads nothing else: `text` without the removed parts."""
        if self.judgement.parts is None or self.ask.on_unit_reject != "remove":
            return self.text
        if self.is_held_back:
            return None
        return self.judgement.parts.refined_text

    @property
    def reasoning(self) -> str | None:
        """The text before the answer; None where there is none, or where it is held back."""
        reasoning = self.evidence.subject.answer.reasoning
        if reasoning is None or self.is_held_back:
            return None
        return reasoning.text

    @property
    def refusal(self) -> str | None:
        """The server's refusal to answer; None where the client has an answer."""
        return self.evidence.subject.answer.refusal

    @property
    def outcome(self) -> Outcome | None:
        """The fate of an answer that is held to a target error; None where it is held to none."""
        decision = self.judgement.decision
        if self.has_parts_held_back:
            return "held_back"
        if decision is None:
            return None
        if decision.accept:
            return "accepted"
        if self.ask.on_reject == "abstain":
            return "held_back"
        return "given"

    @property
    def is_held_back(self) -> bool:
        """True where answer or parts do not pass, and it was not to be given then."""
        return self.outcome == "held_back"

    @property
    def has_parts_held_back(self) -> bool:
        """True where it is held back for its parts."""
        if self.judgement.parts is None or self.ask.on_unit_reject != "abstain":
            return False
        decision = self.judgement.parts.decision
        return decision is not None and not decision.accept

    @property
    def why_held_back(self) -> str:
        """Where it is held back."""
        if self.has_parts_held_back:
            return "the answer is held back: a part of it does not pass"
        return "the answer is held back: it does not pass at this target error"

    @property
    def usage(self) -> dict[str, int]:
        """Tokens read and written, by what they were."""
        subject = self.evidence.subject
        drawn = (*subject.samples, *subject.withheld)
        usage = dict.fromkeys(("prompt_tokens", "completion_tokens", "reasoning_tokens"), 0)
        usage["completion_tokens"] = subject.answer.num_written
        usage["sample_tokens"] = sum(map(attrgetter("num_written"), drawn))
        if subject.answer.reasoning is not None:
            usage["reasoning_tokens"] = subject.answer.reasoning.num_tokens
        if self.evidence.generation is not None:
            usage["prompt_tokens"] = self.evidence.generation.prompt_tokens
        return usage

    @property
    def uncertainty(self) -> float | None:
        return self.scores[self.plan.primary]

    @property
    def timing_ms(self) -> dict[str, float]:
        """Milliseconds of each stage and of all, to the microsecond."""
        stage_ms = {}
        for stage, seconds in (*self.stage_s.items(), ("total", self.total_s)):
            stage_ms[stage] = round(seconds * 1000, 3)
        return stage_ms

    @property
    def is_read(self) -> bool:
        is_given = self.plan.strategy == "given" and self.evidence.generation is not None
        return is_given and self.ask.answer_token_logprobs is None

    @property
    def samples_source(self) -> Literal["model", "client"] | None:
        if self.ask.samples is not None:
            return "client"
        if self.evidence.subject.samples or self.evidence.subject.withheld:
            return "model"
        return None

    @property
    def num_distinct_samples(self) -> int:
        return len(set(map(self.similarity_scorer.rules.normalise, self.evidence.subject.texts)))

    @property
    def support(self) -> float | None:
        """Share of the other samples that mean the same as the answer; None where not compared."""
        return support_of(self.evidence)

    def explained(self) -> tuple[str | None, list[SampleGroup] | None]:
        """What the samples say in a sentence, and in groups; None where none were compared."""
        if (groups := groups_of(self.evidence)) is None:
            return None, None
        explanation = sentence(groups)
        if self.compares_foreign:
            explanation = _GROUPS_UNKNOWN
        if self.units is not None and self.ask.units in ("sentences", "claims"):
            explanation = f"{explanation} {shaky_units(self.units)}"
        return explanation, groups

    @property
    def sample_similarities(self) -> list[float | None]:
        """Similarity (M,) of each sample to the answer; None for the one that is the answer."""
        subject = self.evidence.subject
        similarity = self.evidence.statistics.get("similarity")
        if similarity is None:
            return [None] * len(subject.samples)
        values: list[float | None] = similarity.tolist()
        if subject.answer_sample is not None:
            values.insert(subject.answer_sample, None)
        return values

    @property
    def probe(self) -> tuple[ProbeInfo, ProbeReading] | None:
        """The probe behind the uncertainty, or where that reads none, the first that was read."""
        readings = self._readings.keys() - {SENTENCES_READ}
        if not readings:
            return None
        name = min(needs([self.plan.primary]) & readings or readings)
        return self.generator.probes[name], self._readings[name]

    @property
    def sentence_probe(self) -> tuple[ProbeInfo, ProbeReading] | None:
        if SENTENCES_READ not in self._readings:
            return None
        return self.generator.probes[SENTENCES_READ], self._readings[SENTENCES_READ]

    @property
    def _readings(self) -> Mapping[str, ProbeReading]:
        return {} if self.evidence.generation is None else self.evidence.generation.probe_readings

    @property
    def entropy_split(self) -> dict[str, float | None] | None:
        """As of the probe that was asked for high entropy; None where none was."""
        for name in self.plan.statistics & needs(["high_semantic_entropy_light"]):
            return self.generator.probes[name].entropy_split
        return None

    @property
    def asked(self) -> dict[str, SimilarityInfo]:
        """The pair models that have compared anything, by what they supply."""
        asked: dict[str, SimilarityInfo] = {}
        if self.plan.asks("similarity"):
            asked["similarity"] = self.similarity_scorer
        if self.plan.asks("nli") and self.nli is not None:
            asked["nli"] = self.nli
        return asked

    @property
    def compares_foreign(self) -> bool:
        """True where a pair model compared texts that it was not made for.

        An embedded one is made for the answers of embedded language models, and not for given ones.
        """
        used, are_given = self.asked.values(), self.ask.samples is not None
        return any(info.is_out_of_domain or (are_given and info.is_embedded) for info in used)

    @property
    def warnings(self) -> list[Warned]:
        subject = self.evidence.subject
        codes = _of_ends(subject)
        if self.compares_foreign:
            codes.append(Warned.SIMILARITY_OUT_OF_DOMAIN)
        if self.evidence.truncated:
            codes.append(Warned.SIMILARITY_TRUNCATED)
        if subject.is_reasoned:
            codes.append(Warned.REASONING_EXCLUDED)
        if self.judgement.has_shifted:
            codes.append(Warned.CALIBRATION_SHIFT)
        if self.units is not None:
            codes += self.units.parts.warnings
        if self.evidence.generation is not None:
            codes += self.evidence.generation.warnings
        codes += self.ask.unheeded
        if self.ask.grammar is not None and self.ask.grammar.is_wider:
            codes.append(Warned.ONE_OF_AS_ANY_OF)
        return codes


def _of_ends(subject: Subject) -> list[Warned]:
    answer, codes = subject.answer, list[Warned]()
    reasons = list(map(attrgetter("finish_reason"), subject.samples))
    if answer.no_answer is not None:
        codes.append(Warned(answer.no_answer))
    elif answer.is_withheld:
        codes.append(Warned.ANSWER_FILTERED)
    elif not answer.compared_text:
        codes.append(Warned.EMPTY_ANSWER)
    if answer.finish_reason == "length":
        codes.append(Warned.ANSWER_TRUNCATED)
    if "length" in reasons:
        codes.append(Warned.SAMPLES_TRUNCATED)
    if not {answer.finish_reason, *reasons} <= FINISH_REASONS:
        codes.append(Warned.FINISH_REASON_UNKNOWN)
    if subject.withheld:
        codes.append(Warned.SAMPLES_LEFT_OUT)
    return codes
