"""One evaluation from what is to be done to a finished run.

Generations go to the log as they come; each is scored as soon as it is there, and the answers'
quality is measured while the models still run.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.lab.examples import Example
from app.lab.loading import lab_workers, support_of
from app.lab.log import AnotherRun
from app.lab.quality import Measure, Support, score_by_task
from app.lab.recordings import Recording, RecordingHeader, RecordingLog, read
from app.lab.run import Run, ScoredPrompt
from app.lab.running import each, sampling_of
from app.lab.scoring import available_statistics, make_plans, record, request_of, score_recording
from app.planning import NLI_STATISTICS, Plan
from app.settings import Settings
from models.errors import InvalidRequest
from models.estimators import ESTIMATORS, needs
from models.records import ANSWER_STATISTICS, SAMPLE_STATISTICS, Array
from models.selection import Strategy
from workers.build import Workers

Put = Callable[[int, Recording], None]


@dataclass(frozen=True, slots=True)
class EvaluationSpec:
    """What is to be evaluated.

    Attributes:
        generations: file of them, to be continued where it exists.
        estimators: None for all that the models can supply.
        similarities: functions, the first for all tables; None for the deployment's default.
        measure_names: name of the quality measure, by task.
        measures: measures by name, all of `measure_names` among them.
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
    measure_names: Mapping[str, str]
    measures: Mapping[str, Measure]
    rescore: bool

    @property
    def measure_by_task(self) -> dict[str, Measure]:
        """The quality measure of each task."""
        return {task: self.measures[name] for task, name in self.measure_names.items()}


async def evaluate(spec: EvaluationSpec, settings: Settings, on_scored: Callable[[], None]) -> Run:
    """Generate what is missing, score everything, and measure the answers.

    Args:
        spec: what is to be evaluated.
        settings: models, as they serve.
        on_scored: called after each example.

    Raises:
        AnotherRun: the file of generations is another run's, or there is none to score.
        ValueError: a quality measure needs an NLI model and none is loaded.
        CocoaError: a model failed; what was generated before is in the file.
    """
    header, recordings = _stored(spec.generations) if spec.rescore else (None, {})
    async with lab_workers(settings, generates=not spec.rescore) as workers:
        for measure in spec.measure_by_task.values():
            measure.check(support_of(workers))
        if header is not None:
            examples = [example for example in spec.examples if example.id in recordings]
            return await _run(spec, examples, recordings, _never, header, workers, on_scored)
        with RecordingLog(spec.generations, _header(spec, workers)) as log:
            return await _run(
                spec, spec.examples, log.recordings, log.put, log.header, workers, on_scored
            )


async def _run(
    spec: EvaluationSpec,
    examples: Sequence[Example],
    recordings: Mapping[str, Recording],
    put: Put,
    header: RecordingHeader,
    workers: Workers,
    on_scored: Callable[[], None],
) -> Run:
    _check_prompts(examples, recordings)
    plans = make_plans(*_names(spec, header, workers), available_statistics(header, workers))
    started_at = time.monotonic()
    scored = await _score_all(examples, recordings, put, header, plans, workers, on_scored)
    seconds = time.monotonic() - started_at
    answered = [prompt for prompt in scored if prompt.answers]
    if not answered:
        raise InvalidRequest("no prompt has a generation")
    errors = {prompt.recording.error for prompt in scored} - {None}
    binary = {task for task, measure in spec.measure_by_task.items() if measure.is_binary}
    return Run(
        header=header,
        prompts=answered,
        num_failed=len(scored) - len(answered),
        errors=sorted(filter(None, errors)),
        qualities=await _qualities(answered, spec.measure_by_task, support_of(workers)),
        measure_names=spec.measure_names,
        binary_tasks=frozenset(binary),
        similarities=[plan.similarity or workers.default_similarity for plan in plans],
        models=_models(plans, workers),
        speed={} if recordings else _speed(len(examples), seconds),
    )


async def _score_all(
    examples: Sequence[Example],
    recordings: Mapping[str, Recording],
    put: Put,
    header: RecordingHeader,
    plans: Sequence[Plan],
    workers: Workers,
    on_scored: Callable[[], None],
) -> list[ScoredPrompt]:
    """Every example's recording and scores, in order; those without a recording generate first.

    put: told each new recording, with its position among the new ones.
    """
    new = [example.id for example in examples if example.id not in recordings]
    positions = {example_id: position for position, example_id in enumerate(new)}

    async def one(example: Example) -> ScoredPrompt:
        request = request_of(example, header)
        recording = recordings.get(example.id)
        if recording is None:
            recording = await record(example, request, header, workers.generation.engine)
            put(positions[example.id], recording)
        answers = await score_recording(recording, request, plans, workers)
        on_scored()
        return ScoredPrompt(example, recording, answers)

    return await each(examples, one)


async def _qualities(
    prompts: Sequence[ScoredPrompt], measures: Mapping[str, Measure], support: Support | None
) -> dict[tuple[str, str], Array]:
    """Quality (n,) of the prompts' answers, by strategy and similarity function."""
    examples = [prompt.example for prompt in prompts]
    qualities: dict[tuple[str, str], Array] = {}
    for plan, answer in enumerate(prompts[0].answers):
        texts = [prompt.answers[plan].text for prompt in prompts]
        quality = await score_by_task(texts, examples, measures, support)
        qualities[answer.strategy, answer.similarity] = quality
    return qualities


def _names(
    spec: EvaluationSpec, header: RecordingHeader, workers: Workers
) -> tuple[Sequence[str], Sequence[Strategy], Sequence[str]]:
    """Estimators, strategies and similarity functions; by default all estimators and one function.

    Raises:
        InvalidRequest: a similarity function that is not loaded.
    """
    similarities = spec.similarities or [workers.default_similarity]
    if unknown := [name for name in similarities if name not in workers.similarity]:
        raise InvalidRequest(
            f"{unknown[0]} is none of {', '.join(sorted(workers.similarity))}", field="similarity"
        )
    available = available_statistics(header, workers)
    supplied = [name for name in ESTIMATORS if needs([name]) <= available]
    return spec.estimators or supplied, spec.strategies, similarities


def _header(spec: EvaluationSpec, workers: Workers) -> RecordingHeader:
    engine = workers.generation.engine
    wanted = needs(spec.estimators or ESTIMATORS)
    return RecordingHeader(
        dataset=spec.dataset,
        model=engine.model_id,
        revision=engine.revision,
        seed=spec.seed,
        sampling=sampling_of(spec.num_samples),
        # All of them whatever is wanted, so that other estimators can be scored later; P(True)
        # alone costs prefills.
        statistics=tuple(sorted(engine.statistics & (ANSWER_STATISTICS | SAMPLE_STATISTICS))),
        asks_p_true="p_true_logprob" in engine.statistics & wanted,
    )


def _stored(path: Path) -> tuple[RecordingHeader, dict[str, Recording]]:
    header, recordings = read(path) if path.exists() else (None, {})
    if header is None:
        raise AnotherRun(f"{path} holds no generations to score")
    return header, recordings


def _never(position: int, recording: Recording) -> None:
    """Every example that is scored again has its recording."""


def _check_prompts(examples: Sequence[Example], recordings: Mapping[str, Recording]) -> None:
    for example in examples:
        if example.id in recordings and recordings[example.id].prompt != example.prompt:
            raise AnotherRun(f"the generation of {example.id} is another prompt's")


def _models(plans: Sequence[Plan], workers: Workers) -> dict[str, str]:
    """Similarity functions, and NLI where it is read, by role."""
    names = dict.fromkeys(plan.similarity or workers.default_similarity for plan in plans)
    models = {f"similarity {name}": workers.similarity[name].model for name in names}
    if workers.nli is not None and any(plan.statistics & NLI_STATISTICS for plan in plans):
        models["NLI"] = workers.nli.model
    told = {}
    for role, model in models.items():
        told[role] = f"{model.model_id} ({model.revision})" if model.revision else model.model_id
    return told


def _speed(num_prompts: int, seconds: float) -> dict[str, float]:
    """Prompts a second, generated and scored."""
    cores = len(os.sched_getaffinity(0))
    return {"prompts_per_s": num_prompts / seconds, "seconds": seconds, "cores": cores}
