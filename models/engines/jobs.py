"""What travels through an in-flight batch: jobs, their rows, and pure rules by which rows join."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from models.engines.hidden import HiddenMean
from models.engines.protocol import Job
from models.engines.rows import Prefix
from models.records import AnswerForm, Array, FinishReason

# Padded tokens of one batched prefill: enough to fill a step, little enough not to stall the
# running rows.
_MAX_PREFILL_TOKENS = 2048


@dataclass(eq=False, slots=True)
class Row:
    """One sequence being decoded; index 0 is the answer, i the i-th sample."""

    job: "RowJob"
    index: int
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    text: str = ""

    @property
    def is_alive(self) -> bool:
        """Whether it has further tokens to decode."""
        return self.finish_reason is None and not self.job.cancelled

    def reads(self, kind: str) -> bool:
        """Whether the request wants this row's token `logprobs`, `entropies` or `texts`."""
        role = "answer" if self.index == 0 else "sample"
        return f"{role}_token_{kind}" in self.job.request.statistics


@dataclass(eq=False, slots=True)
class Told:
    """How far a streamed sequence was decoded and reported.

    Attributes:
        num_characters: that were reported.
        pending: text that was decoded and may yet be cut by a stop string.
        start, read: the tokens between them are those of the latest piece, which a tokenizer may
            need to decode the next one.
    """

    num_characters: int = 0
    pending: str = ""
    start: int = 0
    read: int = 0


@dataclass(eq=False, slots=True, kw_only=True)
class RowJob(Job):
    """A job of the in-flight batch.

    Attributes:
        prompt_ids: token ids of the prompt.
        max_new_tokens: bound of each row.
        answer_forms: token ids of a given answer in each form that is tried; None where a greedy
            one is decoded.
        answer_form: the likelier of them, once they are scored.
        uniforms: (M, max_new_tokens) of `sample_uniforms`.
        num_opened: rows that may join so far: the answer, and the samples of the waves begun.
        first_token_ids: groups of token ids; such a job has no rows, only their mass as the
            prompt's next token.
        reasoning_opened: whether the prompt ends in `<think>`.
        prefix: the prefilled prompt, until all rows have joined.
        hidden: of the answer, where the request names layers.
        num_joined: rows that have joined the batch.
        told: what was reported of the streamed sequence.
        finished: rows that have ended.
    """

    prompt_ids: list[int]
    max_new_tokens: int
    seed: int
    uniforms: Array
    num_opened: int = 1
    answer_forms: Mapping[AnswerForm, tuple[int, ...]] | None = None
    answer_form: AnswerForm = "literal"
    first_token_ids: tuple[tuple[int, ...], ...] | None = None
    first_token_logprobs: list[float | None] | None = None
    reasoning_opened: bool = False
    prefix: Prefix | None = None
    hidden: HiddenMean | None = None
    num_joined: int = 0
    told: Told = field(default_factory=Told)
    finished: list[Row] = field(default_factory=list)

    @property
    def num_rows(self) -> int:
        """The answer and all samples that there may be.

        A job without rows takes one place while it is prefilled.
        """
        return 1 + len(self.uniforms)

    @property
    def final_length(self) -> int:
        """Tokens of its longest possible row."""
        return len(self.prompt_ids) + self.max_new_tokens


def sample_uniforms(seed: int, num_samples: int, max_new_tokens: int) -> Array:
    """What decides every draw: (num_samples, max_new_tokens) float64 in [0, 1).

    Row i has a stream of its own, so that sample i is the same whatever runs beside it, however
    many samples are drawn and however long they may be.
    """
    key = np.random.SeedSequence(seed).generate_state(2, np.uint64)
    uniforms = np.empty((num_samples, max_new_tokens))
    for i, row in enumerate(uniforms):
        stream = np.random.Philox(key=key, counter=[0, 0, i, 0])
        np.random.Generator(stream).random(out=row)
    return uniforms


def num_rows_that_fit(
    pending: int, running: int, longest: int, *, max_rows: int, max_cache_tokens: int
) -> int:
    """How many of `pending` rows may join.

    Together with the running ones: rows <= max_rows, and rows x longest final length <=
    max_cache_tokens.

    >>> num_rows_that_fit(11, 0, 100, max_rows=256, max_cache_tokens=500)
    5
    """
    return max(0, min(pending, max_rows - running, max_cache_tokens // longest - running))


def prefill_groups(jobs: list[RowJob]) -> list[list[RowJob]]:
    """Consecutive jobs whose padded prompts stay under the limit; a longer prompt goes alone."""
    groups: list[list[RowJob]] = []
    width = 0
    for job in jobs:
        width = max(width, len(job.prompt_ids))
        if groups and (len(groups[-1]) + 1) * width <= _MAX_PREFILL_TOKENS:
            groups[-1].append(job)
        else:
            groups.append([job])
            width = len(job.prompt_ids)
    return groups
