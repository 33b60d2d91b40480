"""Pure: what a mistyped name was probably meant to be."""

from collections.abc import Iterable
from difflib import get_close_matches

_MAX_MISTYPED = 64


def closest(name: str, names: Iterable[str]) -> str | None:
    """The known name most like this one; None where none is, or it is too long to compare."""
    if len(name) > _MAX_MISTYPED:  # comparing 900 kB takes seconds
        return None
    return next(iter(get_close_matches(name, list(names), n=1, cutoff=0.75)), None)


def did_you_mean(meant: str | None) -> str:
    """The end of a message about a name; empty where nothing is like it."""
    if meant is None:
        return ""
    return f"; did you mean {meant}?"
