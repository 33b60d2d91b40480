"""From results to response bodies."""

from typing import Any

from app.http.calls import call_info, parted
from app.http.provenance_schemas import EntropySplit, ModelInfo, ProbeInfo
from app.http.schemas import (
    DecisionInfo,
    EscalationInfo,
    Sample,
    SampleGroup,
    Token,
)
from app.http.units import judged_units, units_of
from app.scoring.explaining import groups_of, sentence, shaky_units, support_of
from app.scoring.result import Result
from models.estimators import consistency_std_error
from models.records import Generation, ProbeReading, Sequence
from models.units.tool_calls import names_of, read
from workers import protocol
from workers.protocol import ComparerInfo, GeneratorInfo

HELD_BACK = "the answer is held back: its uncertainty is above the threshold of target_error"
PART_HELD_BACK = "the answer is held back: a part of it does not pass"
# What would tell an answer that is held back.
_TELLING = (
    "text",
    "reasoning",
    "explanation",
    "groups",
    "units",
    "samples",
    "tokens",
    "tool_calls",
)


def to_response(result: Result, request_id: str) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    if result.evidence.subject.answer.reasoning is not None:
        asked["reasoning"] = result.reasoning
    if result.refusal is not None:
        asked["refusal"] = result.refusal
    if result.ask.return_tokens:
        asked["tokens"] = tokens_of(result.evidence.subject.answer)
    if result.ask.tools:
        _, calls = parted(read(result.text or "", names_of(result.ask.tools)))
        asked["tool_calls"] = list(map(call_info, calls))
    return scored(
        result,
        id=request_id,
        text=result.text,
        finish_reason=result.evidence.subject.answer.finish_reason,
        usage=usage_of(result),
        uncertainty=result.uncertainty,
        **asked,
    )


def scored(result: Result, **own: Any) -> dict[str, Any]:
    """A body with the fields of `Scored`, where it comes from, and its own fields before them.

    What was not asked for, or does not apply, is absent.
    """
    judgement, reasons = result.judgement, dict(result.reasons)
    if judgement.reason is not None:
        reasons["confidence"] = judgement.reason
    if judgement.decision is not None:
        own["decision"] = DecisionInfo.model_validate(judgement.decision, from_attributes=True)
    if (asked := result.escalation) is not None:
        first = result.evidence.subject.answer.text
        own["escalation"] = EscalationInfo(model=asked.model, first_text=first, error=asked.error)
    if result.units is not None:
        answer_sample = result.evidence.subject.answer_sample
        own |= units_of(result.units, answer_sample, reasons)
        own |= judged_units(result, own["units"], reasons)
    if result.ask.return_samples:
        own["samples"] = _samples(result)
    if result.ask.explain:
        own |= _explained(result, reasons)
    if result.is_held_back:
        for name in _TELLING:
            if name in own:
                own[name], reasons[name] = None, why_held_back(result)
    own |= {"estimator": result.plan.primary, "confidence": judgement.confidence}
    if (support := support_of(result.evidence)) is not None:
        own["support"] = support
    return own | {
        "scores": dict(result.scores),
        "reasons": reasons,
        "warnings": result.warnings,
        "timing_ms": timing_of(result),
        "cached": result.source == "cache",
        "provenance": provenance_of(result),
    }


def timing_of(result: Result) -> dict[str, float]:
    """A `Timing`: milliseconds of each stage, to the microsecond."""
    stage_ms = {}
    for stage, seconds in (*result.stage_s.items(), ("total", result.total_s)):
        stage_ms[stage] = round(seconds * 1000, 3)
    return stage_ms


def renew(body: dict[str, Any], result: Result, request_id: str) -> None:
    body["id"], body["timing_ms"] = request_id, timing_of(result)


# In place of a sentence on what means the same.
_NOBODY_KNOWS = (
    "How many samples mean the same is not known: the similarity model was not made for such texts."
)


def why_held_back(result: Result) -> str:
    if result.has_parts_held_back:
        return PART_HELD_BACK
    return HELD_BACK


def _explained(result: Result, reasons: dict[str, str]) -> dict[str, Any]:
    """What the samples say; null where nothing compared them, which `reasons` then says."""
    if (found := groups_of(result.evidence)) is None:
        absent = result.evidence.absent
        reason = absent.get("similarity", "there are no samples that were compared")
        reasons |= {"explanation": reason, "groups": reason}
        return {"explanation": None, "groups": None}
    groups = [SampleGroup.model_validate(group, from_attributes=True) for group in found]
    explanation = sentence(found)
    if result.compares_foreign:
        explanation = _NOBODY_KNOWS
    if result.units is not None and result.ask.units in ("sentences", "claims"):
        explanation = f"{explanation} {shaky_units(result.units)}"
    return {"explanation": explanation, "groups": groups}


def tokens_of(answer: Sequence) -> list[Token]:
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


def usage_of(result: Result) -> dict[str, int]:
    """A `Usage`: tokens read and written."""
    subject, prompt_tokens, reasoning_tokens = result.evidence.subject, 0, 0
    if subject.answer.reasoning is not None:
        reasoning_tokens = subject.answer.reasoning.num_tokens
    if result.generation is not None:
        prompt_tokens = result.generation.prompt_tokens
    usage = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": subject.answer.num_written,
        "reasoning_tokens": reasoning_tokens,
        "sample_tokens": sum(one.num_written for one in (*subject.samples, *subject.withheld)),
    }
    if result.units is not None and result.units.parts.split_tokens is not None:
        usage["split_tokens"] = result.units.parts.split_tokens
    return usage


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


def provenance_of(result: Result) -> dict[str, Any]:
    """A `Provenance`: all that is known of what stands behind the scores."""
    plan, judgement = result.plan, result.judgement
    known: dict[str, Any] = {
        "mode": result.ask.mode,
        "strategy": plan.strategy,
        "answer_sample": result.evidence.subject.answer_sample,
        "degraded": plan.degraded,
        "percentile": judgement.percentile,
        "calibrator": judgement.calibrator,
        "found_mass": result.found_mass,
    }
    known |= _models(result) | _of_samples(result)
    if result.probe is not None:
        known |= {"probe": _probe(*result.probe), "entropy_split": split_of(result.entropy_probe)}
    if result.sentence_probe is not None:
        known["sentence_probe"] = _probe(*result.sentence_probe)
    if plan.strategy == "given":
        known["retokenized"] = result.is_read
    return {name: value for name, value in known.items() if value is not None}


def model_info(info: GeneratorInfo | ComparerInfo) -> ModelInfo:
    return ModelInfo.model_validate(_weights(info))


def _weights(info: Generation | GeneratorInfo | ComparerInfo) -> dict[str, str | None]:
    return {"id": info.model_id, "revision": info.revision}


def split_of(probe: protocol.ProbeInfo | None) -> EntropySplit | None:
    """Above which entropy the probe counts it as high; None for other probes, or none."""
    if probe is None or probe.split is None:
        return None
    return EntropySplit(nats=probe.split, base_rate=probe.base_rate)


def _models(result: Result) -> dict[str, Any]:
    known: dict[str, Any] = {}
    if result.generation is not None:
        known["model"] = _weights(result.generation)
        if result.is_read:
            known["answer_form"] = result.generation.answer_form
    if result.plan.asks("similarity"):
        known["similarity"] = result.plan.similarity
        known["similarity_model"] = _weights(result.comparer)
    if result.units is not None and result.units.parts.num_pairs is not None:
        known["unit_pairs"] = result.units.parts.num_pairs
    if result.plan.asks("nli") and result.nli is not None:
        known["nli_model"] = _weights(result.nli)
    return known


def _of_samples(result: Result) -> dict[str, Any]:
    subject = result.evidence.subject
    if not (subject.samples or subject.withheld):
        return {}
    known: dict[str, Any] = {
        "samples_source": result.samples_source,
        "samples_left_out": len(subject.withheld) or None,
        "stopped_by": result.stopped_by,
    }
    if subject.samples:
        known["num_samples"] = len(subject.samples)
        known["num_distinct_samples"] = result.num_distinct_samples
    if result.generation is not None and result.samples_source == "model":
        known["seed"] = result.generation.seed
    if (similarity := result.evidence.statistics.get("similarity")) is not None:
        known["consistency_std_error"] = consistency_std_error(similarity)
    return known


def _probe(probe: protocol.ProbeInfo, reading: ProbeReading) -> ProbeInfo:
    return ProbeInfo(
        id=probe.id,
        training_set=probe.training_set,
        distance_percentile=reading.distance_percentile,
        out_of_domain=reading.out_of_domain,
    )
