"""From results to response bodies."""

from dataclasses import asdict
from typing import Any

from app.http.schemas import (
    DecisionInfo,
    EntropySplit,
    EscalationInfo,
    GenerateResponse,
    ModelInfo,
    ProbeInfo,
    Sample,
    SampleGroup,
    Timing,
    Token,
    Usage,
)
from app.scoring.explaining import groups_of, sentence
from app.scoring.judging import Judgement
from app.scoring.result import Result
from workers import protocol
from workers.protocol import ComparerInfo


def to_response(result: Result, request_id: str) -> GenerateResponse:
    """The response of one scored request."""
    generation, subject = result.generation, result.evidence.subject
    return GenerateResponse(
        id=request_id,
        model=_model_info(generation.model_id, generation.revision) if generation else None,
        text=result.text,
        finish_reason=subject.answer.finish_reason,
        retokenized=result.is_read,
        answer_form=generation.answer_form if generation and result.is_read else None,
        usage=usage_of(result),
        uncertainty=result.uncertainty,
        tokens=tokens_of(result) if result.ask.return_tokens else None,
        **scored_of(result),
    )


def scored_of(result: Result) -> dict[str, Any]:
    """The fields of `Scored`."""
    plan, generation, subject = result.plan, result.generation, result.evidence.subject
    has_similarity, has_nli = plan.reads("similarity"), plan.reads("nli")
    judgement = result.judgement
    drawn = generation is not None and result.samples_source == "model"
    is_shown = not result.is_held_back  # samples would tell the answer
    stage_ms = {stage: _ms(seconds) for stage, seconds in result.stage_s.items()}
    return {
        "mode": "light" if result.ask.light else "full",
        "strategy": plan.strategy,
        "answer_sample": subject.answer_sample,
        "estimator": plan.primary,
        "degraded": plan.degraded,
        "confidence": judgement.confidence,
        "percentile": judgement.percentile,
        "confidence_reason": judgement.reason,
        "calibrator": judgement.calibrator,
        "decision": _decision(judgement),
        "escalation": _escalation(result),
        "scores": dict(result.scores),
        "reasons": dict(result.reasons),
        "warnings": result.warnings,
        "samples_source": result.samples_source,
        "num_samples": len(subject.samples),
        "num_distinct_samples": result.num_distinct_samples,
        "stopped_by": result.stopped_by,
        "consistency_std_error": result.consistency_std_error,
        "found_mass": result.found_mass,
        "entropy_method": result.entropy_method,
        "mte_bounds": None if result.mte_bounds is None else list(result.mte_bounds),
        "similarity": plan.similarity if has_similarity else None,
        "similarity_model": _comparer_info(result.comparer) if has_similarity else None,
        "nli_model": _comparer_info(result.nli) if has_nli and result.nli else None,
        "probe": _probe(result),
        "entropy_split": split_of(result.entropy_probe),
        "seed": generation.seed if generation is not None and drawn else None,
        "samples": _samples(result) if result.ask.return_samples and is_shown else None,
        **_explanation(result, is_shown=is_shown),
        "timing_ms": Timing(**stage_ms, total=_ms(result.total_s)),
        "cached": result.source == "cache",
    }


def _decision(judgement: Judgement) -> DecisionInfo | None:
    return None if judgement.decision is None else DecisionInfo(**asdict(judgement.decision))


def _escalation(result: Result) -> EscalationInfo | None:
    if (asked := result.escalation) is None:
        return None
    first = result.evidence.subject.answer.text
    return EscalationInfo(model=asked.model, first_text=first, error=asked.error)


def split_of(probe: protocol.ProbeInfo | None) -> EntropySplit | None:
    """What its probability is of; None for a probe of another kind, or none."""
    if probe is None or probe.split is None:
        return None
    return EntropySplit(nats=probe.split, base_rate=probe.base_rate)


def _explanation(result: Result, *, is_shown: bool) -> dict[str, Any]:
    """Sentence and groups, where they are wanted and may be told."""
    groups = groups_of(result.evidence) if result.ask.explain and is_shown else None
    if groups is None:
        return {"explanation": None, "groups": None}
    shown = [SampleGroup(**asdict(group)) for group in groups]
    return {"explanation": sentence(groups), "groups": shown}


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
        logprob = None if one.token_logprobs is None else float(one.token_logprobs.sum())
        sample = Sample(
            text=one.text,
            logprob=logprob,
            similarity=similarity,
            finish_reason=one.finish_reason,
        )
        samples.append(sample)
    return samples


def tokens_of(result: Result) -> list[Token] | None:
    """The answer's tokens with all that is known of them; None where they would tell too much."""
    if result.is_held_back:
        return None
    answer = result.evidence.subject.answer
    missing: list[None] = [None] * answer.num_tokens
    texts = answer.token_texts or ("",) * answer.num_tokens
    logprobs = missing if answer.token_logprobs is None else answer.token_logprobs.tolist()
    entropies = missing if answer.token_entropies is None else answer.token_entropies.tolist()
    tokens = []
    for text, logprob, entropy in zip(texts, logprobs, entropies, strict=True):
        tokens.append(Token(text=text, logprob=logprob, entropy=entropy))
    return tokens


def usage_of(result: Result) -> Usage:
    subject, generation = result.evidence.subject, result.generation
    return Usage(
        prompt_tokens=0 if generation is None else generation.prompt_tokens,
        completion_tokens=subject.answer.num_tokens,
        sample_tokens=sum(sample.num_tokens for sample in subject.samples),
    )


def _comparer_info(info: ComparerInfo) -> ModelInfo:
    return _model_info(info.model_id, info.revision)


def _model_info(model_id: str, revision: str | None) -> ModelInfo:
    return ModelInfo(id=model_id, revision=revision)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
