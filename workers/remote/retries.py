"""Calls that are made once more. From the inside out, each layer around the one before:

1. `patiently`: of the same server, which asks for patience, or has failed once;
2. `of_one_model`: of the model that has taken the place of the one that was called;
3. `repeating`: over another connection.

Between the first and the second a server gets other words, where its refusal teaches them
(`workers.openai.prompts`).
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from models.errors import Overloaded
from workers.hooks import Outcome
from workers.remote.client import Refused, Unreachable, reason_of
from workers.remote.refusals import NoSuccess
from workers.remote.standing import ChangedModel, Server

Reply = TypeVar("Reply")
# Called after each try with its outcome, seconds, and the reason of a loss; "" for none.
OnTry = Callable[[Outcome, float, str], None]

_FIRST_WAIT_S, _MOST_WAIT_S = 0.5, 8.0
_MOST_PATIENCE_S = 60.0
# Statuses that may pass: of the server, and of what stands in front of a hosted one.
_PASSING = frozenset({408, 429, 500, 502, 503, *range(520, 530)})


class Identified(Protocol):
    """A server's capabilities, with their identity."""

    @property
    def identity(self) -> str:
        """Digest of all that decides its answers, as far as it can be known from outside."""


Tried = TypeVar("Tried", bound=Identified)


async def patiently(send: Callable[[], Awaitable[Reply]], until: float | None) -> Reply:
    """The reply of a server once it has room.

    A reply that asks for patience (429, or a failure with Retry-After) is heeded until the
    monotonic second of the deadline, or for a minute; one that says no more than that the server
    failed is followed by one more try.

    Raises:
        NoSuccess: as `send` raised it.
        Overloaded: it asks for more patience than there is time.
    """
    if until is None:
        until = time.monotonic() + _MOST_PATIENCE_S
    next_s, has_failed = _FIRST_WAIT_S, False
    while True:
        try:
            return await send()
        except NoSuccess as error:
            if error.status not in _PASSING or isinstance(error.error, Refused):
                raise
            wait_s = next_s if error.patience_s is None else max(error.patience_s, 0.05)
            has_time = time.monotonic() + wait_s < until
            is_failure = error.status != 429 and error.patience_s is None
            if is_failure and (has_failed or not has_time):
                raise
            if not has_time:
                message = "the server of the model has no room, and asks to be left alone for"
                message += " longer than there is time"
                raise Overloaded(message, retry_after_s=math.ceil(wait_s)) from None
            has_failed = has_failed or is_failure
        next_s = min(2.0 * next_s, _MOST_WAIT_S)
        await asyncio.sleep(wait_s)


async def of_one_model(
    ask: Callable[[Server[Tried], Tried], Awaitable[Reply]],
    may_repeat: Callable[[], bool],
    server: Server[Tried],
) -> Reply:
    """The reply of a server that does not change meanwhile; else it is called once more.

    `ask` is called with the server and its capabilities.

    Raises:
        ChangedModel: it has changed again, or it may not be called again.
    """
    for _ in range(2):
        known = await server.settled()
        try:
            reply = await ask(server, known)
            settled = await server.settled()
            if settled is known or settled.identity == known.identity:
                return reply
        except ChangedModel:
            server.doubt()
        if not may_repeat():
            break
    raise ChangedModel


async def repeating(
    send: Callable[[], Awaitable[Reply]], may_repeat: Callable[[], bool], on_try: OnTry
) -> Reply:
    """The reply to a call; one that brings no answer is made once more, if it may be.

    The server may have closed a connection that it kept for too long, or a balancer may choose
    another one. `Unreachable` is no answer.

    Raises:
        Unreachable: there was no answer.
        Exception: whatever else `send` raises, which is an answer.
    """
    is_first = True
    while True:
        began_at = time.monotonic()
        outcome: Outcome | None = "answered"  # an error that is none of those below is an answer
        lost = ""
        try:
            return await send()
        except Unreachable as error:
            outcome, lost = "repeated", reason_of(error)
            if not is_first or not may_repeat():
                outcome = "failed"
                raise Unreachable(lost) from error
        except asyncio.CancelledError:
            outcome = None
            raise
        finally:
            if outcome is not None:
                on_try(outcome, time.monotonic() - began_at, lost)
        is_first = False
