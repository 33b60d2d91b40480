"""One evaluation of the parts of answers: generate or read each answer, score and label its parts.

Generations go to a log as they come, as those of `cocoa_lab.evaluation` do; an interrupted run goes
on there.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from app.scoring.ask import PARTS, Ask, Units
from app.scoring.plan import Plan
from app.scoring.scorer import Scorer
from app.scoring.units import ScoredUnit
from app.settings import Settings
from cocoa_lab.evaluation import origin_of
from cocoa_lab.judge import JudgeModel
from cocoa_lab.loading import lab_scorer
from cocoa_lab.log import AnotherRun
from cocoa_lab.parts.examples import PartsExample
from cocoa_lab.parts.labelling import LabelledParts, fields_labelled, judged, sentences_labelled
from cocoa_lab.parts.model_judge import Judgements, ModelJudge
from cocoa_lab.recordings import (
    Recording,
    RecordingHeader,
    RecordingLog,
    recorded_statistics,
    stored,
)
from cocoa_lab.replaying import checked_plan, recorded_generator, replaying
from cocoa_lab.run import Origin, ScoredPrompt
from cocoa_lab.running import each, sampling_of
from cocoa_lab.scoring import ask_of, check_answers, drawing, record
from models.calibration import Binding
from models.errors import InvalidRequest
from models.estimators import known_estimators, needs
from models.grammar.grammars import grammar_of
from models.records import GivenAnswer, Grammar
from models.statistics import SENTENCES_READ, supplied_by
from models.units.json_values import parsed
from models.units.tool_calls import as_value
from models.units.unit import Unit
from workers.protocol import Workers

JUDGEMENTS = "judgements.jsonl"
_RECORDED = supplied_by("answer", "samples")


@dataclass(frozen=True, slots=True)
class PartsSpec:
    """What is to be evaluated.

    Attributes:
        units: whose parts.
        generations: file of them, to be continued where it exists.
        draws: numbers of samples, the first for all tables; fewer are the first of the most.
        estimators: None for all that are defined for parts.
        similarity: name of the function; None for the deployment's default.
        judge: labels the parts of which nothing else says what they are, and is held against the
            labels of the others; what it says is kept beside the generations.
        rescore: whether what the file holds is scored, without a language model; it has all that
            are to be evaluated.
        temperature: of the samples; None for 1.
        answer_temperature: of the answers; None for greedy ones.
    """

    dataset: str
    units: Units
    examples: Sequence[PartsExample]
    generations: Path
    draws: Sequence[int]
    seed: int
    estimators: Sequence[str] | None
    similarity: str | None
    rescore: bool = False
    judge: JudgeModel | None = None
    temperature: float | None = None
    answer_temperature: float | None = None


@dataclass(frozen=True, slots=True)
class AnswerParts:
    """The parts of one answer.

    Attributes:
        num_parts: labelled or not; 0 of an answer that has none.
        labelled: those with labels.
        by_draw: the same ones, scored on each further draw of samples, by its name.
    """

    example: PartsExample
    text: str
    num_parts: int
    labelled: LabelledParts
    by_draw: Mapping[str, LabelledParts]


@dataclass(frozen=True, slots=True)
class PartsRun:
    """A finished run.

    Attributes:
        answers: those of the prompts that have a generation.
        num_failed: prompts that have none.
        binding: what the scores came from.
        primary: the estimator whose value is the uncertainty of a part.
        judgements: of the model that judges, if one does.
    """

    header: RecordingHeader
    answers: Sequence[AnswerParts]
    num_failed: int
    binding: Binding
    primary: str
    judgements: Judgements | None = None


async def evaluate_parts(
    spec: PartsSpec, settings: Settings, on_scored: Callable[[], None]
) -> PartsRun:
    """Generate or read what is missing, score the parts of everything, and label them.

    Raises:
        AnotherRun: the file of generations is another run's, or there is none to score.
        InvalidRequest: nothing can be scored here, or no prompt has a generation.
        CocoaError: a model failed; what was generated before is in the file.
        httpx.HTTPError: the server of the judge failed; what it said before is in its file.
    """
    async with AsyncExitStack() as stack:
        if spec.rescore:
            header, _ = stored(spec.generations, spec.temperature, spec.answer_temperature)
            if not spec.examples:
                raise AnotherRun(f"{spec.generations} holds no generation of these prompts")
            scored_by = lab_scorer(settings, recorded_generator(header))
            scorer = await stack.enter_async_context(scored_by)
        else:
            scorer = await stack.enter_async_context(lab_scorer(settings))
            header = _header(spec, scorer.workers)
            if any(one.output is None for one in spec.examples):
                check_answers(scorer.workers.generator.info, spec.answer_temperature)
        log = stack.enter_context(RecordingLog(spec.generations, header))
        if spec.judge is None:
            return await _run(spec, scorer, log, None, on_scored)
        asked = await stack.enter_async_context(spec.judge.connected())
        judge = ModelJudge(asked, spec.judge.name, spec.generations.with_name(JUDGEMENTS))
        stack.callback(judge.close)
        run = await _run(spec, scorer, log, judge, on_scored)
        return replace(run, judgements=judge.told())


async def _run(
    spec: PartsSpec,
    scorer: Scorer,
    log: RecordingLog,
    judge: ModelJudge | None,
    on_scored: Callable[[], None],
) -> PartsRun:
    statistics = recorded_statistics(log.header)
    over_recordings = replaying(scorer, statistics)
    examples = spec.examples
    has_documents = all(one.example.documents is not None for one in examples)
    estimators = spec.estimators
    if estimators is None:
        estimators = _defined(over_recordings, statistics, has_documents=has_documents)

    def ask_for(one: PartsExample) -> Ask:
        given: GivenAnswer | None = None
        grammar: Grammar | None = None
        if one.output is not None:
            given = GivenAnswer(one.output)
        elif one.held_to is not None:
            grammar = grammar_of(one.held_to)
        return replace(
            ask_of(one.example, log.header),
            answer=given,
            estimators=tuple(estimators),
            similarity=spec.similarity,
            units=spec.units,
            claims=one.claims,
            grammar=grammar,
            json_schema=one.json_schema,
            tools=one.tools,
        )

    first = drawing(ask_for(examples[0]), spec.draws[0])
    plan = checked_plan(over_recordings, first)
    if plan.unit_primary is None:
        raise InvalidRequest("no estimator is defined for parts of answers", field="estimators")

    async def score(one: PartsExample) -> tuple[Recording, AnswerParts | None]:
        ask = ask_for(one)
        recording = log.recordings.get(one.example.id)
        if recording is None:
            recording = await record(one.example, ask, log.header, scorer.workers.generator)
            log.append(recording)
        _check(one, recording)
        parts: AnswerParts | None = None
        if recording.generation is not None:
            recorded = replaying(scorer, statistics, recording.generation)
            parts = await _scored(one, ask, spec, recorded, judge)
        on_scored()
        return recording, parts

    found = await each(examples, score, log.header.sampling["num_samples"])
    answers = [parts for _, parts in found if parts is not None]
    if not answers:
        codes = ", ".join(sorted({recording.error or "" for recording, _ in found}))
        raise InvalidRequest(f"no prompt has a generation: {codes}")
    prompts = []
    for one, (recording, _) in zip(examples, found, strict=True):
        prompts.append(ScoredPrompt(one.example, recording, ()))
    origin = origin_of(prompts, scorer.workers)
    binding = _binding(spec, log.header, origin, plan)
    for name in {SENTENCES_READ} & set(log.header.statistics):
        probes = {name: scorer.workers.generator.info.probes[name].sha256}
        binding = replace(binding, probes=probes)
    return PartsRun(log.header, answers, len(found) - len(answers), binding, plan.unit_primary)


async def _scored(
    one: PartsExample,
    ask: Ask,
    spec: PartsSpec,
    scorer: Scorer,
    judge: ModelJudge | None,
) -> AnswerParts:
    by_draw: dict[str, LabelledParts] = {}
    for draw in spec.draws:
        result = await scorer.run(drawing(ask, draw))
        text = result.evidence.subject.answer.text
        parts: Sequence[ScoredUnit] = ()
        if result.units is not None:
            parts = result.units.units[1:]
        labelled = await _labelled(one, spec.units, text, parts)
        if judge is not None:
            labelled = await _by_model(one, judge, text, parts, labelled)
        by_draw[str(draw)] = labelled
    return AnswerParts(one, text, len(parts), by_draw.pop(str(spec.draws[0])), by_draw)


async def _labelled(
    one: PartsExample, units: Units, text: str, parts: Sequence[ScoredUnit]
) -> LabelledParts:
    if units == "fields":
        answer = parsed(text)
        if one.tools:
            answer = as_value(text, one.tools)
        return fields_labelled(one, answer, parts)
    if units == "claims":  # in their order, those that are told
        return judged(parts, [verdict for _, verdict in one.labels[: len(parts)]])
    if one.judge is None:
        return sentences_labelled(one, text, parts)
    return judged(parts, await one.judge(text, _texts(parts)))


async def _by_model(
    one: PartsExample,
    judge: ModelJudge,
    text: str,
    parts: Sequence[ScoredUnit],
    labelled: LabelledParts,
) -> LabelledParts:
    """Labelled by the model; where there are labels by rule, these with its word beside them."""
    if not one.has_labels:
        return judged(parts, await judge.of(one.example)(text, _texts(parts)))
    said = await judge.of(one.example)(text, _texts(labelled.parts))
    return replace(labelled, judgements=tuple(said))


def _texts(parts: Sequence[ScoredUnit]) -> list[str]:
    return [part.unit.text for part in parts]


def _defined(scorer: Scorer, statistics: frozenset[str], *, has_documents: bool) -> list[str]:
    """All estimators that are defined for parts, and that such recordings supply."""
    available = scorer.available_statistics(Ask(prompt="")) & Unit.SUPPLIED
    if has_documents:
        available |= {"grounded"}
    if SENTENCES_READ in statistics:
        available |= {Unit.PREDICTED}
    return [name for name in known_estimators() if needs([name]) <= available]


def _header(spec: PartsSpec, workers: Workers) -> RecordingHeader:
    generator = workers.generator.info
    recorded = _RECORDED
    if spec.units == "sentences" and all(one.output is None for one in spec.examples):
        recorded |= {SENTENCES_READ}  # by a probe, which reads what the model itself writes
    return RecordingHeader(
        dataset=spec.dataset,
        model=generator.model_id,
        revision=generator.revision,
        seed=spec.seed,
        sampling=sampling_of(max(spec.draws), spec.temperature, spec.answer_temperature),
        statistics=tuple(sorted(generator.statistics & recorded)),
        asks_p_true=False,
        probes={
            name: asdict(generator.probes[name]) for name in generator.probes.keys() & recorded
        },
        bounds_samples=generator.bounds_samples,
    )


def _check(one: PartsExample, recording: Recording) -> None:
    generation = recording.generation
    is_other = recording.prompt != one.example.prompt
    if generation is not None and one.output is not None:
        is_other |= generation.answer.text != one.output
    if is_other:
        raise AnotherRun(f"the generation of {one.example.id} is of another prompt or output")


def _binding(spec: PartsSpec, header: RecordingHeader, origin: Origin, plan: Plan) -> Binding:
    sampling: Mapping[str, float] = header.sampling
    if origin.stop is None:
        raise InvalidRequest("the prompts have different stop strings")
    return Binding(
        model_id=header.model,
        revision=header.revision,
        generator=origin.generator,
        input=plan.ask.input,
        strategy=plan.strategy,
        num_samples=spec.draws[0],
        temperature=sampling["temperature"],
        answer_temperature=sampling.get("answer_temperature", 0.0),
        top_k=int(sampling["top_k"]),
        top_p=sampling["top_p"],
        stop=origin.stop,
        max_new_tokens=origin.max_new_tokens,
        share_cut=origin.share_cut,
        similarity=plan.similarity,
        comparer=origin.comparers[plan.similarity],
        nli=origin.nli,
        probes={},
        unit=PARTS[spec.units],
        schema_use=plan.ask.schema_use,
        rules=origin.rules,
        documents_judged_by=plan.documents_judged_by,
    )
