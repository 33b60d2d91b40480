"""From results to response bodies."""

from typing import Any, TypeVar

from app.http.provenance import provenance_of
from app.http.schemas import (
    DecisionInfo,
    EscalationInfo,
    GenerateResponse,
    Sample,
    SampleGroup,
    Scored,
    Timing,
    Token,
    Usage,
)
from app.http.units import units_of
from app.scoring.explaining import groups_of, sentence
from app.scoring.result import Result

Body = TypeVar("Body", bound=Scored)

HELD_BACK = "the answer is held back: its uncertainty is above the threshold of target_error"
# What would tell an answer that is held back.
_TELLING = ("text", "reasoning", "explanation", "groups", "units", "samples", "tokens")


def to_response(result: Result, request_id: str) -> GenerateResponse:
    """The response of one scored request."""
    asked: dict[str, Any] = {}
    if result.evidence.subject.answer.reasoning is not None:
        asked["reasoning"] = result.reasoning
    if result.ask.return_tokens:
        asked["tokens"] = tokens_of(result)
    return scored(
        GenerateResponse,
        result,
        id=request_id,
        text=result.text,
        finish_reason=result.evidence.subject.answer.finish_reason,
        usage=usage_of(result),
        uncertainty=result.uncertainty,
        **asked,
    )


def scored(kind: type[Body], result: Result, **own: Any) -> Body:
    """A body with the fields of `Scored`, where it comes from, and its own fields beside them.

    What was not asked for, or does not apply, is absent.
    """
    judgement, reasons = result.judgement, dict(result.reasons)
    own["provenance"] = provenance_of(result)
    if judgement.reason is not None:
        reasons["confidence"] = judgement.reason
    if judgement.decision is not None:
        own["decision"] = DecisionInfo.model_validate(judgement.decision, from_attributes=True)
    if (asked := result.escalation) is not None:
        first = result.evidence.subject.answer.text
        own["escalation"] = EscalationInfo(model=asked.model, first_text=first, error=asked.error)
    if result.units is not None:
        own |= units_of(result.units, reasons)
    if result.ask.return_samples:
        own["samples"] = _samples(result)
    if result.ask.explain:
        own |= _explained(result, reasons)
    if result.is_held_back:
        for name in _TELLING:
            if name in own:
                own[name], reasons[name] = None, HELD_BACK
    stage_ms = {}
    for stage, seconds in (*result.stage_s.items(), ("total", result.total_s)):
        stage_ms[stage] = round(seconds * 1000, 3)
    return kind(
        estimator=result.plan.primary,
        confidence=judgement.confidence,
        scores=dict(result.scores),
        reasons=reasons,
        warnings=result.warnings,
        timing_ms=Timing(**stage_ms),
        cached=result.source == "cache",
        **own,
    )


def _explained(result: Result, reasons: dict[str, str]) -> dict[str, Any]:
    """What the samples say; null where nothing compared them, which `reasons` then says."""
    if (found := groups_of(result.evidence)) is None:
        absent = result.evidence.absent
        reason = absent.get("similarity", "there are no samples that were compared")
        reasons |= {"explanation": reason, "groups": reason}
        return {"explanation": None, "groups": None}
    groups = [SampleGroup.model_validate(group, from_attributes=True) for group in found]
    return {"explanation": sentence(found), "groups": groups}


def tokens_of(result: Result) -> list[Token]:
    """The answer's tokens with all that is known of them."""
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


def _samples(result: Result) -> list[Sample]:
    samples = []
    for one, similarity in zip(
        result.evidence.subject.samples, result.sample_similarities, strict=True
    ):
        logprob: float | None = None
        if one.token_logprobs is not None:
            logprob = float(one.token_logprobs.sum())
        sample = Sample(
            text=one.text,
            logprob=logprob,
            similarity=similarity,
            finish_reason=one.finish_reason,
        )
        samples.append(sample)
    return samples
