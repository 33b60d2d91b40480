"""From results to what a label needs of them."""

import time

from app.feedback.protocol import Answer
from app.scoring.result import Result
from models.calibration import Binding
from models.records import DEFAULT_NEW_TOKENS


def to_answer(result: Result, answer_id: str, *, keeps_text: bool) -> Answer | None:
    """What is remembered of a served answer; never its prompt.

    None where the client reads another text than the one that was scored, or none: a label would
    be of that one.
    """
    text = result.evidence.subject.answer.text
    if result.text != text:
        return None
    return Answer(
        id=answer_id,
        served_at=time.time(),
        estimator=result.plan.primary,
        scores=dict(result.scores),
        binding=_binding(result),
        calibrator=result.judgement.calibrator,
        text=text if keeps_text else None,
        namespace=result.ask.caller.namespace,
    )


def _binding(result: Result) -> Binding | None:
    """What the scores came from; None where that is more than what this deployment knows."""
    generation, ask, plan = result.generation, result.ask, result.plan
    is_brought = ask.samples is not None or ask.answer_token_logprobs is not None
    # A calibrator knows no reasoning: labels of answers behind one would be of other scores.
    if generation is None or is_brought or plan.is_reasoned:
        return None
    sampling = ask.sampling
    subject = result.evidence.subject
    reasons = [one.finish_reason for one in (subject.answer, *subject.samples)]
    read = sorted(result.probes.keys() & plan.statistics)
    return Binding(
        model_id=generation.model_id,
        revision=generation.revision,
        generator=generation.identity,
        input=ask.input,
        strategy=plan.strategy,
        num_samples=sampling.num_samples,
        stop_mass=sampling.stop_mass,
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        stop=sampling.stop,
        max_new_tokens=sampling.max_new_tokens or DEFAULT_NEW_TOKENS,
        share_cut=reasons.count("length") / len(reasons),
        similarity=plan.similarity,
        comparer=result.comparer.identity,
        nli=None if result.nli is None else result.nli.identity,
        probes={name: result.probes[name].sha256 for name in read},
        reasoning=ask.how_it_reasons,
    )
