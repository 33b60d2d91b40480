"""Pure: which waiting jobs join a batch next, and which of them are prefilled together."""

from collections import deque
from collections.abc import Iterable, Sequence

from models.engines.jobs import Row, RowJob

# Padded tokens of one batched prefill: enough to fill a step, little enough not to stall the
# running rows.
_MAX_PREFILL_TOKENS = 2048


def admitted(
    waiting: deque[RowJob],
    rows: Sequence[Row],
    keeping: Iterable[RowJob],
    *,
    max_rows: int,
    max_cache_tokens: int,
    mergeable: bool,
) -> list[tuple[RowJob, int]]:
    """The next jobs, first in first out, and how many of their rows join now.

    Together with the running ones: rows <= max_rows, and rows x longest final length <=
    max_cache_tokens. A job that keeps reasonings holds twice the room of all its rows from the
    first of them to its end: several that waited for their last rows, each with what it keeps,
    would wait for ever. What is left of a job stays first.

    Args:
        waiting: jobs in their order; those that join leave it.
        rows: that run.
        keeping: jobs that keep reasonings, some of their rows among these.
        max_rows: see above.
        max_cache_tokens: see above.
        mergeable: whether rows of several jobs run together.
    """
    found: list[tuple[RowJob, int]] = []
    if not waiting:
        return found
    running, longest = len(rows), 0
    places = sum(not row.job.keeps_reasonings for row in rows)
    for row in rows:
        longest = max(longest, row.job.final_length)
    for job in keeping:
        longest = max(longest, job.final_length)
        places += 2 * job.num_rows
    while waiting and (mergeable or running == 0):
        job = waiting[0]
        longest = max(longest, job.final_length)
        pending = job.num_opened - job.num_joined
        room = max_cache_tokens // longest - places
        count = min(pending, max_rows - running)
        if not job.keeps_reasonings:
            taken = count = min(count, room)
        elif job.num_joined:
            taken = 0
        else:
            taken = 2 * job.num_rows
        if count <= 0 or taken > room:
            break
        found.append((job, count))
        running += count
        places += taken
        if count < pending:
            break
        waiting.popleft()
    return found


def prefill_groups(jobs: Sequence[RowJob], *, mergeable: bool) -> list[list[RowJob]]:
    """Consecutive jobs with padded prompts under the limit; a longer prompt goes alone."""
    groups: list[list[RowJob]] = []
    width = 0
    for job in jobs:
        width = max(width, len(job.prompt_ids))
        fits = groups and (len(groups[-1]) + 1) * width <= _MAX_PREFILL_TOKENS
        if fits and mergeable:
            groups[-1].append(job)
        else:
            groups.append([job])
            width = len(job.prompt_ids)
    return groups
