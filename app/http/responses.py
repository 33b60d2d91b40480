"""From results to response bodies: plain values, in the shapes of `app.http.schemas`."""

import math
import secrets
from collections.abc import Sequence as Many
from typing import Any

from app.scoring.result import Result
from app.scoring.units import ScoredUnit, ScoredUnits
from models.estimators.cocoa import inconsistency_std_error
from models.records import Generation, ProbeReading, Token
from models.units.tool_calls import Call, read
from workers import protocol
from workers.protocol import GeneratorInfo, SimilarityInfo

# Fields that would reveal an answer that is held back.
_REVEALING = ["text", "reasoning", "explanation", "groups", "units", "samples", "tokens"]
_REVEALING += ["tool_calls"]
# Some templates take identifiers of calls of nine characters only.
_ID_CHARACTERS = 9
_NO_INTERVAL = "the answer has no confidence, or one that reads no samples beside it"


def to_response(result: Result, request_id: str) -> dict[str, Any]:
    answer, optional = result.evidence.subject.answer, dict[str, Any]()
    if answer.reasoning is not None:
        optional["reasoning"] = result.reasoning
    if result.refusal is not None:
        optional["refusal"] = result.refusal
    if result.ask.return_tokens:
        optional["tokens"] = list(map(token_info, answer.tokens))
    if result.ask.tools:
        pieces = read(result.text or "", result.ask.tool_names)
        _, optional["tool_calls"] = parted(pieces, answer.extra)
    return scored(
        result,
        id=request_id,
        text=result.text,
        finish_reason=answer.finish_reason,
        usage=result.usage,
        uncertainty=result.uncertainty,
        **optional,
    )


def scored(result: Result, **fields: Any) -> dict[str, Any]:
    """A body with `fields`, then those of `Scored` and the provenance of the scores.

    Fields that were not requested, or do not apply, are absent.
    """
    judgement, reasons = result.judgement, dict(result.reasons)
    if judgement.reason is not None:
        reasons["confidence"] = judgement.reason
    if judgement.decision is not None:
        fields["decision"] = judgement.decision
    if result.units is not None:
        fields |= _units(result.units, result.evidence.subject.answer_sample, reasons)
        fields |= _judged_units(result, fields["units"], reasons)
    if result.ask.return_samples:
        fields["samples"] = _samples(result)
    if result.ask.explain:
        fields |= _explained(result, reasons)
    if fields.get("tokens") == [] and result.text:
        fields["tokens"], reasons["tokens"] = None, "the answer's tokens are not known"
    if result.is_held_back:
        for name in _REVEALING:
            if name in fields:
                fields[name], reasons[name] = None, result.why_held_back
    fields |= {"estimator": result.plan.primary, "confidence": judgement.confidence}
    if (share := result.support) is not None:
        fields["support"] = share
    return fields | {
        "scores": dict(result.scores),
        "reasons": reasons,
        "warnings": result.warnings,
        "timing_ms": result.timing_ms,
        "cached": result.source == "cache",
        "provenance": provenance_of(result),
    }


def _explained(result: Result, reasons: dict[str, str]) -> dict[str, Any]:
    """What `explain` adds; null, with their reasons, where no samples were compared."""
    explanation, groups = result.explained()
    if groups is None:
        absent = result.evidence.absent
        reason = absent.get("similarity", "there are no samples that were compared")
        reasons |= {"explanation": reason, "groups": reason}
    interval = result.judgement.interval
    if interval is None:
        reasons["confidence_interval"] = _NO_INTERVAL
    return {"explanation": explanation, "groups": groups, "confidence_interval": interval}


def token_info(token: Token) -> dict[str, Any]:
    """A `Token` of the schemas."""
    return {"text": token.text, "logprob": token.logprob, "entropy": token.entropy}


def _samples(result: Result) -> list[dict[str, Any]]:
    samples: list[dict[str, Any]] = []
    for sample, similarity in zip(
        result.evidence.subject.samples, result.sample_similarities, strict=True
    ):
        logprob = None if sample.token_logprobs is None else float(sample.token_logprobs.sum())
        about = {"similarity": similarity, "finish_reason": sample.finish_reason}
        samples.append({"text": sample.text, "logprob": logprob, **about})
    return samples


def provenance_of(result: Result) -> dict[str, Any]:
    """A `Provenance`: models, samples and probes that the scores come from."""
    plan, judgement = result.plan, result.judgement
    known: dict[str, Any] = {
        "mode": result.ask.mode,
        "strategy": plan.strategy,
        "answer_sample": result.evidence.subject.answer_sample,
        "degraded": plan.degraded,
        "percentile": judgement.percentile,
        "calibrator": judgement.calibrator,
    }
    known |= _models(result) | _of_samples(result)
    if plan.strategy == "sample" and result.evidence.generation is not None:
        known["seed"] = result.evidence.generation.seed
    if result.probe is not None:
        known |= {"probe": _probe(*result.probe), "entropy_split": result.entropy_split}
    if result.sentence_probe is not None:
        known["sentence_probe"] = _probe(*result.sentence_probe)
    if plan.strategy == "given":
        known["retokenized"] = result.is_read
    return {name: value for name, value in known.items() if value is not None}


def weights_of(info: Generation | GeneratorInfo | SimilarityInfo) -> dict[str, str | None]:
    """A `ModelInfo`."""
    return {"id": info.model_id, "revision": info.revision}


def _models(result: Result) -> dict[str, Any]:
    known, asked = dict[str, Any](), result.asked
    if result.evidence.generation is not None:
        known["model"] = weights_of(result.evidence.generation)
        if result.is_read:
            known["answer_form"] = result.evidence.generation.answer_form
    if "similarity" in asked:
        known["similarity"] = result.plan.similarity
        known["similarity_model"] = weights_of(asked["similarity"])
    if result.units is not None and result.units.parts.num_pairs is not None:
        known["unit_pairs"] = result.units.parts.num_pairs
    if "nli" in asked:
        known["nli_model"] = weights_of(asked["nli"])
    return known


def _of_samples(result: Result) -> dict[str, Any]:
    subject = result.evidence.subject
    if not (subject.samples or subject.withheld):
        return {}
    known: dict[str, Any] = {
        "samples_source": result.samples_source,
        "samples_left_out": len(subject.withheld) or None,
        "num_samples": len(subject.samples) or None,
        "num_distinct_samples": result.num_distinct_samples or None,
    }
    if result.evidence.generation is not None and result.samples_source == "model":
        known["seed"] = result.evidence.generation.seed
        known["sample_limit"] = result.evidence.generation.sample_limit
    if (similarity := result.evidence.statistics.get("similarity")) is not None:
        known["inconsistency_std_error"] = inconsistency_std_error(similarity)
    return known


def _probe(probe: protocol.ProbeInfo, reading: ProbeReading) -> dict[str, Any]:
    return {
        "id": probe.id,
        "training_set": probe.training_set,
        "distance_percentile": reading.distance_percentile,
        "out_of_domain": reading.out_of_domain,
    }


def _units(units: ScoredUnits, sample: int | None, reasons: dict[str, str]) -> dict[str, Any]:
    """The fields of a response about units: the answer first, then its parts in order.

    The reasons gain why uncertainties, or the share that documents say, are not known.
    `sample` is the index of the answer among the samples; None where it is none of them.
    """
    bodies = [_unit(unit, sample) for unit in units.units]
    if missing := units.parts.missing:
        bodies[0]["missing"] = [{"path": path, "share": share} for path, share in missing.items()]
    if units.mean is None:
        reasons |= dict.fromkeys(("units_mean", "units_max"), "no part of the answer has a score")
    told: dict[str, Any] = {"units": bodies, "units_mean": units.mean, "units_max": units.greatest}
    if (grounded := units.parts.grounded) is not None:
        told["grounded"] = grounded
    if isinstance(grounded, str):  # why it is not known
        told["grounded"], reasons["grounded"] = None, grounded
    return told


def _judged_units(
    result: Result, units: list[dict[str, Any]], reasons: dict[str, str]
) -> dict[str, Any]:
    """The fields of a judgement of parts; adds confidence and decision to each of `units`.

    The reasons gain why there are no confidences, and no refined text.
    """
    judgement, known = result.judgement.parts, dict[str, Any]()
    if judgement is None:
        return known
    removes = result.ask.on_unit_reject == "remove"
    for unit, judged in zip(units[1:], judgement.units, strict=True):
        unit["confidence"] = judged.confidence
        if judged.accept is None:
            continue
        decision = unit["decision"] = {"accept": judged.accept}
        if removes:
            decision["removed"] = judged.is_removed
        if judged.reason is not None:
            decision["reason"] = judged.reason
    if judgement.reason is not None:
        reasons["units.confidence"] = judgement.reason
    if judgement.decision is not None:
        known["units_decision"] = judgement.decision
    if removes:
        known["refined_text"] = judgement.refined_text
    if judgement.no_refined_text is not None:
        reasons["refined_text"] = judgement.no_refined_text
    return known


def _unit(scored: ScoredUnit, answer_sample: int | None) -> dict[str, Any]:
    """A `UnitInfo`; `answer_sample` is as in `_units`."""
    unit = scored.unit
    fields: dict[str, Any] = {"kind": unit.kind, "text": unit.text}
    if unit.path is not None:
        fields["path"] = unit.path
    if unit.spans:
        fields["span"] = [unit.spans[0][0], unit.spans[-1][1]]
    if len(unit.spans) > 1:
        fields["spans"] = unit.spans
    if len(unit.tokens):
        fields["tokens"] = [int(unit.tokens[0]), int(unit.tokens[-1]) + 1]
    if (mean := unit.support) is not None:
        fields["support"] = mean
    if (denied := unit.contradiction) is not None:
        fields["contradiction"] = denied
        # Among all samples, the answer with them where it is one.
        first = math.inf if answer_sample is None else answer_sample
        fields["contradicted_by"] = [i + (i >= first) for i in unit.denied_by()]
    if unit.reading is not None:
        fields["out_of_domain"] = unit.reading.out_of_domain
    if alternatives := unit.alternatives.items():
        fields["alternatives"] = [{"value": value, "share": share} for value, share in alternatives]
    if unit.grounded is not None:
        fields["documents"] = _said_by_documents(scored)
    return fields | {
        "estimator": scored.estimator,
        "uncertainty": scored.uncertainty,
        "scores": dict(scored.scores),
        "reasons": dict(scored.reasons),
    }


def _said_by_documents(scored: ScoredUnit) -> dict[str, Any]:
    """A `UnitDocuments`."""
    unit = scored.unit
    fields: dict[str, Any] = {"grounded": unit.grounded, "missing": unit.missing}
    if unit.document is not None:
        fields |= {"id": unit.document, "span": unit.document_span}
    if unit.denied_by_documents is not None:
        fields["contradicted_by"] = unit.denied_by_documents
    return fields


def _call_info(call: Call) -> dict[str, Any]:
    """A `ToolCallInfo`."""
    call_id = secrets.token_hex(_ID_CHARACTERS)[:_ID_CHARACTERS]
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call_id, "type": "function", "function": function}


def parted(pieces: Many[str | Call], extra: Many[Any] = ()) -> tuple[str | None, list[Any]]:
    """The text beside the calls, None without one, and `ToolCallInfo`s; `extra` of the sequence."""
    calls = [_call_info(piece) for piece in pieces if isinstance(piece, Call)]
    for call, more in zip(calls, extra[1:], strict=False):
        call.update(more)
    return "\n".join(piece for piece in pieces if isinstance(piece, str)) or None, calls
