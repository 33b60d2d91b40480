"""Prompts through the full mode, with the answers' hidden states.

A probe is trained on these and measured by them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.evidence import gather_evidence
from app.lab.examples import Example
from app.lab.loading import lab_workers, support_of
from app.lab.probes.collection import CollectedAnswer, CollectionHeader, CollectionLog, read
from app.lab.quality import Measure, score_by_task
from app.lab.running import each, sampling_of, seed_of
from app.planning import Plan, derivable
from app.settings import Settings
from models.errors import InvalidLogits, InvalidRequest
from models.estimators import needs, score
from models.records import Array, GenerationRequest, SamplingParams
from workers.build import Workers

# The targets of probes, and the full scores beside which the light ones are measured.
ESTIMATORS = (
    "consistency",
    "sp",
    "ppl",
    "mte",
    "cocoa_sp",
    "cocoa_ppl",
    "cocoa_mte",
    "semantic_entropy",
)


@dataclass(frozen=True, slots=True)
class CollectionSpec:
    """What is to be collected.

    Attributes:
        prompts: name of the examples, for the header.
        layers: None for those of `candidate_layers`.
    """

    prompts: str
    examples: Sequence[Example]
    folder: Path
    num_samples: int
    seed: int
    layers: tuple[int, ...] | None


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
    async with lab_workers(settings) as workers:
        await _collect(spec, workers, on_done)


async def collect_and_measure(
    spec: CollectionSpec,
    measures: Mapping[str, Measure],
    settings: Settings,
    on_done: Callable[[], None],
) -> AnswerQuality:
    """`collect`, and then the quality of all answers that the folder holds.

    measures: by task.

    Raises:
        ValueError: a measure needs an NLI model and none is loaded; nothing is collected then.
    """
    async with lab_workers(settings) as workers:
        support = support_of(workers)
        for measure in measures.values():
            measure.check(support)
        await _collect(spec, workers, on_done)
        by_id = {example.id: example for example in spec.examples}
        answers = read(spec.folder).answers
        examples = [by_id[answer.id] for answer in answers]
        texts = [answer.text for answer in answers]
        values = await score_by_task(texts, examples, measures, support)
    tasks = {answer.task for answer in answers}
    return AnswerQuality(values, all(measures[task].is_binary for task in tasks))


async def _collect(spec: CollectionSpec, workers: Workers, on_done: Callable[[], None]) -> None:
    plan, header = _plan(workers), _header(spec, workers)
    with CollectionLog(spec.folder, header) as log:
        new = [example for example in spec.examples if example.id not in log.ids]
        for _ in range(len(spec.examples) - len(new)):
            on_done()

        async def one(position: int) -> None:
            request = _request(new[position], header, plan)
            log.put(position, *await _answer(new[position], request, plan, workers))
            on_done()

        await each(range(len(new)), one)


async def _answer(
    example: Example, request: GenerationRequest, plan: Plan, workers: Workers
) -> tuple[CollectedAnswer, Array | None]:
    try:
        generation = await workers.generation.engine.generate(request)
    except (InvalidRequest, InvalidLogits) as error:
        return CollectedAnswer(example.id, example.task, "", 0, {}, error.code), None
    evidence = await gather_evidence(plan, generation, request, workers)
    scores, _ = score(plan.estimators, evidence.statistics, evidence.absent)
    answer = generation.answer
    collected = CollectedAnswer(
        id=example.id,
        task=example.task,
        text=answer.compared_text,
        num_tokens=len(answer.token_ids),
        scores=scores,
    )
    return collected, generation.answer_hidden_mean


def _plan(workers: Workers) -> Plan:
    engine = workers.generation.engine
    if "answer_hidden_mean" not in engine.statistics:
        raise InvalidRequest("this engine does not show its hidden states, which probes read")
    available = derivable(engine.statistics, has_nli=workers.nli is not None)
    names = tuple(name for name in ESTIMATORS if needs([name]) <= available)
    return Plan(names, names[0], "greedy", needs(names), workers.default_similarity)


def _request(example: Example, header: CollectionHeader, plan: Plan) -> GenerationRequest:
    sampling = SamplingParams(
        num_samples=header.sampling["num_samples"],
        max_new_tokens=example.max_new_tokens,
        stop=tuple(example.stop),
        seed=seed_of(header.seed, example.id),
    )
    return GenerationRequest(
        prompt=example.prompt,
        sampling=sampling,
        statistics=plan.engine_statistics,
        hidden_layers=header.layers,
    )


def _header(spec: CollectionSpec, workers: Workers) -> CollectionHeader:
    engine = workers.generation.engine
    limits = [example.max_new_tokens for example in spec.examples]
    return CollectionHeader(
        prompts=spec.prompts,
        model=engine.model_id,
        revision=engine.revision,
        dtype=engine.dtype,
        layers=spec.layers or candidate_layers(engine.num_layers),
        dimension=engine.hidden_size,
        sampling=sampling_of(spec.num_samples) | {"max_new_tokens": max(limits, default=0)},
        seed=spec.seed,
        compared_by=_compared_by(workers),
    )


def _compared_by(workers: Workers) -> dict[str, str | bool | None]:
    """The models behind the targets, with the rules that change them."""
    similarity = workers.similarity[workers.default_similarity]
    compared_by: dict[str, str | bool | None] = {
        "similarity": workers.default_similarity,
        "similarity_model": similarity.model.model_id,
        "similarity_revision": similarity.model.revision,
        "strip": similarity.rules.strip,
        "exact_match": similarity.rules.exact_match,
    }
    if workers.nli is not None:
        compared_by["nli_model"] = workers.nli.model.model_id
        compared_by["nli_revision"] = workers.nli.model.revision
    return compared_by
