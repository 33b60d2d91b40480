"""In-flight batching: rows of all running requests share each step, and join or leave at any step.

Rows with the same prompt and tokens so far share one row of the cache until they choose different
tokens: a model that is sure of its answer decodes its samples for the price of a few rows.

A step is one pass of the model, and one over single tokens where prompts differ in their last
alone, so that a prompt is read in parts between the tokens of the running rows. The model reads a
token at the beginning of the step after the one that chose it, so that a step reports its tokens
without waiting for a pass that only unfinished rows need.

One `InflightBatch` lives on one thread. It is handed new jobs with each step and reports what the
step brought; meanwhile the event loop only sets `Job.cancelled`. So there are no locks.
"""

import copy
import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import filterfalse
from operator import attrgetter

import torch

from models.engines.hidden import MAX_KEPT, HiddenMean
from models.engines.jobs import Prefix, Row, RowJob, Scored, admitted, next_pass
from models.engines.masks import follow, mask
from models.engines.protocol import StepReport
from models.engines.rows import RowCache
from models.engines.sampling import StepPlan, next_tokens, plan_step
from models.engines.streaming import new_tokens
from models.engines.texts import sample_limit
from models.engines.tokenization import Detokenizer
from models.errors import CocoaError, EngineError, InvalidLogits, InvalidRequest, ModelLost
from models.grammar.following import Following
from models.records import AnswerForm

AnswerForms = Mapping[AnswerForm, tuple[int, ...]]
_INVALID_LOGITS = "the model returned NaN or infinite logits"


class InflightBatch:
    """Decodes jobs first in, first out, under `max_rows` and `max_cache_tokens`."""

    def __init__(
        self, cache: RowCache, detokenizer: Detokenizer, *, max_rows: int, max_cache_tokens: int
    ) -> None:
        self._cache = cache
        self._detokenizer = detokenizer
        self._max_rows = max_rows
        self._admitted = partial(
            admitted,
            max_rows=max_rows,
            max_cache_tokens=max_cache_tokens,
            mergeable=cache.mergeable,
        )
        self._waiting: deque[RowJob] = deque()
        self._rows: list[Row] = []
        # The cache row of each row: rows with the same tokens so far share one.
        self._slots: list[int] = []
        # Latest token of each cache row, not yet fed to the model.
        self._unread: list[int] = []
        self._plan: StepPlan | None = None
        # Tokens of prompts that may be read before the rows go on.
        self._to_read = 0
        self._is_for_oldest = False

    @property
    def is_idle(self) -> bool:
        return not (self._rows or self._waiting)

    @torch.inference_mode()
    def step(self, incoming: Sequence[RowJob]) -> StepReport:
        """Drop cancelled rows, then read some of the waiting prompts or append a token to each row.

        Raises:
            Exception: whatever the model raises while decoding; the caller then calls `abandon` and
                fails every job that has started.
        """
        self._waiting.extend(incoming)
        report = StepReport()
        self._waiting = deque(filterfalse(attrgetter("cancelled"), self._waiting))
        if any(row.job.cancelled for row in self._rows):
            self._branch([self._unread[slot] for slot in self._slots])
        unread: list[RowJob] = []
        read: list[tuple[RowJob, Prefix, int]] = []
        for job, count in self._admitted(self._waiting, self._rows):
            if job.prefix is None or job.num_unread:
                unread.append(job)
            else:
                read.append((job, job.prefix, count))
        if unread and (self._to_read > 0 or not (self._rows or read)):
            self._read_prompts(unread, report)
            return report
        self._to_read = self._cache.pass_tokens
        self._read_tokens()
        self._join(read, report)
        report.num_rows = len(self._rows)
        if self._rows:
            self._decode(report)
        return report

    def abandon(self) -> None:
        """Forget every job that has started; those that only wait stay."""
        self._waiting = deque(job for job in self._waiting if job.started_at is None)
        self._rows, self._slots, self._unread, self._plan = [], [], [], None
        self._cache.clear()

    def _join(self, read: Sequence[tuple[RowJob, Prefix, int]], report: StepReport) -> None:
        joins: list[tuple[Prefix, list[Row]]] = []
        for job, prefix, count in read:
            first = job.num_joined
            job.num_joined += count
            if job.num_joined == job.num_rows:
                self._waiting.remove(job)
                job.prefix = None
            if job.first_token_ids is not None:
                self._read_first_token(job, prefix, job.first_token_ids, report)
                continue
            if job.answer_forms is not None and first == 0:
                self._give(job, job.answer_forms, report)
                first = 1
            rows = []
            following = job.following and job.following.copy()
            for index in range(first, job.num_joined):
                row = Row(job, index, job.fields[index > 0], following=following)
                if self._detokenizer.tags is not None and job.told is None:
                    row.stage = "thoughts" if job.reasoning_opened else "undecided"
                    row.most_thoughts = job.request.sampling.most_thoughts(index)
                rows.append(row)
            if rows and not job.cancelled:
                joins.append((prefix, rows))
        for number, (_, rows) in enumerate(joins, start=len(self._cache.lengths)):
            self._slots += [number] * len(rows)
            self._rows += rows
        if joins:
            self._cache.join([prefix for prefix, _ in joins])
            self._plan = None

    def _read_prompts(self, unread: Sequence[RowJob], report: StepReport) -> None:
        """One pass over the next of the prompts, or of the given answers behind them."""
        self._is_for_oldest = not self._is_for_oldest
        most, is_for_oldest = self._cache.pass_tokens, self._is_for_oldest
        most_told = min(self._max_rows, self._cache.told_tokens)  # whose logits are held at once
        jobs, num_tokens = next_pass(unread, most, most_told=most_told, is_for_oldest=is_for_oldest)
        now = time.monotonic()
        for job in jobs:
            job.started_at = job.started_at or now  # whatever raises from here on fails it
        [job, *others] = jobs
        prompt = job.prefix
        is_answer = prompt is not None and prompt.length == len(job.prompt_ids)
        try:
            if prompt is not None and is_answer:
                self._score_given(job, prompt)
            else:
                self._prefill(jobs, num_tokens)
        except ModelLost:
            raise
        except Exception as error:
            if others:  # one bad prompt must not fail its neighbours
                for job in jobs:
                    job.prefix, job.is_alone = None, True
                return
            what = "scoring the answer" if is_answer else "prefill"
            self._fail(job, EngineError(f"{what} failed: {type(error).__name__}"), report)

    def _prefill(self, jobs: Sequence[RowJob], num_tokens: int) -> None:
        groups: dict[object, list[RowJob]] = {}
        for job in jobs:
            groups.setdefault(job.beginning, []).append(job)
            if job.request.hidden_layers:
                self._cache.tap.watch(job.request.hidden_layers)
            if job.request.prompt_layer:
                self._cache.tap.watch((job.request.prompt_layer,))
        before = jobs[0].prefix
        start = before.length if before else 0
        prompts: list[list[int]] = []
        told: list[list[Row]] = []
        for first, *others in groups.values():
            # Where others share all but the last token, those are read in a pass of their own.
            end = len(first.prompt_ids) - bool(others)
            prompts.append(first.prompt_ids[start : min(end, start + num_tokens)])
            if first.told is not None:  # as is each that shares a pass with it
                told.append([job.told for job in (first, *others) if job.told is not None])
        self._to_read -= len(prompts) * max(map(len, prompts))
        prefixes = self._cache.prefill(prompts, before, told)
        begun: list[RowJob] = []
        for number, (prefix, group) in enumerate(zip(prefixes, groups.values(), strict=True)):
            for job in group:
                job.prefix = prefix
            if len(group) > 1:
                begun += group
            elif prefix.length == len(group[0].prompt_ids):
                self._keep_states(group[0], number)
        if begun:
            self._cache.read_last(begun)

    def _keep_states(self, job: RowJob, number: int) -> None:
        """Those that a request wants of the pass that has just read its prompt, as a row of it."""
        if layers := job.request.hidden_layers:
            most = MAX_KEPT * job.request.by_sentence
            job.hidden = HiddenMean(layers, self._cache.tap.state(layers, number), most)
        if layer := job.request.prompt_layer:
            job.prompt_state = self._cache.tap.state((layer,), number)[0]

    def _score_given(self, job: RowJob, prompt: Prefix) -> None:
        for form, ids in (job.answer_forms or {}).items():
            if form not in job.scored:
                row = Row(job, 0, job.fields[0], list(ids))
                job.scored[form] = Scored(copy.deepcopy(prompt), row)
            scored = job.scored[form]
            if (before := len(scored.row.logprobs)) < len(ids):
                self._cache.score(scored)
                self._to_read -= len(scored.row.logprobs) - before
                return

    def _read_first_token(
        self, job: RowJob, prefix: Prefix, groups: tuple[tuple[int, ...], ...], report: StepReport
    ) -> None:
        logprobs = prefix.logits.float().log_softmax(-1)
        job.first_token_logprobs = []
        for group in groups:
            mass = None
            if group:
                mass = logprobs[list(group)].logsumexp(0).item()
                if not math.isfinite(mass):
                    self._fail(job, InvalidLogits(_INVALID_LOGITS), report)
                    return
            job.first_token_logprobs.append(mass)
        report.finished.append(job)

    def _give(self, job: RowJob, forms: AnswerForms, report: StepReport) -> None:
        """Complete row 0 with a given answer, in the likelier of its forms; it never decodes."""
        row = Row(job, 0, job.fields[0])
        if any(forms.values()):
            form = max(forms, key=lambda form: sum(job.scored[form].row.logprobs))
            job.answer_form, row = form, job.scored[form].row
        row.finish_reason, job.scored = "given", {}
        if job.request.answer is not None:
            # Decoding its tokens would not bring back every text.
            self._detokenizer.give(row, job.request.answer.text)
        if not all(map(math.isfinite, row.logprobs)):
            self._fail(job, InvalidLogits(_INVALID_LOGITS), report)
            return
        self._finish(row, report)

    def _decode(self, report: StepReport) -> None:
        self._plan = self._plan or plan_step(self._rows, self._cache.logits.device)
        has_grammars = self._plan.has_grammars
        if has_grammars:
            for job in mask(self._cache.logits, self._rows, self._slots):
                self._fail(job, InvalidRequest(Following.TOO_COMPLEX, field="grammar"), report)
        columns = next_tokens(self._cache.logits, self._slots, self._plan)
        for i, row in enumerate(self._rows):
            if row.forced:
                columns[0][i] = row.forced.pop(0)
        for row, token, logprob, entropy, best_logit in zip(self._rows, *columns, strict=True):
            if row.job.cancelled:
                continue
            if not math.isfinite(best_logit):
                self._fail(row.job, InvalidLogits(_INVALID_LOGITS), report)
                continue
            row.token_ids.append(token)
            row.logprobs.append(logprob)
            row.entropies.append(entropy)
            if row.stage != "answer" and (tags := self._detokenizer.tags):
                self._detokenizer.find_answer(row, tags)
            self._detokenizer.finish(row)
            if row.job.streams and row.index == 0:
                for new in new_tokens(row, self._detokenizer):
                    report.tokens.append((row.job, new))
            if row.finish_reason is not None:
                self._finish(row, report)
        if has_grammars:
            for job in follow(self._rows):
                self._fail(job, InvalidRequest(Following.TOO_COMPLEX, field="grammar"), report)
        self._branch(columns[0])

    def _branch(self, tokens: list[int]) -> None:
        """Keep the rows that go on, and give each its slot of the cache.

        Rows that came from one slot and chose one of `tokens`, their latest, go on sharing it.
        """
        rows: list[Row] = []
        slots: list[int] = []
        parents: list[int] = []
        branches: dict[tuple[int, int], int] = {}
        self._unread = []
        for row, parent, token in zip(self._rows, self._slots, tokens, strict=True):
            if row.finish_reason is not None or row.job.cancelled:
                continue
            slot = branches.setdefault((parent, token), len(parents))
            if slot == len(parents):
                parents.append(parent)
                self._unread.append(token)
            rows.append(row)
            slots.append(slot)
        if len(rows) < len(self._rows):
            self._rows, self._plan = rows, None
        self._slots = slots
        self._cache.keep(parents)

    def _read_tokens(self) -> None:
        """Feed the latest tokens to the model; count the state that each answer's leaves."""
        if not self._unread:
            return
        self._cache.forward(self._unread)
        self._unread = []
        for row, slot in zip(self._rows, self._slots, strict=True):
            if row.index == 0 and (hidden := row.job.hidden) is not None:
                state = self._cache.tap.state(hidden.layers, slot)
                hidden.add(state)
                if len(row.token_ids) <= row.first_of_answer:
                    # The answer begins behind the reasoning, as others do behind their prompt.
                    row.job.hidden = HiddenMean(hidden.layers, state, hidden.max_kept)

    def _finish(self, row: Row, report: StepReport) -> None:
        job = row.job
        row.following = None  # megabytes, and the row stays until the collector of cycles comes
        if row.index == 0 and job.request.limits_samples:
            limit = sample_limit(len(row.token_ids) - row.first_of_answer)
            job.limits = dict.fromkeys(range(job.request.num_shown, job.num_rows), limit)
            for before in job.finished:  # whose reasonings were shorter
                self._detokenizer.finish(before)
        job.finished.append(row)
        if len(job.finished) < job.num_rows:
            return
        job.prefix = job.following = None
        report.finished.append(job)

    def _fail(self, job: RowJob, error: CocoaError, report: StepReport) -> None:
        job.cancelled = True
        report.failed.append((job, error))
