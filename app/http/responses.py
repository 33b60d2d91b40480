"""From results to response bodies."""

from dataclasses import asdict
from typing import Any, TypeVar

from app.http.schemas import (
    DecisionInfo,
    EntropySplit,
    EscalationInfo,
    GenerateResponse,
    ModelInfo,
    ProbeInfo,
    Sample,
    SampleGroup,
    Scored,
    Timing,
    Token,
    Usage,
)
from app.scoring.explaining import groups_of, sentence
from app.scoring.result import Result
from models.estimators import consistency_std_error
from models.records import Generation
from workers import protocol
from workers.protocol import ComparerInfo, GeneratorInfo

Body = TypeVar("Body", bound=Scored)


def to_response(result: Result, request_id: str) -> GenerateResponse:
    """The response of one scored request."""
    generation, model, answer_form, tokens = result.generation, None, None, None
    if generation is not None:
        model = model_info(generation)
        if result.is_read:
            answer_form = generation.answer_form
    if result.ask.return_tokens:
        tokens = tokens_of(result)
    return scored(
        GenerateResponse,
        result,
        id=request_id,
        model=model,
        text=result.text,
        reasoning=result.reasoning,
        finish_reason=result.evidence.subject.answer.finish_reason,
        retokenized=result.is_read,
        answer_form=answer_form,
        usage=usage_of(result),
        uncertainty=result.uncertainty,
        tokens=tokens,
    )


def scored(kind: type[Body], result: Result, **own: Any) -> Body:
    """A body with all fields of `Scored`, and its own ones beside them."""
    plan, judgement, subject = result.plan, result.judgement, result.evidence.subject
    similarity, similarity_model, nli_model, seed = None, None, None, None
    if plan.reads("similarity"):
        similarity, similarity_model = plan.similarity, model_info(result.comparer)
    if plan.reads("nli") and result.nli is not None:
        nli_model = model_info(result.nli)
    if result.generation is not None and result.samples_source == "model":
        seed = result.generation.seed
    decision: DecisionInfo | None = None
    if judgement.decision is not None:
        decision = DecisionInfo(**asdict(judgement.decision))
    escalation: EscalationInfo | None = None
    if (asked := result.escalation) is not None:
        first = subject.answer.text
        escalation = EscalationInfo(model=asked.model, first_text=first, error=asked.error)
    samples: list[Sample] | None = None
    groups: list[SampleGroup] | None = None
    explanation: str | None = None
    if not result.is_held_back:  # samples would tell the answer
        if result.ask.return_samples:
            samples = _samples(result)
        if result.ask.explain and (found := groups_of(result.evidence)) is not None:
            explanation = sentence(found)
            groups = [SampleGroup(**asdict(group)) for group in found]
    std_error: float | None = None
    if "similarity" in result.evidence.statistics:
        std_error = consistency_std_error(result.evidence.statistics["similarity"])
    stage_ms = {}
    for stage, seconds in (*result.stage_s.items(), ("total", result.total_s)):
        stage_ms[stage] = round(seconds * 1000, 3)
    return kind(
        mode="light" if result.ask.light else "full",
        strategy=plan.strategy,
        answer_sample=subject.answer_sample,
        estimator=plan.primary,
        degraded=plan.degraded,
        confidence=judgement.confidence,
        percentile=judgement.percentile,
        confidence_reason=judgement.reason,
        calibrator=judgement.calibrator,
        decision=decision,
        escalation=escalation,
        scores=dict(result.scores),
        reasons=dict(result.reasons),
        warnings=result.warnings,
        samples_source=result.samples_source,
        num_samples=len(subject.samples),
        num_distinct_samples=result.num_distinct_samples,
        stopped_by=result.stopped_by,
        consistency_std_error=std_error,
        found_mass=result.found_mass,
        entropy_method=result.entropy_method,
        mte_bounds=result.mte_bounds and list(result.mte_bounds),
        similarity=similarity,
        similarity_model=similarity_model,
        nli_model=nli_model,
        probe=_probe(result),
        entropy_split=split_of(result.entropy_probe),
        seed=seed,
        samples=samples,
        explanation=explanation,
        groups=groups,
        timing_ms=Timing(**stage_ms),
        cached=result.source == "cache",
        **own,
    )


def model_info(info: Generation | GeneratorInfo | ComparerInfo) -> ModelInfo:
    """Which weights spoke."""
    return ModelInfo(id=info.model_id, revision=info.revision)


def split_of(probe: protocol.ProbeInfo | None) -> EntropySplit | None:
    """Above which entropy the probe counts it as high; None for other probes, or none."""
    if probe is None or probe.split is None:
        return None
    return EntropySplit(nats=probe.split, base_rate=probe.base_rate)


def tokens_of(result: Result) -> list[Token] | None:
    """The answer's tokens with all that is known of them; None where the answer is held back."""
    if result.is_held_back:
        return None
    answer = result.evidence.subject.answer
    texts = answer.token_texts or [""] * answer.num_tokens
    logprobs = entropies = [None] * answer.num_tokens
    if answer.token_logprobs is not None:
        logprobs = answer.token_logprobs.tolist()
    if answer.token_entropies is not None:
        entropies = answer.token_entropies.tolist()
    tokens = []
    for text, logprob, entropy in zip(texts, logprobs, entropies, strict=True):
        tokens.append(Token(text=text, logprob=logprob, entropy=entropy))
    return tokens


def usage_of(result: Result) -> Usage:
    """Tokens read and written."""
    subject, prompt_tokens, reasoning_tokens = result.evidence.subject, 0, 0
    if subject.answer.reasoning is not None:
        reasoning_tokens = subject.answer.reasoning.num_tokens
    if result.generation is not None:
        prompt_tokens = result.generation.prompt_tokens
    return Usage(
        prompt_tokens=prompt_tokens,
        completion_tokens=subject.answer.num_written,
        reasoning_tokens=reasoning_tokens,
        sample_tokens=sum(sample.num_written for sample in subject.samples),
    )


def _probe(result: Result) -> ProbeInfo | None:
    if result.probe is None:
        return None
    probe, reading = result.probe
    return ProbeInfo(
        id=probe.id,
        training_set=probe.training_set,
        distance_percentile=reading.distance_percentile,
        out_of_domain=reading.out_of_domain,
    )


def _samples(result: Result) -> list[Sample]:
    samples = []
    for one, similarity in zip(
        result.evidence.subject.samples, result.sample_similarities, strict=True
    ):
        sample = Sample(
            text=one.text, logprob=None, similarity=similarity, finish_reason=one.finish_reason
        )
        if one.token_logprobs is not None:
            sample.logprob = float(one.token_logprobs.sum())
        samples.append(sample)
    return samples
