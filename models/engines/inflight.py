"""In-flight batching: rows of all running requests share each step, and join or leave at any step.

Rows with the same prompt and the same tokens so far share one row of the cache until they choose
different tokens: a model that is sure of its answer decodes its samples for the price of a few
rows.

One `InflightBatch` lives on one thread. It is handed new jobs with each step and reports what the
step brought; meanwhile the event loop only sets `Job.cancelled`. So there are no locks.
"""

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence

import torch

from models.engines.choice import StepPlan, choose, make_plan
from models.engines.detokenizer import Detokenizer
from models.engines.hidden import HiddenMean
from models.engines.jobs import Row, RowJob, num_rows_that_fit, prefill_groups
from models.engines.protocol import StepReport
from models.engines.rows import Prefix, RowCache
from models.errors import CocoaError, EngineError, InvalidLogits, ModelLost
from models.records import AnswerForm, Token
from models.waves import num_further

_INVALID_LOGITS = "the model returned NaN or infinite logits"


class InflightBatch:
    """Decodes jobs first in, first out, under `max_rows` and `max_cache_tokens`."""

    def __init__(
        self, cache: RowCache, detokenizer: Detokenizer, *, max_rows: int, max_cache_tokens: int
    ) -> None:
        self._cache = cache
        self._detokenizer = detokenizer
        self._max_rows = max_rows
        self._max_cache_tokens = max_cache_tokens
        self._waiting: deque[RowJob] = deque()
        self._rows: list[Row] = []
        self._slots: list[
            int
        ] = []  # of each row its row of the cache: rows with the same tokens so far share one
        self._unread: list[int] = []  # of each row of the cache its latest token, chosen only
        self._plan: StepPlan | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs or waits."""
        return not self._rows and not self._waiting

    @torch.inference_mode()
    def step(self, incoming: Sequence[RowJob]) -> StepReport:
        """Drop cancelled rows, let waiting ones join, append one token to every row.

        The model reads a token at the beginning of the step after the one that chose it: what that
        step brought is told without waiting for a pass that only those who go on need.

        Raises:
            Exception: whatever the model raises while decoding; the caller then calls `abandon` and
                fails every job that has started.
        """
        self._waiting.extend(incoming)
        report = StepReport()
        self._drop_cancelled()
        self._read_tokens()
        self._join(report)
        report.num_rows = len(self._rows)
        if self._rows:
            self._decode(report)
        return report

    def abandon(self) -> None:
        """Forget every job that has started; those that only wait stay."""
        self._waiting = deque(job for job in self._waiting if job.started_at is None)
        self._rows, self._slots, self._unread, self._plan = [], [], [], None
        self._cache.clear()

    def _drop_cancelled(self) -> None:
        self._waiting = deque(job for job in self._waiting if not job.cancelled)
        alive = [i for i, row in enumerate(self._rows) if not row.job.cancelled]
        if len(alive) < len(self._rows):
            self._recompose(alive, [], [])

    def _join(self, report: StepReport) -> None:
        joins: list[tuple[Prefix, int]] = []
        joined: list[Row] = []
        admitted = self._admit()
        self._prefill([job for job, _ in admitted if job.prefix is None], report)
        for job, count in admitted:
            if job.prefix is None:
                continue
            rows = [Row(job, index) for index in range(job.num_joined, job.num_joined + count)]
            job.num_joined += count
            if job.first_token_ids is not None:
                self._read_first_token(job, job.prefix, job.first_token_ids, report)
                continue
            if job.answer_forms is not None and rows[0].index == 0:
                self._score_given(rows.pop(0), job.prefix, job.answer_forms, report)
            if rows and not job.cancelled:
                joins.append((job.prefix, len(rows)))
                joined += rows
            if job.num_joined == job.num_rows:
                job.prefix = None
        if joins:
            self._recompose(range(len(self._rows)), joins, joined)

    def _admit(self) -> list[tuple[RowJob, int]]:
        """The next jobs, first in first out, and how many of their rows join now.

        What is left of a job stays first.
        """
        admitted: list[tuple[RowJob, int]] = []
        running = len(self._rows)
        longest = max((row.job.final_length for row in self._rows), default=0)
        while self._waiting and (self._cache.mergeable or running == 0):
            job = self._waiting[0]
            longest = max(longest, job.final_length)
            pending = job.num_opened - job.num_joined
            count = num_rows_that_fit(
                pending,
                running,
                longest,
                max_rows=self._max_rows,
                max_cache_tokens=self._max_cache_tokens,
            )
            if count == 0:
                break
            admitted.append((job, count))
            running += count
            if count < pending:
                break
            self._waiting.popleft()
        return admitted

    def _prefill(self, jobs: list[RowJob], report: StepReport) -> None:
        now = time.monotonic()
        groups = prefill_groups(jobs) if self._cache.mergeable else [[job] for job in jobs]
        for group in groups:
            for job in group:
                job.started_at = now
                self._cache.tap.watch(job.request.hidden_layers)
            try:
                prefixes = self._cache.prefill([job.prompt_ids for job in group])
            except ModelLost:
                raise
            except Exception as error:
                self._prefill_failed(group, error, report)
                continue
            for row, (job, prefix) in enumerate(zip(group, prefixes, strict=True)):
                job.prefix = prefix
                if layers := job.request.hidden_layers:
                    job.hidden = HiddenMean(layers, self._cache.tap.state(layers, row))

    def _prefill_failed(self, group: list[RowJob], error: Exception, report: StepReport) -> None:
        """Run each job of the group once alone: one bad prompt must not fail its neighbours."""
        if len(group) == 1:
            message = f"prefill failed: {type(error).__name__}"
            self._fail(group[0], EngineError(message), report)
            return
        for job in group:
            self._prefill([job], report)

    def _read_first_token(
        self, job: RowJob, prefix: Prefix, groups: tuple[tuple[int, ...], ...], report: StepReport
    ) -> None:
        logprobs = prefix.logits.float().log_softmax(-1)
        masses: list[float | None] = []
        for group in groups:
            masses.append(logprobs[list(group)].logsumexp(0).item() if group else None)
        job.first_token_logprobs = masses
        job.prefix = None
        if all(mass is None or math.isfinite(mass) for mass in masses):
            report.finished.append(job)
        else:
            self._fail(job, InvalidLogits(_INVALID_LOGITS), report)

    def _score_given(
        self,
        row: Row,
        prefix: Prefix,
        forms: Mapping[AnswerForm, tuple[int, ...]],
        report: StepReport,
    ) -> None:
        """Row 0 of a given answer is complete with its prompt's prefill: it never decodes.

        Of several forms the likelier one is taken.
        """
        try:
            scored = {form: self._scored(row, prefix, ids) for form, ids in forms.items()}
        except ModelLost:
            raise
        except Exception as error:
            message = f"scoring the answer failed: {type(error).__name__}"
            self._fail(row.job, EngineError(message), report)
            return
        likelihoods = {form: sum(logprobs) for form, (logprobs, _) in scored.items()}
        form = row.job.answer_form = max(likelihoods, key=likelihoods.__getitem__)
        row.token_ids, (row.logprobs, row.entropies) = list(forms[form]), scored[form]
        row.text, row.finish_reason = _given_text(row.job), "given"
        if all(map(math.isfinite, row.logprobs)):
            self._finish(row, report)
        else:
            self._fail(row.job, InvalidLogits(_INVALID_LOGITS), report)

    def _scored(
        self, row: Row, prefix: Prefix, answer_ids: Sequence[int]
    ) -> tuple[list[float], list[float]]:
        """Log-probs of a given answer's tokens, and entropies where they are wanted."""
        logprobs, entropies = self._cache.score(
            prefix, answer_ids, with_entropies=row.reads("entropies")
        )
        return logprobs.tolist(), [] if entropies is None else entropies.tolist()

    def _decode(self, report: StepReport) -> None:
        """Append one token to every row and let finished rows leave."""
        self._plan = self._plan or make_plan(self._rows, self._cache.logits.device)
        choice = choose(self._cache.logits, self._slots, self._plan)
        columns = zip(
            choice.token_ids, choice.logprobs, choice.entropies, choice.best_logits, strict=True
        )
        for row, (token, logprob, entropy, best_logit) in zip(self._rows, columns, strict=True):
            if row.job.cancelled:
                continue
            if not math.isfinite(best_logit):
                self._fail(row.job, InvalidLogits(_INVALID_LOGITS), report)
                continue
            row.token_ids.append(token)
            row.logprobs.append(logprob)
            row.entropies.append(entropy)
            self._detokenizer.finish(row)
            if row.job.streams and row.index == row.job.request.streamed:
                report.tokens.append((row.job, self._new_token(row)))
            if row.finish_reason is not None:
                self._finish(row, report)
        alive = [i for i, row in enumerate(self._rows) if row.is_alive]
        if len(alive) < len(self._rows):
            self._rows, self._plan = [self._rows[i] for i in alive], None
        self._branch([(self._slots[i], choice.token_ids[i]) for i in alive])

    def _new_token(self, row: Row) -> Token:
        """The row's latest token, with the text that became certain."""
        return Token(
            self._detokenizer.new_piece(row),
            row.logprobs[-1] if row.reads("logprobs") else None,
            row.entropies[-1] if row.reads("entropies") else None,
        )

    def _branch(self, nexts: list[tuple[int, int]]) -> None:
        """Give each row its slot of the cache, which has yet to read the row's token.

        Rows that came from one slot and chose one token go on sharing it.
        """
        branches = {branch: slot for slot, branch in enumerate(dict.fromkeys(nexts))}
        self._slots = [branches[branch] for branch in nexts]
        self._cache.keep([parent for parent, _ in branches])
        self._unread = [token for _, token in branches]

    def _read_tokens(self) -> None:
        """Feed the latest tokens to the model; count the state that each answer's leaves."""
        if not self._unread:
            return
        self._cache.forward(self._unread)
        self._unread = []
        for row, slot in zip(self._rows, self._slots, strict=True):
            if row.index == 0 and (hidden := row.job.hidden) is not None:
                hidden.add(self._cache.tap.state(hidden.layers, slot))

    def _finish(self, row: Row, report: StepReport) -> None:
        """A job ends with its last row, unless it wants a further wave of samples."""
        job = row.job
        job.finished.append(row)
        if len(job.finished) < job.num_opened:
            return
        if num_next := self._num_further(job):
            job.num_opened += num_next
            self._waiting.appendleft(job)  # it came before all who have not begun
        else:
            job.prefix = None
            report.finished.append(job)

    def _num_further(self, job: RowJob) -> int:
        if job.num_opened == job.num_rows:
            return 0
        rows = sorted(job.finished, key=lambda row: row.index)
        answer, *samples = map(self._detokenizer.without_token_texts, rows)
        return num_further(job.request, answer, samples)

    def _fail(self, job: RowJob, error: CocoaError, report: StepReport) -> None:
        job.cancelled = True
        report.failed.append((job, error))

    def _recompose(
        self, alive: Sequence[int], joins: list[tuple[Prefix, int]], joined: list[Row]
    ) -> None:
        kept = {slot: i for i, slot in enumerate(dict.fromkeys(self._slots[i] for i in alive))}
        self._cache.recompose(list(kept), [prefix for prefix, _ in joins])
        self._unread = [self._unread[slot] for slot in kept] if self._unread else []
        self._slots = [kept[self._slots[i]] for i in alive]
        self._slots += [len(kept) + i for i, (_, count) in enumerate(joins) for _ in range(count)]
        self._rows, self._plan = [self._rows[i] for i in alive] + joined, None


def _given_text(job: RowJob) -> str:
    """As it was given: decoding its tokens would not bring back every text."""
    return job.request.answer.text if job.request.answer is not None else ""
