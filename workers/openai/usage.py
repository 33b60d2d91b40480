"""Tokens that a server counts, where it tells them no other way. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workers.openai.replies import Choice

# Tokens beside those that show: of white space, of stop strings, and that end an answer.
_SLACK = 16


def count(usage: Any, *path: str) -> int:
    """A count in `usage`; 0 where there is none.

    >>> count({"completion_tokens_details": {"reasoning_tokens": 3}}, "completion_tokens_details",
    ...     "reasoning_tokens")
    3
    """
    for name in path:
        usage = usage.get(name) if isinstance(usage, Mapping) else None
    return usage if type(usage) is int and usage >= 0 else 0


@dataclass(frozen=True, slots=True)
class Counted:
    """A choice with what `usage` says of it.

    Attributes:
        num_tokens: of all that was written.
        num_hidden: of a reasoning that the text may not show.
        num_missing: that are counted, and were told neither by ids nor by log-probs, on the average
            over the texts of its call; 0 where none are told.
    """

    choice: Choice
    num_tokens: int
    num_hidden: int
    num_missing: int = 0


def counted(usage: Any, choices: Sequence[Choice], most: int) -> list[Counted]:
    """Each choice of a call with its share of what `usage` counts; `most` tokens it may have."""
    hidden, total = _num_hidden(usage, choices), count(usage, "completion_tokens")
    told = [choice.num_tokens for choice in choices if choice.num_tokens is not None]
    missing = 0
    if len(told) == len(choices):
        missing = -(-max(0, total - sum(told)) // len(choices))
    missing = max(0, missing - hidden)
    found = []
    for choice, num in zip(choices, _shares(total, choices, most), strict=True):
        found.append(Counted(choice, num, hidden, missing))
    return found


def _shares(total: int, choices: Sequence[Choice], most: int) -> list[int]:
    """How many tokens each of several texts has, where only their sum is told.

    One that was cut has as many as it may have; the others share the rest evenly.
    """
    found = [most] * len(choices)
    ended = [i for i, choice in enumerate(choices) if choice.finish_reason != "length"]
    rest = max(0, total - (len(choices) - len(ended)) * most)
    for place, i in enumerate(ended):
        found[i] = min(most, rest // len(ended) + (place < rest % len(ended)))
    return found


def _num_hidden(usage: Any, choices: Sequence[Choice]) -> int:
    """Tokens of reasonings that are counted; at least so many for each text, on the average.

    Where a server does not count them by themselves: those for which its texts have no room, as a
    token has at least one byte.
    """
    if told := count(usage, "completion_tokens_details", "reasoning_tokens"):
        return -(-told // len(choices))
    room = 0
    for choice in choices:
        shown = len((choice.text + (choice.reasoning or "")).encode())
        room += max(shown, choice.num_tokens or 0) + _SLACK
    beyond = count(usage, "completion_tokens") - room
    return -(-max(0, beyond) // len(choices))
