"""One prompt of a dataset through the core: its recording, and the scores of its answers."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from app.scoring.ask import Ask
from app.scoring.plan import generation_request
from app.scoring.questions import FALSE, TRUE, question_about
from app.scoring.scorer import Scorer
from app.scoring.selection import AnswerStrategy, Strategy
from cocoa_lab.examples import Example
from cocoa_lab.recordings import Recording, RecordingHeader, TrueFalse, recorded_statistics
from cocoa_lab.replaying import replaying, words_of
from cocoa_lab.run import AnswerScores
from cocoa_lab.running import seed_of
from models.digests import digest_of
from models.errors import InvalidLogits, InvalidRequest, PromptTooLong
from models.estimators import needs
from models.grammar.grammars import grammar_of
from models.records import Generation, SamplingParams
from models.statistics import reads_samples, supplied_by
from workers.protocol import Generator, GeneratorInfo

_DIGITS = 6  # of similarities


def ask_of(example: Example, header: RecordingHeader) -> Ask:
    """The example's prompt or messages, sampled the same for the same seed and settings."""
    sampling = SamplingParams(
        max_new_tokens=example.max_new_tokens,
        stop=tuple(example.stop),
        seed=seed_of(header.seed, example.id),
        **header.sampling,
    )
    ask = Ask(prompt=example.prompt, sampling=sampling)
    if example.messages is not None:
        ask = Ask(messages=example.messages, sampling=sampling)
    if example.documents is not None:
        ask = replace(ask, documents=example.documents)
        if example.messages is None:
            ask = replace(ask, documents_in="prompt")
    if example.json_schema is None:
        return ask
    grammar = grammar_of(example.json_schema)
    return replace(ask, grammar=grammar, json_schema=example.json_schema)


def variants(
    ask: Ask,
    estimators: Sequence[str],
    strategies: Sequence[Strategy],
    similarities: Sequence[str],
    draws: Sequence[int],
) -> list[Ask]:
    """What is asked of one recording: each strategy, with the first similarity function and draw.

    A further function is compared under the first strategy, by the estimators that read
    `similarity`; a further draw under every strategy, by those that read samples. Probes have read
    the greedy answer alone.
    """
    first = drawing(ask, draws[0])
    asks, unread = [], [name for name in estimators if not needs([name]) & supplied_by("probe")]
    for strategy in strategies:
        scored = estimators if strategy == "greedy" else unread
        asks.append(_variant(first, scored, strategy, similarities[0]))
    compared = [name for name in estimators if "similarity" in needs([name])]
    if compared:
        asks += [_variant(first, compared, strategies[0], name) for name in similarities[1:]]
    sampled = [name for name in estimators if reads_samples(needs([name]))]
    for draw in draws[1:]:
        other = drawing(ask, draw)
        for strategy in strategies if sampled else ():
            asks.append(_variant(other, sampled, strategy, similarities[0]))
    return asks


def check_answers(generator: GeneratorInfo, answer_temperature: float | None) -> None:
    """Refuse greedy answers of a model that gives none, whose labels would bind no answer.

    Raises:
        InvalidRequest: each of its answers is a draw, and no temperature is named for them.
    """
    if generator.no_greedy and answer_temperature is None:
        message = f"{generator.no_greedy}, so that its answers are draws"
        raise InvalidRequest(f"{message}: add --answer-temperature 1")


async def record(
    example: Example, ask: Ask, header: RecordingHeader, generator: Generator
) -> Recording:
    """Generate for one example.

    What the model always refuses is recorded too, so that no later run asks it again.
    """
    found = Recording(example.id, example.prompt)
    if example.documents is not None:
        found = replace(found, documents=digest_of(*map(dict, example.documents)))
    request = generation_request(ask, frozenset(header.statistics))
    request = replace(
        request, limits_samples=False
    )  # whole for any strategy; `replaying` cuts them
    try:
        generation = await generator.generate(request)
    except (InvalidRequest, InvalidLogits) as error:
        return replace(found, error=error.code)
    generation = replace(generation, queue_s=0.0, generate_s=0.0)  # these are of the moment
    if not header.asks_p_true:
        return replace(found, generation=generation)
    true_false = await opinions(generation, ask, generator)
    return replace(found, generation=generation, true_false=true_false)


async def opinions(generation: Generation, ask: Ask, generator: Generator) -> dict[str, TrueFalse]:
    """What the model says of each distinct answer, any of which some strategy may choose."""
    answers = (generation.answer, *generation.samples)
    texts = list(dict.fromkeys(answer.compared_text for answer in answers))
    pairs = await asyncio.gather(*(_true_false(text, ask, generator) for text in texts))
    return dict(zip(texts, pairs, strict=True))


def replayed(
    recording: Recording, asks: Sequence[Ask], header: RecordingHeader, scorer: Scorer
) -> Scorer:
    """The scorer for a recording: asks of its prompt are answered by what was written then."""
    opinions = {}
    for text, said in recording.true_false.items():
        opinions[words_of(question_about(text, asks[0]))] = said
    return replaying(scorer, recorded_statistics(header), recording.generation, opinions)


async def score_recording(
    recording: Recording, asks: Sequence[Ask], header: RecordingHeader, scorer: Scorer
) -> list[AnswerScores]:
    """Scores of one prompt under each of its asks; none where it has no generation."""
    if recording.generation is None:
        return []
    scorer = replayed(recording, asks, header, scorer)
    results = []
    for ask in asks:  # one after another, so that each finds the pairs of those before
        result = await scorer.run(ask)
        subject, similarities = result.evidence.subject, dict[str, Any]()
        for name in ("similarity", "similarity_matrix"):
            if name in result.evidence.statistics:
                values = np.round(result.evidence.statistics[name], _DIGITS)
                similarities[name] = values.tolist()
        answer_scores = AnswerScores(
            id=recording.id,
            strategy=result.plan.strategy,
            similarity=result.plan.similarity,
            draw=str(ask.sampling.num_samples),
            num_samples=len(subject.samples),
            text=subject.answer.compared_text,
            sample=subject.answer_sample,
            scores=result.scores,
            reasons=result.reasons,
            similarities=similarities,
        )
        results.append(answer_scores)
    return results


def drawing(ask: Ask, num_samples: int) -> Ask:
    """The ask with another number of samples."""
    return replace(ask, sampling=replace(ask.sampling, num_samples=num_samples))


def _variant(ask: Ask, estimators: Sequence[str], strategy: Strategy, similarity: str) -> Ask:
    asked: AnswerStrategy = "greedy"
    sampling = ask.sampling  # which has the temperature of an answer of its own
    if strategy != "sample" and strategy != "given":
        asked = strategy
    if asked != "greedy":
        sampling = replace(sampling, answer_temperature=0.0)
    ask = replace(ask, estimators=tuple(estimators), similarity=similarity)
    return replace(ask, strategy=asked, sampling=sampling)


async def _true_false(text: str, ask: Ask, generator: Generator) -> TrueFalse:
    try:
        reply = await generator.first_token_logprobs(question_about(text, ask), (TRUE, FALSE))
    except PromptTooLong:
        return None
    true, false = reply.logprobs
    return true, false
