"""Jobs of an in-flight batch and their rows, and which of those that wait come next."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from torch import Tensor

from models.engines.hidden import HiddenMean
from models.engines.protocol import Job
from models.grammar.following import Following
from models.records import AnswerForm, Array, FinishReason, Stage
from models.warnings import Warned


@dataclass(eq=False, slots=True)
class Prefix:
    """A prompt as far as it is read: one-row cache, length in tokens, next token's logits (V,)."""

    cache: Any
    length: int
    logits: Tensor


@dataclass(eq=False, slots=True)
class Row:
    """One sequence being decoded."""

    job: "RowJob"
    index: int  # 0 is the answer, i the i-th sample, -1 the prompt before them
    fields: frozenset[str]  # of `models.records.Sequence`, that the request wants of this row
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)
    # Of each token the likeliest ones in its place, where they are requested.
    tops: list[list[tuple[int, float]]] = field(default_factory=list)
    finish_reason: FinishReason | None = None  # None while it has further tokens to decode
    text: str = ""
    stage: Stage = "answer"
    # Index of the answer's first token, 0 without a reasoning; in the middle of one that behind
    # the last token.
    first_of_answer: int = 0
    # Of the answer's text, what the token that ended the reasoning held beyond its tag.
    lead: str = ""
    # Tokens of its reasoning, the start tag among them once it is written, after which the end
    # tag is written for the model; None for any number.
    most_thoughts: int | None = None
    forced: list[int] = field(default_factory=list)  # the rest of that tag, in its order
    # Its progress in its grammar, shared by rows with the same tokens so far.
    following: Following | None = None


@dataclass(eq=False, slots=True)
class Scored:
    """One form of a given answer, as far as it is read behind its prompt."""

    read: Prefix  # the prompt and what was read of the answer
    row: Row  # all its tokens, and what is known of those that were read


@dataclass(eq=False, slots=True)
class Progress:
    """The part of a streamed sequence that was decoded and reported."""

    # "undecided" until a text has begun: that of the reasoning, or of the answer.
    stage: Stage = "undecided"
    num_tokens: int = 0  # of the sequence, that were reported
    num_characters: int = 0  # of the answer, that were reported
    pending: str = ""  # text that was decoded and may yet be cut by a stop string or a tag
    # From `start` to `read` are the tokens of the latest piece, which the next one may need.
    start: int = 0
    read: int = 0


@dataclass(eq=False, slots=True, kw_only=True)
class RowJob(Job):
    """A job of the in-flight batch."""

    prompt_ids: list[int]
    final_length: int  # tokens of the longest possible row, prompt included
    seed: int
    uniforms: Array  # (1 + M, as many as were used so far, or more) of `row_uniforms`
    # The answer and all samples. A job without rows takes one place while it is prefilled.
    num_rows: int = 1
    temperatures: tuple[float, float] = (0.0, 1.0)  # of the answer and of the samples
    # Of `models.records.Sequence`, wanted of the answer and of the samples.
    fields: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
    # Token ids of a given answer in each form that is tried; None where a greedy one is decoded.
    answer_forms: Mapping[AnswerForm, tuple[int, ...]] | None = None
    answer_form: AnswerForm = "literal"  # the likelier of them, once they are scored
    # Groups of token ids; such a job has no rows, only their mass as the prompt's next token.
    first_token_ids: tuple[tuple[int, ...], ...] | None = None
    first_token_logprobs: list[float | None] | None = None
    reasoning_opened: bool = False  # whether the prompt ends in the tag that begins a reasoning
    warnings: tuple[Warned, ...] = ()  # of what its prompt leaves out
    # The beginning of its rows in their grammar; None without a grammar.
    following: Following | None = None
    # The prompt, from its first part that is read until all rows have joined.
    prefix: Prefix | None = None
    # The prompt as a row, 0 in place of its first log-prob; None where its tokens are not told.
    told: Row | None = None
    # The forms of a given answer, until it is completed.
    scored: dict[AnswerForm, Scored] = field(default_factory=dict)
    # Whether its prompt is read without others: with them the pass has failed.
    is_alone: bool = False
    hidden: HiddenMean | None = None  # of the answer, where the request names layers
    prompt_state: Tensor | None = None  # (d,) tensor, where the request names its layer
    num_joined: int = 0  # rows that have joined the batch
    # By row that is not shown, tokens at which its answer ends; empty until they are known.
    limits: Mapping[int, int] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)  # of the streamed sequence
    finished: list[Row] = field(default_factory=list)

    @property
    def num_unread(self) -> int:
        """Tokens of the prompt and of a given answer that are to be read before rows join."""
        unread = len(self.prompt_ids) - (self.prefix.length if self.prefix else 0)
        if self.num_joined == 0 and self.answer_forms is not None:
            unread += sum(map(len, self.answer_forms.values()))
            unread -= sum(len(scored.row.logprobs) for scored in self.scored.values())
        return unread

    @property
    def beginning(self) -> object:
        """Equal for jobs whose prompts differ in their last token at most.

        They are read as one up to there, unless states of the pass over a prompt are wanted.
        """
        if len(self.prompt_ids) == 1 or self.request.hidden_layers or self.request.prompt_layer:
            return self
        return tuple(self.prompt_ids[:-1])

    @property
    def is_groupable(self) -> bool:
        """True where its whole prompt may be read together with others."""
        return self.prefix is None and not self.is_alone


def admitted(
    waiting: Iterable[RowJob],
    rows: Sequence[Row],
    *,
    max_rows: int,
    max_cache_tokens: int,
    mergeable: bool,
) -> list[tuple[RowJob, int]]:
    """The next jobs, first in first out, and how many of their rows may join now.

    Together with the running ones: rows <= max_rows, and rows x longest final length <=
    max_cache_tokens. A job whose prompt is not read yet holds its rows' places.
    """
    admitted: list[tuple[RowJob, int]] = []
    running, longest = len(rows), 0
    for row in rows:
        longest = max(longest, row.job.final_length)
    for job in waiting:
        if running and not mergeable:
            break
        longest = max(longest, job.final_length)
        pending = job.num_rows - job.num_joined
        most = min(max_rows, max_cache_tokens // longest)
        count = min(pending, most - running)
        if count <= 0:
            break
        admitted.append((job, count))
        running += count
        if count < pending:
            break
    return admitted


def next_pass(
    unread: Sequence[RowJob], budget: int, *, most_told: int = 0, is_for_oldest: bool
) -> tuple[list[RowJob], int]:
    """Jobs whose prompts are read in one pass, and of how many tokens.

    Whole prompts, the shortest first, as far as they fit padded; else the next part of one. The
    oldest has every other pass, so that shorter ones do not hold it up for ever. At least one job
    is unread. Padded tokens are counted, of an equal beginning once; `most_told` bounds those of
    told prompts, which are read apart, and `budget` those of others.
    """
    by_length = sorted(unread, key=attrgetter("num_unread"))
    first = unread[0] if is_for_oldest else by_length[0]
    width = len(first.prompt_ids)
    if first.told is not None:
        budget = min(budget, most_told)
    if width > budget or not first.is_groupable:
        return [first], min(first.num_unread, budget)
    group, beginnings = [first], {first.beginning}
    for job in filter(attrgetter("is_groupable"), by_length):
        wider = max(width, len(job.prompt_ids))
        if job is first or (job.told is None) != (first.told is None):
            continue
        beginnings.add(job.beginning)
        if len(beginnings) * wider > budget:
            break
        group.append(job)
        width = wider
    return group, width
