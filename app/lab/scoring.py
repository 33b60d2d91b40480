"""One prompt: its recording, and the scores of its answers under every plan.

Evidence and estimators are the same as those of a served request.
"""

import asyncio
from collections.abc import Sequence

from app.evidence import FALSE, TRUE, gather_evidence, question_about
from app.lab.examples import Example
from app.lab.recordings import Recording, RecordingHeader, TrueFalse
from app.lab.replay import replaying
from app.lab.run import AnswerScores
from app.lab.running import seed_of
from app.planning import STRATEGY_NEEDS, Plan, derivable
from models.engines.protocol import Engine
from models.errors import InvalidLogits, InvalidRequest, PromptTooLong
from models.estimators import needs, score
from models.records import GenerationRequest, SamplingParams
from models.selection import Strategy
from workers.build import Workers


def request_of(example: Example, header: RecordingHeader) -> GenerationRequest:
    """What the engine is asked for: the same for the same example, seed and settings."""
    sampling = SamplingParams(
        max_new_tokens=example.max_new_tokens,
        stop=tuple(example.stop),
        seed=seed_of(header.seed, example.id),
        **header.sampling,
    )
    return GenerationRequest(
        prompt=example.prompt, sampling=sampling, statistics=frozenset(header.statistics)
    )


async def record(
    example: Example, request: GenerationRequest, header: RecordingHeader, engine: Engine
) -> Recording:
    """Generate for one example.

    What the model always refuses is recorded too, so that no later run asks it again.
    """
    try:
        generation = await engine.generate(request)
    except (InvalidRequest, InvalidLogits) as error:
        return Recording(example.id, example.prompt, None, error=error.code)
    if not header.asks_p_true:
        return Recording(example.id, example.prompt, generation)
    # The distinct texts, as any of them is y* under some strategy and similarity function.
    answers = (generation.answer, *generation.samples)
    texts = list(dict.fromkeys(answer.compared_text for answer in answers))
    pairs = await asyncio.gather(*(_true_false(text, request, engine) for text in texts))
    true_false = dict(zip(texts, pairs, strict=True))
    return Recording(example.id, example.prompt, generation, true_false)


async def score_recording(
    recording: Recording, request: GenerationRequest, plans: Sequence[Plan], workers: Workers
) -> list[AnswerScores]:
    """Scores of one prompt under each plan; none where it has no generation."""
    if recording.generation is None:
        return []
    replayed = replaying(recording, request, workers)
    results = []
    for plan in plans:  # one after another, so that each finds the pairs of those before
        evidence = await gather_evidence(plan, recording.generation, request, replayed)
        scores, reasons = score(plan.estimators, evidence.statistics, evidence.absent)
        answer_scores = AnswerScores(
            id=recording.id,
            strategy=plan.strategy,
            similarity=plan.similarity or workers.default_similarity,
            text=evidence.answer.compared_text,
            sample=evidence.answer_sample,
            scores=scores,
            reasons=reasons,
        )
        results.append(answer_scores)
    return results


def make_plans(
    estimators: Sequence[str],
    strategies: Sequence[Strategy],
    similarities: Sequence[str],
    available: frozenset[str],
) -> list[Plan]:
    """One plan a strategy with the first similarity function, and one a further function.

    A further function is compared under the first strategy, by the estimators that read
    `similarity`.

    Raises:
        InvalidRequest: an estimator or strategy reads what is not available.
    """
    for name in estimators:
        _check_available(name, needs([name]), available)
    for strategy in strategies:
        _check_available(strategy, STRATEGY_NEEDS[strategy], available)
    plans = [_plan(estimators, strategy, similarities[0]) for strategy in strategies]
    compared = [name for name in estimators if "similarity" in needs([name])]
    if compared:
        plans += [_plan(compared, strategies[0], name) for name in similarities[1:]]
    return plans


def available_statistics(header: RecordingHeader, workers: Workers) -> frozenset[str]:
    """What a file of generations and these workers can supply together."""
    p_true = {"p_true_logprob"} if header.asks_p_true else set()
    return derivable(frozenset(header.statistics) | p_true, has_nli=workers.nli is not None)


async def _true_false(text: str, request: GenerationRequest, engine: Engine) -> TrueFalse | None:
    try:
        true, false = await engine.first_token_logprobs(
            question_about(text, request), (TRUE, FALSE)
        )
    except PromptTooLong:
        return None
    return true, false


def _check_available(name: str, wanted: frozenset[str], available: frozenset[str]) -> None:
    if missing := wanted - available:
        raise InvalidRequest(f"{name} reads {', '.join(sorted(missing))}, which is not available")


def _plan(estimators: Sequence[str], strategy: Strategy, similarity: str) -> Plan:
    wanted = needs(estimators) | STRATEGY_NEEDS[strategy]
    return Plan(tuple(estimators), estimators[0], strategy, wanted, similarity)
