"""Callbacks of workers: what they report, and what they may ask in turn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from workers.config import Role

# The outcome of one call of another process: a typed error is an answer, too.
Outcome = Literal["answered", "repeated", "failed"]


@dataclass(frozen=True, slots=True)
class Hooks:
    """Callbacks that a process gives its workers."""

    # Called after each decoding step with its number of rows.
    on_step: Callable[[int], None] = lambda num_rows: None
    # Called with the number of pairs of each call of a pair model.
    on_batch: Callable[[int], None] = lambda size: None
    # Called after each call with its role, its outcome and its seconds.
    on_call: Callable[[Role, Outcome, float], None] = lambda role, outcome, seconds: None
    # Called after each check of a server, and each call that brought no answer, with its role,
    # its url and its trouble; "" for none.
    on_server: Callable[[Role, str, str], None] = lambda role, url, trouble: None
    # Of calls of other processes: which request and which trace they belong to.
    headers: Callable[[], Mapping[str, str]] = dict
    # Whose request it is, in the operator's words; never a key. "" for nobody's.
    tenant: Callable[[], str] = str
