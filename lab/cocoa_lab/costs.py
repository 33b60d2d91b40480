"""What the estimators of a run cost, measured again on a few of its prompts, one after another."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from app.scoring.ask import Ask
from app.scoring.scorer import Scorer
from cocoa_lab.recordings import RecordingHeader, read
from cocoa_lab.run import Cost, ScoredPrompt
from cocoa_lab.scoring import ask_of, opinions, replayed
from models.estimators import known_estimators, needs
from models.records import SamplingParams
from models.statistics import supplied_by

if TYPE_CHECKING:
    from cocoa_lab.evaluation import EvaluationSpec

_NUM_MEASURED = 8
_DEAR = supplied_by("question") | {"token_relevance", "sample_token_relevance"}
# What models are asked for once the answer and its samples are there.
_ASKED = supplied_by("similarity", "nli", "question")


def foretold(spec: "EvaluationSpec") -> str:
    """What a run will cost: texts that are written, and estimators that take more than they do."""
    recorded: Mapping[str, object] = {}
    if spec.generations.exists():
        _, recorded = read(spec.generations)
    left = sum(example.id not in recorded for example in spec.examples)
    if spec.rescore or not left:
        told = f"scores what is there of {len(spec.examples)} prompts; no model writes"
    else:
        samples = max(spec.draws or [SamplingParams().num_samples])
        texts = left * (1 + samples)
        told = (
            f"{left} prompts, an answer and {samples} samples each: the model writes {texts} texts"
        )
    for name in spec.estimators or ():
        estimator = known_estimators()[name]
        if estimator.needs & _DEAR:
            told += f"\n{name} costs for each of them: {estimator.cost}"
    return told


async def costs(
    prompts: Sequence[ScoredPrompt],
    asks_of: Callable[[Ask], Sequence[Ask]],
    header: RecordingHeader,
    scorer: Scorer,
) -> list[Cost]:
    """By what models are asked for, the costliest first.

    Args:
        prompts: of a run, with what was recorded.
        asks_of: what is asked of the recording of an ask, its first with the run's estimators.
        header: of the recordings.
        scorer: with the run's models, and nothing else to do.
    """
    groups: dict[frozenset[str], list[str]] = {}
    asked = asks_of(ask_of(prompts[0].example, header))[0]
    for name in asked.estimators or ():
        groups.setdefault(needs([name]) & _ASKED, []).append(name)
    measured = prompts[:: max(1, len(prompts) // _NUM_MEASURED)][:_NUM_MEASURED]
    found = []
    for reads, names in groups.items():
        began = time.process_time()
        for prompt in measured:
            if (generation := prompt.recording.generation) is None:
                continue
            own = ask_of(prompt.example, header)
            alone = replace(asks_of(own)[0], estimators=tuple(names), cache=False)
            if "p_true_logprob" in reads:
                await opinions(generation, own, scorer.workers.generator)
            await replayed(prompt.recording, [own], header, scorer).run(alone)
        ms = 1000 * (time.process_time() - began) / len(measured)
        found.append(Cost(tuple(names), tuple(sorted(reads)), ms))
    return sorted(found, key=lambda cost: -cost.ms)
