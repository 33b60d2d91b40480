"""What the estimators of a run cost, measured again on a few of its prompts, one after another."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from app.scoring.ask import Ask
from app.scoring.scorer import Scorer
from cocoa_lab.recordings import RecordingHeader
from cocoa_lab.run import Cost, ScoredPrompt
from cocoa_lab.scoring import ask_of, opinions, replayed
from models.estimators import needs
from models.statistics import supplied_by

_NUM_MEASURED = 8
# What models are asked for once the answer and its samples are there.
_ASKED = supplied_by("similarity", "nli", "question")


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
