"""Final answers read behind the reasonings of all samples, for their probability over these.

What the model has read when a sample's reasoning ends is kept until the last row of its job has
ended. Then each distinct answer is read behind all of them at once.
"""

from collections.abc import Iterator
from operator import attrgetter

import numpy as np

from models.engines.jobs import Row, RowJob
from models.engines.protocol import StepReport
from models.engines.rows import RowCache
from models.errors import EngineError, InvalidLogits, ModelLost
from models.records import Reasoned

TOO_LARGE = "to keep the samples' reasonings would take more than max_cache_tokens"
HELD_TO_GRAMMAR = "answers are not read behind other reasonings where a grammar holds them"
TOO_LONG = "an answer behind the reasoning of another sample exceeds the context"
# Positions of all rows that are read at once: bounds the transient logits to (64, V).
_CHUNK = 64


class Reasonings:
    """Keeps the reasonings of jobs that want it, and reads their answers behind them.

    Attributes:
        jobs: that have begun and want it, until their answers are read.

    Args:
        cache: of the running rows.
        max_context_tokens: bound of prompt, reasoning and answer.
    """

    def __init__(self, cache: RowCache, max_context_tokens: int) -> None:
        self.jobs: list[RowJob] = []
        self._cache = cache
        self._max_context_tokens = max_context_tokens
        self._passes: dict[RowJob, Iterator[None]] = {}  # of jobs whose rows have ended

    def drop(self, *, everything: bool = False) -> None:
        """Forget what is kept for jobs that were cancelled, or for all."""
        for job in list(self.jobs):
            if everything or job.cancelled:
                self._forget(job)

    def keep(self, row: Row, slot: int) -> None:
        """Keep the reasoning that the latest token of a sample has ended, where its job wants it.

        Args:
            row: of the batch.
            slot: its row of the cache, which has not read that token yet.
        """
        if row.job.keeps_reasonings and row.index > 0:
            ids = tuple(row.token_ids)
            if ids not in row.job.kept:  # samples that reasoned alike share it
                row.job.kept[ids] = self._cache.kept(slot, row.token_ids[-1])

    def begin(self, job: RowJob) -> None:
        """Read the answers of a job, whose rows have all ended, in the steps to come."""
        self._passes[job] = self._read(job)

    def step(self, report: StepReport) -> None:
        """One forward pass for the job that has waited longest."""
        if not self._passes:
            return
        job, passes = next(iter(self._passes.items()))
        try:
            next(passes)
            return
        except StopIteration:
            self._forget(job)
        except ModelLost:
            raise
        except Exception as error:
            self._forget(job)
            message = f"reading answers behind reasonings failed: {type(error).__name__}"
            report.failed.append((job, EngineError(message)))
            return
        if job.reasoned is not None and not np.isfinite(job.reasoned.logprobs).all():
            message = "the model returned NaN or infinite logits"
            report.failed.append((job, InvalidLogits(message)))
            return
        report.finished.append(job)

    def _forget(self, job: RowJob) -> None:
        self.jobs.remove(job)
        self._passes.pop(job, None)
        job.kept.clear()

    def _read(self, job: RowJob) -> Iterator[None]:
        """Set `job.reasoned`, or why there is none, in several passes."""
        answers: dict[str, list[int]] = {}
        places = {ids: place for place, ids in enumerate(job.kept)}
        behind: dict[int, int] = {}  # sample to its place
        for row in sorted(job.finished, key=attrgetter("index")):
            first = row.first_of_answer
            if not row.is_reasoned or first == len(row.token_ids):
                continue
            if row.finish_reason == "stop":  # another one is no whole answer
                answers.setdefault(row.text.strip(), row.token_ids[first:])
            if row.index > 0:
                behind[row.index - 1] = places[tuple(row.token_ids[:first])]
        longest = max(map(len, places), default=0) + max(map(len, answers.values()), default=0)
        if len(job.prompt_ids) + longest > self._max_context_tokens:
            job.no_reasoned = TOO_LONG
            return
        logprobs = np.zeros((len(answers), len(places)))
        if places:
            lasts = [one.last for one in job.kept.values()]
            cache, lengths = self._cache.joined(list(job.kept.values()))
            job.kept.clear()
            step = max(1, _CHUNK // len(lasts))
            for number, ids in enumerate(answers.values()):
                grown = cache
                for start in range(0, len(ids), step):
                    chosen = ids[start : start + step]
                    before = [ids[start - 1]] * len(lasts) if start else lasts
                    read = [[one, *chosen[:-1]] for one in before]
                    grown, summed = self._cache.read_behind(grown, lengths, read, chosen, start)
                    logprobs[number] += summed
                    yield
        # Only what lies in memory in its order can be written as JSON.
        logprobs = np.ascontiguousarray(logprobs[:, list(behind.values())])
        job.reasoned = Reasoned(tuple(answers), tuple(behind), logprobs)
