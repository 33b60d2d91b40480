"""One connection to a Redis, on which one exchange after another has its time limit."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    InvalidResponse,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

T = TypeVar("T")
# Name and arguments.
Command: TypeAlias = Sequence[bytes | str | int | float]

# In which a time limit passes: a late turn of the event loop, in which a reply may have arrived
# unseen, takes one of them at most.
_NUM_SLICES = 5
# Limit of exchanges that no request waits for: to connect, with TLS and password, or to store.
PATIENCE_S = 1.0

# The first that fits: several are subclasses of later ones.
_KINDS: tuple[tuple[type[Exception], str], ...] = (
    (AuthenticationError, "authentication refused"),
    (NoPermissionError, "permission refused"),
    (OutOfMemoryError, "out of memory"),
    (ReadOnlyError, "read-only"),
    (BusyLoadingError, "loading"),
    (TimeoutError, "too slow"),
    (ConnectionError, "unreachable"),
    (InvalidResponse, "no sense in its reply"),
    (ResponseError, "refused"),
)


class Connection:
    """One connection to a Redis, for one caller at a time; made by the first exchange.

    An exchange that fails or is late ends its connection, so that nobody takes a late reply for
    their own.
    """

    def __init__(self, url: str, ca_file: Path | None) -> None:
        self._client: Any = Redis.from_url(
            url,
            protocol=2,  # saves the round trip of HELLO
            retry=Retry(NoBackoff(), 0),
            socket_timeout=None,
            socket_connect_timeout=2 * PATIENCE_S,  # bounds the closing, too
            **tls_options(url, ca_file),
        )
        self._is_fresh = True

    async def execute(self, commands: Sequence[Command], limit_s: float) -> list[Any]:
        """Replies in the order of the commands, in one round trip.

        Raises:
            TimeoutError: the limit has passed.
            RedisError: any other fault. Some commands may have been executed.
        """
        return await within(limit_s, self._execute(commands))

    async def close(self) -> None:
        """Disconnect; a further exchange connects again."""
        with suppress(RedisError, OSError):
            await self._client.aclose()
        self._is_fresh = True

    async def _execute(self, commands: Sequence[Command]) -> list[Any]:
        if not self._is_fresh:
            await self.close()
        self._is_fresh = False
        if len(commands) == 1:  # cheaper without a pipeline
            replies = [await self._client.execute_command(*commands[0])]
        else:
            pipeline = self._client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            replies = await pipeline.execute()
        self._is_fresh = True
        return replies


def tls_options(url: str, ca_file: Path | None) -> dict[str, Any]:
    """The options by which a client of this URL trusts its authority."""
    if ca_file and url.startswith("rediss:"):
        return {"ssl_ca_certs": ca_file}
    return {}


async def within(limit_s: float, exchange: Awaitable[T]) -> T:
    """The result of the exchange.

    The limit passes while the event loop is on time: while the loop is late, a reply may lie there
    unread. However late it is, an exchange may take `PATIENCE_S` or its limit, if that is longer.

    Raises:
        TimeoutError: the limit has passed; the exchange is cancelled.
    """
    task = asyncio.ensure_future(exchange)
    slice_s, num_left = limit_s / _NUM_SLICES, _NUM_SLICES
    now = time.monotonic()
    ends_at = now + max(limit_s, PATIENCE_S)
    try:
        while num_left and now < ends_at:
            began_at = now
            await asyncio.wait((task,), timeout=slice_s)
            # An exchange that ends cancelled by itself must not pass for the cancellation of its
            # caller.
            if task.done() and not task.cancelled():
                return task.result()
            if task.done():
                break
            now = time.monotonic()
            is_on_time = now - began_at < 2 * slice_s
            num_left -= is_on_time
        raise TimeoutError
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def kind_of_fault(error: Exception) -> str:
    """The kind of a fault of Redis in fixed words, since its text may quote a key or the URL."""
    if isinstance(error.__context__, ssl.SSLError):
        return "TLS failed"
    for kind, words in _KINDS:
        if isinstance(error, kind):
            return words
    return type(error).__name__
