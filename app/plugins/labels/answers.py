"""Results as answers that can be labelled."""

import time
from dataclasses import replace
from typing import Any

from app.plugins.labels.protocol import MAX_PARTS, Answer, AnswerPart, part_name
from app.scoring.ask import PARTS
from app.scoring.result import Result
from models.calibration import Binding
from models.records import DEFAULT_NEW_TOKENS
from models.similarity.rules import SCORED
from models.statistics import SENTENCES_READ, supplied_by


def to_answer(result: Result, answer_id: str, *, keeps_text: bool) -> Answer | None:
    """The record of a served answer, by which it can be labelled; never its prompt.

    None where the answer was held back: a label would be of what nobody read.
    """
    text = result.evidence.subject.answer.text
    if result.text != text:
        return None
    binding = _binding(result)
    return Answer(
        id=answer_id,
        served_at=time.time(),
        estimator=result.plan.primary,
        scores=dict(result.scores),
        binding=binding,
        calibrator=result.judgement.calibrator,
        text=text if keeps_text else None,
        namespace=result.ask.caller.namespace,
        **_parts(result, binding),
    )


def _parts(result: Result, binding: Binding | None) -> dict[str, Any]:
    kind = PARTS.get(result.ask.units)
    # Claims have no names: several may be read from the same words.
    if result.units is None or kind in (None, "claim"):
        return {}
    parts = []
    for scored in result.units.units[1 : 1 + MAX_PARTS]:
        name: str | None = None
        span: tuple[int, int] | None = None
        if scored.unit.path is not None:
            name = part_name(scored.unit.path)
        if scored.unit.spans:
            span = scored.unit.spans[0][0], scored.unit.spans[-1][1]
        parts.append(AnswerPart(name, span, dict(scored.scores)))
    if binding is not None:
        binding = replace(binding, unit=kind, probes=_probes(result, frozenset({SENTENCES_READ})))
    return {"parts": tuple(parts), "parts_binding": binding}


def _probes(result: Result, names: frozenset[str]) -> dict[str, str]:
    read = sorted(result.generator.probes.keys() & result.plan.statistics & names)
    return {name: result.generator.probes[name].sha256 for name in read}


def _binding(result: Result) -> Binding | None:
    """Models and settings that the scores came from; None where some are the client's."""
    ask, plan, subject = result.ask, result.plan, result.evidence.subject
    # By rules none is asked: the one that is here.
    model = result.evidence.generation or result.generator
    is_brought = ask.samples is not None or ask.answer_token_logprobs is not None
    if ask.answer is not None and not ask.answer.append_eos:
        return None  # the score of a beginning
    # Calibrators have no scores with reasoning, nor of fewer samples than were requested.
    if is_brought or plan.is_reasoned or subject.withheld:
        return None
    sampling = ask.sampling
    reasons = [row.finish_reason for row in (subject.answer, *subject.samples)]
    return Binding(
        model_id=model.model_id,
        revision=model.revision,
        generator=model.identity,
        input=ask.input,
        strategy=plan.strategy,
        num_samples=sampling.num_samples,
        temperature=sampling.temperature,
        answer_temperature=sampling.answer_temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        stop=sampling.stop,
        max_new_tokens=sampling.max_new_tokens or DEFAULT_NEW_TOKENS,
        share_cut=reasons.count("length") / len(reasons),
        similarity=plan.similarity,
        comparer=result.similarity_scorer.identity,
        nli=None if result.nli is None else result.nli.identity,
        probes=_probes(result, supplied_by("probe") - {SENTENCES_READ}),
        reasoning=ask.how_it_reasons,
        schema_use=ask.schema_use,
        rules=SCORED,
        documents_judged_by=plan.documents_judged_by,
    )
