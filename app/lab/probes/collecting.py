"""Prompts through the full mode, with the answers' hidden states.

A probe is trained on these and measured by them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.evidence import gather_evidence
from app.lab.datasets import Example
from app.lab.probes.collection import CollectionLog, Header, Row
from app.lab.running import each, seed_of
from app.planning import Plan, derivable
from app.settings import Settings
from models.errors import InvalidLogits, InvalidRequest
from models.estimators import needs, score
from models.probes.protocol import ProbeConfig
from models.records import Array, GenerationRequest, SamplingParams
from workers.build import Workers, load_workers
from workers.in_process import running_workers

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
NO_PROBES = ProbeConfig("", "")


@dataclass(frozen=True, slots=True)
class Collecting:
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


def candidate_layers(num_layers: int) -> tuple[int, ...]:
    """All layers of a small model; five around the middle of a large one.

    The middle is where the paper finds the best.

    >>> candidate_layers(5), candidate_layers(32)
    ((1, 2, 3, 4), (8, 12, 16, 20, 24))
    """
    if num_layers <= 8:
        return tuple(range(1, num_layers))
    return tuple(round(num_layers * eighth / 8) for eighth in (2, 3, 4, 5, 6))


async def collect(asked: Collecting, settings: Settings, on_done: Callable[[], None]) -> None:
    """Run every prompt that the folder does not hold yet; `on_done` is called for all.

    Raises:
        AnotherCollection: the folder holds that of another run.
        CocoaError: a model failed; what was collected before is in the folder.
    """
    async with running_workers(lambda: _load(settings)) as workers:
        engine = workers.generation.engine
        plan = _plan(workers)
        with CollectionLog(asked.folder, _header(asked, settings, workers)) as log:
            layers = asked.layers or candidate_layers(engine.num_layers)
            new = [example for example in asked.examples if example.id not in log.ids]
            for _ in range(len(asked.examples) - len(new)):
                on_done()

            async def one(position: int) -> None:
                request = _request(new[position], asked, plan, layers)
                log.put(position, *await _row(new[position], request, plan, workers))
                on_done()

            await each(range(len(new)), one)


async def _row(
    example: Example, request: GenerationRequest, plan: Plan, workers: Workers
) -> tuple[Row, Array | None]:
    try:
        generation = await workers.generation.engine.generate(request)
    except (InvalidRequest, InvalidLogits) as error:
        return Row(example.id, example.task, "", 0, {}, error.code), None
    evidence = await gather_evidence(plan, generation, request, workers)
    scores, _ = score(plan.estimators, evidence.statistics, evidence.absent)
    answer = generation.answer
    row = Row(example.id, example.task, answer.compared_text, len(answer.token_ids), scores)
    return row, generation.answer_hidden_mean


def _load(settings: Settings) -> Workers:
    return load_workers(
        settings.generation,
        settings.similarity,
        settings.nli,
        NO_PROBES,
        on_step=_ignore,
        on_batch=_ignore,
    )


def _plan(workers: Workers) -> Plan:
    engine = workers.generation.engine
    if "answer_hidden_mean" not in engine.statistics:
        raise InvalidRequest("this engine does not show its hidden states, which probes read")
    available = derivable(engine.statistics, has_nli=workers.nli is not None)
    names = tuple(name for name in ESTIMATORS if needs([name]) <= available)
    return Plan(names, names[0], "greedy", needs(names), workers.default_similarity)


def _request(
    example: Example, asked: Collecting, plan: Plan, layers: tuple[int, ...]
) -> GenerationRequest:
    sampling = SamplingParams(
        num_samples=asked.num_samples,
        max_new_tokens=example.max_new_tokens,
        stop=tuple(example.stop),
        seed=seed_of(asked.seed, example.id),
    )
    return GenerationRequest(
        prompt=example.prompt,
        sampling=sampling,
        statistics=plan.engine_statistics,
        hidden_layers=layers,
    )


def _header(asked: Collecting, settings: Settings, workers: Workers) -> Header:
    engine, default = workers.generation.engine, SamplingParams()
    similarity = workers.similarity[workers.default_similarity]
    compared_by = {
        "similarity": workers.default_similarity,
        "similarity_model": similarity.model.model_id,
        "similarity_revision": similarity.model.revision,
        "strip": similarity.rules.strip,
        "exact_match": similarity.rules.exact_match,
    }
    if workers.nli is not None:
        compared_by |= {
            "nli_model": workers.nli.model.model_id,
            "nli_revision": workers.nli.model.revision,
        }
    return Header(
        prompts=asked.prompts,
        model=engine.model_id,
        revision=engine.revision,
        dtype=engine.dtype,
        layers=asked.layers or candidate_layers(engine.num_layers),
        dimension=engine.hidden_size,
        sampling={
            "num_samples": asked.num_samples,
            "temperature": default.temperature,
            "top_k": default.top_k,
            "top_p": default.top_p,
            "max_new_tokens": max(
                (example.max_new_tokens for example in asked.examples), default=0
            ),
        },
        seed=asked.seed,
        compared_by=compared_by,
    )


def _ignore(size: int) -> None:
    """Nobody watches the sizes of batches here."""
