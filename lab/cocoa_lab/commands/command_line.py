"""The command line as reports show it."""

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise

_SECRET = "--judge-key"  # noqa: S105, the option's name
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def command_line(arguments: Sequence[str]) -> str:
    """The command with these arguments, without the judge's key and what a URL tells of users."""
    words = ["cocoa"]
    for previous, word in pairwise(["", *arguments]):
        if previous == _SECRET:
            words.append("…")
        elif word.startswith(f"{_SECRET}="):
            words.append(f"{_SECRET}=…")
        else:
            words.append(_CREDENTIALS.sub("…", word))
    return shlex.join(words)
