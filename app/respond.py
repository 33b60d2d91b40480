"""From scores and evidence to the response."""

import time
from dataclasses import dataclass

from app.cache.entries import Computed
from app.evidence import Evidence
from app.planning import NLI_STATISTICS, SIMILARITY_STATISTICS, Plan
from app.schemas import (
    GenerateRequest,
    GenerateResponse,
    ModelInfo,
    ProbeInfo,
    Sample,
    ScoreRequest,
    Timing,
    Token,
    Usage,
)
from models.estimators import consistency_std_error, needs
from models.records import Generation
from models.records import Sequence as GeneratedSequence
from models.similarity.pairs import num_distinct
from models.similarity.protocol import PairModel
from workers.build import Workers


@dataclass(frozen=True, slots=True)
class Scored:
    """Everything a response is made of.

    Attributes:
        cached: whether the cache held what was computed.
        score_s: seconds of scoring.
        started_at: monotonic seconds.
    """

    plan: Plan
    computed: Computed
    scores: dict[str, float | None]
    reasons: dict[str, str]
    cached: bool
    score_s: float
    started_at: float


def respond(
    scored: Scored, request: GenerateRequest | ScoreRequest, workers: Workers, request_id: str
) -> GenerateResponse:
    """The response of one scored request."""
    plan, computed = scored.plan, scored.computed
    generation, evidence = computed.generation, computed.evidence
    from_client = isinstance(request, ScoreRequest) and request.samples is not None
    name = plan.similarity or workers.default_similarity
    function = name if plan.statistics & SIMILARITY_STATISTICS else None
    similarity = evidence.statistics.get("similarity")
    return GenerateResponse(
        id=request_id,
        model=ModelInfo(id=generation.model_id, revision=generation.revision)
        if computed.asked_model
        else None,
        mode=request.mode if isinstance(request, GenerateRequest) else "full",
        answer=plan.strategy,
        answer_sample=evidence.answer_sample,
        text=evidence.answer.text,
        finish_reason=evidence.answer.finish_reason,
        retokenized=plan.strategy == "given" and computed.asked_model,
        estimator=plan.primary,
        uncertainty=scored.scores[plan.primary],
        confidence=None,
        scores=scored.scores,
        reasons=scored.reasons,
        warnings=_warnings(generation, evidence),
        samples_source="client" if from_client else "model",
        num_samples=len(generation.samples),
        num_distinct_samples=num_distinct(
            [sample.compared_text for sample in generation.samples], workers.similarity[name].rules
        ),
        consistency_std_error=consistency_std_error(similarity) if similarity is not None else None,
        similarity=function,
        similarity_model=_info(workers.similarity[name].model) if function is not None else None,
        nli_model=_info(workers.nli.model)
        if workers.nli is not None and plan.statistics & NLI_STATISTICS
        else None,
        probe=_probe(scored, workers),
        seed=generation.seed if generation.samples and not from_client else None,
        samples=_samples(generation, evidence) if request.return_samples else None,
        tokens=_tokens(evidence.answer) if request.return_tokens else None,
        usage=Usage(
            prompt_tokens=generation.prompt_tokens,
            completion_tokens=len(evidence.answer.token_ids),
            sample_tokens=sum(len(sample.token_ids) for sample in generation.samples),
        ),
        timing_ms=Timing(
            queue=_ms(generation.queue_s),
            generate=_ms(generation.generate_s),
            similarity=_ms(computed.similarity_s),
            score=_ms(scored.score_s),
            total=_ms(time.monotonic() - scored.started_at),
        ),
        cached=scored.cached,
    )


def _probe(scored: Scored, workers: Workers) -> ProbeInfo | None:
    """The probe behind `uncertainty`.

    Where another estimator is reported, it is the first probe that was read.
    """
    readings = scored.computed.generation.probe_readings
    if not readings:
        return None
    name = next((name for name in readings if name in needs([scored.plan.primary])), min(readings))
    reading, probe = readings[name], workers.generation.probes[name]
    return ProbeInfo(
        id=probe.id,
        training_set=probe.card.training_set,
        distance_percentile=reading.distance_percentile,
        out_of_domain=reading.out_of_domain,
    )


def _warnings(generation: Generation, evidence: Evidence) -> list[str]:
    flags = {
        "answer_truncated": evidence.answer.finish_reason == "length",
        "samples_truncated": any(sample.finish_reason == "length" for sample in generation.samples),
        "similarity_truncated": evidence.truncated,
    }
    return [*(code for code, flag in flags.items() if flag), *generation.warnings]


def _samples(generation: Generation, evidence: Evidence) -> list[Sample]:
    """Samples with their similarity to the answer; the one that is the answer has none."""
    similarity = evidence.statistics.get("similarity")
    values: list[float | None] = [None] * len(generation.samples)
    if similarity is not None:
        others = (i for i in range(len(values)) if i != evidence.answer_sample)
        for i, value in zip(others, similarity.tolist(), strict=True):
            values[i] = value
    return [
        Sample(
            text=sample.text,
            logprob=None if sample.token_logprobs is None else float(sample.token_logprobs.sum()),
            similarity=value,
            finish_reason=sample.finish_reason,
        )
        for sample, value in zip(generation.samples, values, strict=True)
    ]


def _tokens(answer: GeneratedSequence) -> list[Token]:
    missing: list[None] = [None] * len(answer.token_ids)
    texts = answer.token_texts or ("",) * len(answer.token_ids)
    logprobs = missing if answer.token_logprobs is None else answer.token_logprobs.tolist()
    entropies = missing if answer.token_entropies is None else answer.token_entropies.tolist()
    return [
        Token(text=text, logprob=logprob, entropy=entropy)
        for text, logprob, entropy in zip(texts, logprobs, entropies, strict=True)
    ]


def _info(model: PairModel) -> ModelInfo:
    return ModelInfo(id=model.model_id, revision=model.revision)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 3)
