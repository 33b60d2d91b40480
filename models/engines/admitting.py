"""Pure: which waiting jobs join a batch next, and what is read of their prompts before."""

from collections.abc import Iterable, Sequence
from operator import attrgetter

from models.engines.jobs import Row, RowJob


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
        pending = job.num_opened - job.num_joined
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
    unread: Sequence[RowJob], budget: int, *, is_for_oldest: bool
) -> tuple[list[RowJob], int]:
    """Jobs whose prompts are read in one pass, and of how many tokens.

    Whole prompts, the shortest first, as far as they fit padded; else the next part of one. The
    oldest has every other pass, so that shorter ones do not hold it up for ever.

    Args:
        unread: in their order, at least one.
        budget: padded tokens of a pass.
        is_for_oldest: whether this pass is the oldest job's.
    """
    by_length = sorted(unread, key=attrgetter("num_unread"))
    first = unread[0] if is_for_oldest else by_length[0]
    width = len(first.prompt_ids)
    if width > budget or not first.is_groupable:
        return [first], min(first.num_unread, budget)
    group = [first]
    for job in filter(attrgetter("is_groupable"), by_length):
        wider = max(width, len(job.prompt_ids))
        if job is first:
            continue
        if (len(group) + 1) * wider > budget:
            break
        group.append(job)
        width = wider
    return group, width
