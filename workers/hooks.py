"""Callbacks of workers: what they report, and what they may ask in turn."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from models.engines.protocol import OnStep
from workers.config import Role

# What became of one call of another process: a typed error is an answer, too.
Outcome = Literal["answered", "repeated", "failed"]


@dataclass(frozen=True, slots=True)
class Hooks:
    """Callbacks that a process gives its workers.

    Attributes:
        on_step: told after each decoding step how many rows it had.
        on_batch: told the number of pairs of each call of a pair model.
        on_call: told whom a call asked, what became of it, and how many seconds it took.
        on_server: told, whenever a server of a model was asked or called, its url and what is wrong
            with it; "" for nothing, None where it is no server of the model any more.
        headers: of calls of other processes: which request and which trace they belong to.
        tenant: whose request it is, in the operator's words; never a key. "" for nobody's.
    """

    on_step: OnStep = lambda num_rows: None
    on_batch: Callable[[int], None] = lambda size: None
    on_call: Callable[[Role, Outcome, float], None] = lambda role, outcome, seconds: None
    on_server: Callable[[Role, str, str | None], None] = lambda role, url, trouble: None
    headers: Callable[[], Mapping[str, str]] = dict
    tenant: Callable[[], str] = str
