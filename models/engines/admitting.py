"""Pure: which waiting jobs join a batch next, and which of them are prefilled together."""

from collections import deque
from collections.abc import Sequence

from models.engines.jobs import Row, RowJob

# Padded tokens of one batched prefill: enough to fill a step, little enough not to stall the
# running rows.
_MAX_PREFILL_TOKENS = 2048


def admitted(
    waiting: deque[RowJob],
    rows: Sequence[Row],
    *,
    max_rows: int,
    max_cache_tokens: int,
    mergeable: bool,
) -> list[tuple[RowJob, int]]:
    """The next jobs, first in first out, and how many of their rows join now.

    Together with the running ones: rows <= max_rows, and rows x longest final length <=
    max_cache_tokens. What is left of a job stays first.

    Args:
        waiting: jobs in their order; those that join leave it.
        rows: that run.
        max_rows: see above.
        max_cache_tokens: see above.
        mergeable: whether rows of several jobs run together.
    """
    found: list[tuple[RowJob, int]] = []
    if not waiting:
        return found
    running, longest = len(rows), 0
    for row in rows:
        longest = max(longest, row.job.final_length)
    while waiting and (mergeable or running == 0):
        job = waiting[0]
        longest = max(longest, job.final_length)
        pending = job.num_opened - job.num_joined
        most = min(max_rows, max_cache_tokens // longest)
        count = min(pending, most - running)
        if count <= 0:
            break
        found.append((job, count))
        running += count
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
