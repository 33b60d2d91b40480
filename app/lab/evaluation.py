"""One evaluation from settings to a finished run.

Models are loaded and watched, generations are logged, and all are scored.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.lab import running as runner
from app.lab.datasets import Example
from app.lab.outputs import Run
from app.lab.recordings import AnotherRun, GenerationLog, Header, Record, read
from app.lab.scoring import available_statistics, make_plans
from app.planning import NLI_STATISTICS, Plan
from app.settings import Settings
from models.errors import InvalidRequest
from models.estimators import ESTIMATORS, needs
from models.probes.protocol import ProbeConfig
from models.records import ANSWER_STATISTICS, SAMPLE_STATISTICS, SamplingParams
from models.selection import Strategy
from workers.build import Workers, load_workers, nli_checkpoint
from workers.in_process import running_workers

# Generations are stored with what samples show; `cocoa probe evaluate` compares probes with that.
_NO_PROBES = ProbeConfig("", "")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be evaluated.

    Attributes:
        generations: file of them, to be continued where it exists.
        estimators: None for all that the models can supply.
        similarities: functions, the first for all tables; None for the deployment's default.
        qualities: name of the measure by task.
        rescore: score what the file holds; no language model is loaded.
    """

    dataset: str
    examples: Sequence[Example]
    generations: Path
    num_samples: int
    seed: int
    estimators: Sequence[str] | None
    strategies: Sequence[Strategy]
    similarities: Sequence[str] | None
    qualities: dict[str, str]
    rescore: bool


async def evaluate(asked: Asked, settings: Settings, on_scored: Callable[[], None]) -> Run:
    """Generate what is missing and score everything.

    Args:
        asked: what is to be evaluated.
        settings: models, as they serve.
        on_scored: called after each example.

    Raises:
        AnotherRun: the file of generations is another run's, or there is none to score.
        CocoaError: a model failed; what was generated before is in the file.
    """
    header, records = _stored(asked.generations) if asked.rescore else (None, {})
    async with running_workers(lambda: _load(settings, asked)) as workers:
        if header is not None:
            examples = [example for example in asked.examples if example.id in records]
            return await _run(asked, examples, records, _never, header, workers, on_scored)
        header = _header(asked, workers)
        with GenerationLog(asked.generations, header) as log:
            return await _run(
                asked, asked.examples, log.records, log.put, log.header, workers, on_scored
            )


async def _run(
    asked: Asked,
    examples: Sequence[Example],
    records: Mapping[str, Record],
    put: Callable[[int, Record], None],
    header: Header,
    workers: Workers,
    on_scored: Callable[[], None],
) -> Run:
    _check_prompts(examples, records)
    plans = make_plans(*_names(asked, header, workers), available_statistics(header, workers))
    started_at = time.monotonic()
    scored = await runner.run(examples, records, put, header, plans, workers, on_scored)
    seconds = time.monotonic() - started_at
    answered = [one for one in scored if one.answers]
    if not answered:
        raise InvalidRequest("no prompt has a generation")
    return Run(
        header=header,
        scored=answered,
        num_failed=len(scored) - len(answered),
        errors=sorted({one.record.error for one in scored if one.record.error is not None}),
        qualities=asked.qualities,
        similarities=[plan.similarity or workers.default_similarity for plan in plans],
        models=_models(plans, workers),
        pair_model=None if workers.nli is None else workers.nli.model,
        speed=_speed(len(examples), seconds, is_whole=not records),
    )


def _names(
    asked: Asked, header: Header, workers: Workers
) -> tuple[Sequence[str], Sequence[Strategy], Sequence[str]]:
    """Estimators, strategies and similarity functions; by default all estimators and one function.

    Raises:
        InvalidRequest: a similarity function that is not loaded.
    """
    similarities = asked.similarities or [workers.default_similarity]
    if unknown := [name for name in similarities if name not in workers.similarity]:
        raise InvalidRequest(
            f"{unknown[0]} is none of {', '.join(sorted(workers.similarity))}", field="similarity"
        )
    available = available_statistics(header, workers)
    supplied = [name for name in ESTIMATORS if needs([name]) <= available]
    return asked.estimators or supplied, asked.strategies, similarities


def _header(asked: Asked, workers: Workers) -> Header:
    engine, default = workers.generation.engine, SamplingParams()
    wanted = needs(asked.estimators or ESTIMATORS)
    return Header(
        dataset=asked.dataset,
        model=engine.model_id,
        revision=engine.revision,
        seed=asked.seed,
        sampling={
            "num_samples": asked.num_samples,
            "temperature": default.temperature,
            "top_k": default.top_k,
            "top_p": default.top_p,
        },
        # All of them whatever is asked, so that other estimators can be scored later; P(True) alone
        # costs prefills.
        statistics=tuple(sorted(engine.statistics & (ANSWER_STATISTICS | SAMPLE_STATISTICS))),
        asks_p_true="p_true_logprob" in engine.statistics & wanted,
    )


def _stored(path: Path) -> tuple[Header, dict[str, Record]]:
    header, records = read(path) if path.exists() else (None, {})
    if header is None:
        raise AnotherRun(f"{path} holds no generations to score")
    return header, records


def _never(position: int, record: Record) -> None:
    """Every example that is scored again has its record."""


def _check_prompts(examples: Sequence[Example], records: Mapping[str, Record]) -> None:
    for example in examples:
        if example.id in records and records[example.id].prompt != example.prompt:
            raise AnotherRun(f"the generation of {example.id} is another prompt's")


def _load(settings: Settings, asked: Asked) -> Workers:
    """Models as they serve.

    Scoring again needs no language model: the fake one stands in and is never asked.
    """
    generation, nli = settings.generation, settings.nli
    if asked.rescore:
        nli = replace(nli, model=nli_checkpoint(nli, generation))
        generation = replace(generation, engine="fake")
    return load_workers(
        generation, settings.similarity, nli, _NO_PROBES, on_step=_ignore, on_batch=_ignore
    )


def _ignore(size: int) -> None:
    """Nobody watches the sizes of batches here."""


def _models(plans: Sequence[Plan], workers: Workers) -> dict[str, str]:
    """Similarity functions, and NLI where it is read, by role."""
    names = dict.fromkeys(plan.similarity or workers.default_similarity for plan in plans)
    models = {f"similarity {name}": workers.similarity[name].model for name in names}
    if workers.nli is not None and any(plan.statistics & NLI_STATISTICS for plan in plans):
        models["NLI"] = workers.nli.model
    return {
        role: f"{model.model_id} ({model.revision})" if model.revision else model.model_id
        for role, model in models.items()
    }


def _speed(num_prompts: int, seconds: float, *, is_whole: bool) -> dict[str, float]:
    """Prompts a second, generated and scored; nothing where some were there before."""
    cores = len(os.sched_getaffinity(0))
    return (
        {"prompts_per_s": num_prompts / seconds, "seconds": seconds, "cores": cores}
        if is_whole
        else {}
    )
