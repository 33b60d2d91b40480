"""One evaluation from what is to be done to a finished run.

Generations go to the log as they come; each is scored as soon as it is there, and the answers'
quality is measured while the models still run.
"""

import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from app.scoring.ask import Ask
from app.scoring.plan import Plan
from app.scoring.scorer import Scorer
from app.scoring.selection import Strategy
from app.settings import Settings
from cocoa_lab.alignment import Support
from cocoa_lab.calibration.prompts import STATES, StatesFile
from cocoa_lab.costs import costs
from cocoa_lab.examples import Example
from cocoa_lab.loading import lab_scorer, support_of
from cocoa_lab.log import AnotherRun
from cocoa_lab.quality import Measure, score_by_task
from cocoa_lab.recordings import (
    Recording,
    RecordingHeader,
    RecordingLog,
    recorded_statistics,
    stored,
)
from cocoa_lab.replaying import checked_plan, recorded_generator, replaying
from cocoa_lab.run import Cost, Origin, Run, ScoredPrompt, Variant, with_revision
from cocoa_lab.running import each, sampling_of
from cocoa_lab.scoring import ask_of, check_answers, record, score_recording, variants
from models.errors import InvalidRequest
from models.estimators import known_estimators, needs
from models.records import Array, SamplingParams
from models.statistics import SENTENCES_READ, supplied_by
from workers.protocol import SimilarityInfo, Workers

# What a generator tells of its own texts.
_RECORDED = supplied_by("answer", "samples", "reasoning", "probe") - {SENTENCES_READ}


@dataclass(frozen=True, slots=True)
class EvaluationSpec:
    """What is to be evaluated.

    Attributes:
        generations: file of them, to be continued where it exists.
        estimators: None for all that the models can supply, but those that ask the model once
            more, which may cost more than the answers.
        draws: numbers of samples, the first for all tables; None for ten, or for all that a file
            holds.
        similarities: functions, the first for all tables; None for the deployment's default.
        measure_names: name of the quality measure, by task.
        measures: measures by name, all of `measure_names` among them.
        rescore: score what the file holds; no language model is loaded.
        temperature: of the samples; None for 1, or for that of what the file holds.
        answer_temperature: of the answers; None for greedy ones.
    """

    dataset: str
    examples: Sequence[Example]
    generations: Path
    draws: Sequence[int] | None
    seed: int
    estimators: Sequence[str] | None
    strategies: Sequence[Strategy]
    similarities: Sequence[str] | None
    measure_names: Mapping[str, str]
    measures: Mapping[str, Measure]
    rescore: bool
    temperature: float | None = None
    answer_temperature: float | None = None

    @property
    def measure_by_task(self) -> dict[str, Measure]:
        """The quality measure of each task."""
        return {task: self.measures[name] for task, name in self.measure_names.items()}


@dataclass(frozen=True, slots=True)
class Kept:
    """What exists of a run already, and where the rest goes.

    Attributes:
        recordings: by example id.
        append: told each new recording.
        put_state: told each prompt that was answered, whose state is kept.
    """

    recordings: Mapping[str, Recording]
    append: Callable[[Recording], None]
    put_state: Callable[[str, Ask], Awaitable[None]]


async def evaluate(spec: EvaluationSpec, settings: Settings, on_scored: Callable[[], None]) -> Run:
    """Generate what is missing, score everything, and measure the answers.

    Args:
        spec: what is to be evaluated.
        settings: models, as they serve.
        on_scored: called after each example.

    Raises:
        AnotherRun: the file of generations is another run's, or there is none to score.
        InvalidRequest: the model draws each answer, at a temperature that is not named.
        ValueError: a quality measure needs an NLI model and none is loaded, or an example's
            reference, judge or context that none has.
        CocoaError: a model failed; what was generated before is in the file.
    """
    if spec.rescore:
        header, recordings = stored(spec.generations, spec.temperature, spec.answer_temperature)
        examples = [example for example in spec.examples if example.id in recordings]
        async with lab_scorer(settings, recorded_generator(header)) as scorer:
            _check_measures(spec, scorer)
            kept = Kept(recordings, _never, _no_state)
            return await _run(spec, examples, kept, header, scorer, on_scored)
    async with lab_scorer(settings, has_probes=True) as scorer:
        _check_measures(spec, scorer)
        check_answers(scorer.workers.generator.info, spec.answer_temperature)
        states = StatesFile(spec.generations.with_name(STATES), scorer.workers.generator)
        with RecordingLog(spec.generations, _header(spec, scorer.workers)) as log:
            kept = Kept(log.recordings, log.append, states.keep)
            try:
                return await _run(spec, spec.examples, kept, log.header, scorer, on_scored)
            finally:
                states.write()


def _check_measures(spec: EvaluationSpec, scorer: Scorer) -> None:
    for task, measure in spec.measure_by_task.items():
        measure.check(support_of(scorer.workers))
        measure.check_examples(example for example in spec.examples if example.task == task)


async def _run(
    spec: EvaluationSpec,
    examples: Sequence[Example],
    kept: Kept,
    header: RecordingHeader,
    scorer: Scorer,
    on_scored: Callable[[], None],
) -> Run:
    recordings = kept.recordings
    for example in examples:
        if example.id in recordings and recordings[example.id].prompt != example.prompt:
            raise AnotherRun(
                f"the generation of {example.id} is another prompt's: name another --out, or give "
                "each line of a file that changes an 'id'"
            )
    statistics = recorded_statistics(header)
    empty = Ask(prompt="", sampling=SamplingParams(**header.sampling))
    over_recordings = replaying(scorer, statistics)
    estimators = spec.estimators or _supplied_estimators(over_recordings, empty)
    similarities = spec.similarities or [scorer.workers.default_similarity]
    draws = spec.draws or [header.sampling["num_samples"]]

    def asks_of(ask: Ask) -> list[Ask]:
        return variants(ask, estimators, spec.strategies, similarities, draws)

    plans = [checked_plan(over_recordings, ask) for ask in asks_of(empty)]
    started_at = time.monotonic()
    scored = await _score_all(examples, kept, header, asks_of, scorer, on_scored)
    seconds = time.monotonic() - started_at
    answered = [prompt for prompt in scored if prompt.answers]
    errors = {prompt.recording.error for prompt in scored}
    if not answered:
        codes = ", ".join(sorted(filter(None, errors)))
        raise InvalidRequest(f"no prompt has a generation: {codes}")
    found: list[Cost] = []
    if not spec.rescore:
        found = await costs(answered, asks_of, header, scorer)
    binary = {task for task, measure in spec.measure_by_task.items() if measure.is_binary}
    speed = {}
    if not recordings:
        cores = len(os.sched_getaffinity(0))
        speed = {"prompts_per_s": len(examples) / seconds, "seconds": seconds, "cores": cores}
    return Run(
        header=header,
        prompts=answered,
        num_failed=len(scored) - len(answered),
        errors=sorted(filter(None, errors)),
        qualities=await _qualities(answered, spec.measure_by_task, support_of(scorer.workers)),
        measure_names=spec.measure_names,
        binary_tasks=frozenset(binary),
        models=_models(plans, scorer.workers),
        foreign=_foreign(plans, scorer.workers),
        origin=origin_of(answered, scorer.workers),
        speed=speed,
        costs=found,
    )


async def _score_all(
    examples: Sequence[Example],
    kept: Kept,
    header: RecordingHeader,
    asks_of: Callable[[Ask], list[Ask]],
    scorer: Scorer,
    on_scored: Callable[[], None],
) -> list[ScoredPrompt]:
    """Every example's recording and scores, in order; those without a recording generate first.

    Args:
        examples: prompts.
        kept: what exists, and where the rest goes.
        header: of all recordings.
        asks_of: what is asked of the recording of an ask.
        scorer: generates and scores.
        on_scored: called after each example.
    """

    async def one(example: Example) -> ScoredPrompt:
        ask = ask_of(example, header)
        recording = kept.recordings.get(example.id)
        is_new = recording is None
        if recording is None:
            recording = await record(example, ask, header, scorer.workers.generator)
        if recording.generation is not None:
            await kept.put_state(example.id, ask)
        if is_new:  # after its state: an interrupted run leaves none without
            kept.append(recording)
        answers = await score_recording(recording, asks_of(ask), header, scorer)
        on_scored()
        return ScoredPrompt(example, recording, answers)

    return await each(examples, one, header.sampling["num_samples"])


async def _qualities(
    prompts: Sequence[ScoredPrompt], measures: Mapping[str, Measure], support: Support | None
) -> dict[Variant, Array]:
    """Quality (n,) of the prompts' answers under each variant."""
    examples = [prompt.example for prompt in prompts]
    qualities: dict[Variant, Array] = {}
    for plan, answer in enumerate(prompts[0].answers):
        texts = [prompt.answers[plan].text for prompt in prompts]
        qualities[answer.variant] = await score_by_task(texts, examples, measures, support)
    return qualities


def _supplied_estimators(scorer: Scorer, ask: Ask) -> list[str]:
    """All that can be scored of recordings, sampled as an ask says."""
    available = scorer.available_statistics(ask)
    return [name for name in known_estimators() if needs([name]) <= available]


def _header(spec: EvaluationSpec, workers: Workers) -> RecordingHeader:
    generator = workers.generator.info
    wanted, num_samples = needs(spec.estimators or ()), SamplingParams().num_samples
    return RecordingHeader(
        dataset=spec.dataset,
        model=generator.model_id,
        revision=generator.revision,
        seed=spec.seed,
        sampling=sampling_of(
            max(spec.draws or [num_samples]), spec.temperature, spec.answer_temperature
        ),
        # All of them whatever is wanted, so that other estimators can be scored later; P(True)
        # alone costs prefills.
        statistics=tuple(sorted(generator.statistics & _RECORDED)),
        asks_p_true="p_true_logprob" in generator.statistics & wanted,
        probes={
            name: asdict(generator.probes[name]) for name in generator.probes.keys() & _RECORDED
        },
        bounds_samples=generator.bounds_samples,
    )


def _never(recording: Recording) -> None:
    """Every example that is scored again has its recording."""


async def _no_state(name: str, ask: Ask) -> None:
    """Without a language model no prompt is read."""


def _models(plans: Sequence[Plan], workers: Workers) -> dict[str, str]:
    """Similarity functions, and NLI where it is read, by role."""
    models = {}
    for plan in plans:
        models[f"similarity {plan.similarity}"] = _named(
            workers.similarity_scorers[plan.similarity].info
        )
    if workers.nli is not None and any(plan.reads("nli") for plan in plans):
        models["NLI"] = _named(workers.nli.info)
    return models


def _foreign(plans: Sequence[Plan], workers: Workers) -> list[str]:
    """Roles of pair models that were made for the answers of another language model."""
    found = []
    for plan in plans:
        if workers.similarity_scorers[plan.similarity].info.is_out_of_domain:
            found.append(f"similarity {plan.similarity}")
        if workers.nli is not None and plan.reads("nli") and workers.nli.info.is_out_of_domain:
            found.append("NLI")
    return list(dict.fromkeys(found))


def origin_of(prompts: Sequence[ScoredPrompt], workers: Workers) -> Origin:
    """What the scores of these prompts came from; the generator as it was recorded."""
    reasons: list[str] = []
    identity = ""
    for prompt in prompts:
        if (generation := prompt.recording.generation) is not None:
            identity = identity or generation.identity
            reasons += [one.finish_reason for one in (generation.answer, *generation.samples)]
    stop: tuple[str, ...] | None = tuple(prompts[0].example.stop)
    if any(tuple(prompt.example.stop) != stop for prompt in prompts):
        stop = None
    nli = None
    if workers.nli is not None:
        nli = workers.nli.info.identity
    return Origin(
        generator=identity,
        comparers={name: one.info.identity for name, one in workers.similarity_scorers.items()},
        nli=nli,
        max_new_tokens=max(prompt.example.max_new_tokens for prompt in prompts),
        share_cut=reasons.count("length") / len(reasons),
        stop=stop,
        schema_use=_schema_use(prompts),
    )


def _schema_use(prompts: Sequence[ScoredPrompt]) -> str | None:
    schemas = {prompt.example.json_schema is not None for prompt in prompts}
    if len(schemas) > 1:
        return None
    return "followed" if schemas == {True} else "none"


def _named(info: SimilarityInfo) -> str:
    return with_revision(info.model_id, info.revision)
