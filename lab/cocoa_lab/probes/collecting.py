"""Prompts through the full mode, with the answers' hidden states.

A probe is trained on these and measured by them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.scoring.ask import Ask, Units
from app.scoring.result import Result
from app.scoring.scorer import Scorer
from app.scoring.units import ScoredUnit
from app.settings import Settings
from cocoa_lab.examples import Example
from cocoa_lab.loading import lab_scorer, support_of
from cocoa_lab.probes.collection import (
    CollectedAnswer,
    CollectionHeader,
    CollectionLog,
    Row,
    digest_of,
    only,
    read,
)
from cocoa_lab.probes.showing import showing
from cocoa_lab.quality import Measure, score_by_task
from cocoa_lab.running import each, sampling_of, seed_of
from models.errors import InvalidLogits, InvalidRequest
from models.estimators import needs
from models.probes.card import POOLING, SENTENCE_POOLING, Card, check_card
from models.records import Array, SamplingParams
from workers.protocol import Workers

# The targets of probes, and the full scores beside which the light ones are measured.
ESTIMATORS = (
    "inconsistency",
    "sp",
    "ppl",
    "mte",
    "cocoa_sp",
    "cocoa_ppl",
    "cocoa_mte",
    "semantic_entropy",
)
# Likewise of sentences.
_OF_SENTENCES = ("inconsistency", "sp", "mte")


@dataclass(frozen=True, slots=True)
class CollectionSpec:
    """What is to be collected.

    Attributes:
        prompts: name of the examples, for the header.
        layers: None for those of `candidate_layers`.
        units: what a row of the collection is of.
    """

    prompts: str
    examples: Sequence[Example]
    folder: Path
    num_samples: int
    seed: int
    layers: tuple[int, ...] | None
    units: Units = "answer"


@dataclass(frozen=True, slots=True)
class AnswerQuality:
    """Quality of the answers of a collection.

    Attributes:
        values: (N,), higher better, NaN where undefined.
        is_binary: whether it is 0 or 1 on all tasks.
    """

    values: Array
    is_binary: bool


def candidate_layers(num_layers: int) -> tuple[int, ...]:
    """All layers of a small model; five around the middle of a large one.

    The middle is where the paper finds the best.

    >>> candidate_layers(5), candidate_layers(32)
    ((1, 2, 3, 4), (8, 12, 16, 20, 24))
    """
    if num_layers <= 8:
        return tuple(range(1, num_layers))
    return tuple(round(num_layers * eighth / 8) for eighth in (2, 3, 4, 5, 6))


async def collect(spec: CollectionSpec, settings: Settings, on_done: Callable[[], None]) -> None:
    """Run every prompt that the folder does not hold yet; `on_done` is called for all.

    Raises:
        AnotherRun: the folder holds that of another run.
        CocoaError: a model failed; what was collected before is in the folder.
    """
    async with lab_scorer(settings) as scorer:
        await _collect(spec, scorer, on_done)


async def collect_and_measure(
    spec: CollectionSpec,
    measures: Mapping[str, Measure],
    settings: Settings,
    on_done: Callable[[], None],
    card: Card | None = None,
) -> AnswerQuality:
    """`collect`, and then the quality of the examples' answers in the folder.

    Args:
        spec: what is to be collected.
        measures: by task.
        settings: of the models.
        on_done: called after each prompt.
        card: of the probe that will read the answers.

    Raises:
        ProbeMismatch: the probe is another model's; nothing is collected then.
        ValueError: a measure needs an NLI model and none is loaded; nor is anything then.
    """
    async with lab_scorer(settings) as scorer:
        if card is not None:
            _check_probe(card, scorer.workers)
        support = support_of(scorer.workers)
        for measure in measures.values():
            measure.check(support)
        await _collect(spec, scorer, on_done)
        by_id = {example.id: example for example in spec.examples}
        texts, examples, is_binary = [], [], True
        for answer in only(read(spec.folder), by_id).answers:
            texts.append(answer.text)
            examples.append(by_id[answer.id])
            is_binary = is_binary and measures[answer.task].is_binary
        values = await score_by_task(texts, examples, measures, support)
    return AnswerQuality(values, is_binary)


async def _collect(spec: CollectionSpec, scorer: Scorer, on_done: Callable[[], None]) -> None:
    estimators, header = _estimators(scorer, spec.units), _header(spec, scorer.workers)
    scorer = showing(scorer, header.layers, by_sentence=header.units == "sentences")
    with CollectionLog(spec.folder, header) as log:
        new = [example for example in spec.examples if example.id not in log.ids]
        for _ in range(len(spec.examples) - len(new)):
            on_done()

        async def one(position: int) -> None:
            ask = _ask(new[position], header, estimators)
            log.put(position, await _rows(new[position], ask, scorer))
            on_done()

        await each(range(len(new)), one, header.sampling["num_samples"])


async def _rows(example: Example, ask: Ask, scorer: Scorer) -> list[Row]:
    """What samples showed of the answer, or of each of its sentences, with their features."""
    digest = digest_of(example.prompt)
    try:
        result = await scorer.run(ask)
    except (InvalidRequest, InvalidLogits) as error:
        return [(CollectedAnswer(example.id, example.task, "", 0, {}, error.code, digest), None)]
    if ask.units == "sentences":
        return _sentence_rows(example, result, digest)
    answer = result.evidence.subject.answer
    collected = CollectedAnswer(
        id=example.id,
        task=example.task,
        text=answer.compared_text,
        num_tokens=answer.num_tokens,
        scores=result.scores,
        prompt_digest=digest,
    )
    if result.evidence.generation is None:
        return [(collected, None)]
    return [(collected, result.evidence.generation.answer_hidden_mean)]


def _sentence_rows(example: Example, result: Result, digest: str) -> list[Row]:
    """The sentences whose states were kept, under one id: no split parts those of an answer."""
    kept: list[tuple[ScoredUnit, Array]] = []
    if result.units is not None and result.evidence.generation is not None:
        for one in result.units.units[1:]:
            mean = dict(result.evidence.generation.sentence_hidden_means).get(one.unit.spans[0])
            if mean is not None:
                kept.append((one, mean))
    if not kept:
        empty = CollectedAnswer(example.id, example.task, "", 0, {}, "no_sentences", digest)
        return [(empty, None)]
    rows: list[Row] = []
    for part, (one, mean) in enumerate(kept):
        scores = dict(one.scores)
        scores["sentence_inconsistency"] = scores.pop("inconsistency", None)
        collected = CollectedAnswer(
            id=example.id,
            task=example.task,
            text=one.unit.text,
            num_tokens=len(one.unit.tokens),
            scores=scores,
            prompt_digest=digest,
            part=part,
            num_parts=len(kept),
        )
        rows.append((collected, mean))
    return rows


def _estimators(scorer: Scorer, units: Units) -> tuple[str, ...]:
    """Those of ESTIMATORS that these models supply.

    Raises:
        InvalidRequest: the generator does not show its hidden states.
    """
    wanted = _OF_SENTENCES if units == "sentences" else ESTIMATORS
    if not scorer.workers.generator.info.num_layers:
        raise InvalidRequest("this engine does not show its hidden states, which probes read")
    available = scorer.available_statistics(Ask(prompt=""))
    return tuple(name for name in wanted if needs([name]) <= available)


def _ask(example: Example, header: CollectionHeader, estimators: tuple[str, ...]) -> Ask:
    sampling = SamplingParams(
        num_samples=header.sampling["num_samples"],
        max_new_tokens=example.max_new_tokens,
        stop=tuple(example.stop),
        seed=seed_of(header.seed, example.id),
    )
    return Ask(
        prompt=example.prompt if example.messages is None else None,
        messages=example.messages,
        sampling=sampling,
        estimators=estimators,
        units=None if header.units == "answer" else header.units,
    )


def _header(spec: CollectionSpec, workers: Workers) -> CollectionHeader:
    generator = workers.generator.info
    limits = [example.max_new_tokens for example in spec.examples]
    return CollectionHeader(
        prompts=spec.prompts,
        model=generator.model_id,
        revision=generator.revision,
        dtype=generator.dtype,
        layers=spec.layers or candidate_layers(generator.num_layers),
        dimension=generator.hidden_size,
        sampling=sampling_of(spec.num_samples) | {"max_new_tokens": max(limits, default=0)},
        seed=spec.seed,
        compared_by=_compared_by(workers),
        units=spec.units,
        pooling=SENTENCE_POOLING if spec.units == "sentences" else POOLING,
    )


def _check_probe(card: Card, workers: Workers) -> None:
    """Refuse a probe of another model than the one that runs."""
    generator = workers.generator.info
    check_card(
        card,
        target=card.target,
        model_id=generator.model_id,
        revision=generator.revision,
        dimension=generator.hidden_size,
        num_layers=generator.num_layers,
        statistics=generator.statistics,
    )


def _compared_by(workers: Workers) -> dict[str, str | bool | None]:
    """The models behind the targets, with the rules that change them."""
    similarity = workers.similarity_scorers[workers.default_similarity].info
    compared_by: dict[str, str | bool | None] = {
        "similarity": workers.default_similarity,
        "similarity_model": similarity.model_id,
        "similarity_revision": similarity.revision,
        "strip": similarity.rules.strip,
        "exact_match": similarity.rules.exact_match,
    }
    if workers.nli is not None:
        compared_by["nli_model"] = workers.nli.info.model_id
        compared_by["nli_revision"] = workers.nli.info.revision
    return compared_by
