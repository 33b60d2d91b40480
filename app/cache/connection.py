"""One connection to a Redis, on which one exchange after another has its time limit."""

import asyncio
import re
import ssl
import time
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from redis.asyncio import Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterCrossSlotError,
    ConnectionError,
    InvalidResponse,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
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

# Of Redis, and of the way to it; TimeoutError is an OSError.
FAULTS = (RedisError, RedisClusterException, OSError)
# With which Redis begins an error; what follows may quote a command.
_CODE = re.compile(r"[A-Z]{2,20}(?= |$)")
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
    (RedisClusterException, "not all of its nodes are there"),
)


class Connection:
    """One connection to a Redis, for one caller at a time; made by the first exchange.

    An exchange that fails or is late ends its connection, so that nobody takes a late reply for
    their own. Where Redis says that it is a cluster, there is one to each of its nodes, of which
    CONFIG GET asks the one that has the key `beside`.
    """

    def __init__(self, url: str, ca_file: Path | None, beside: str = "") -> None:
        self._url, self._beside = url, beside
        self._options = {
            "protocol": 2,  # saves the round trip of HELLO
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": None,
            "socket_connect_timeout": 2 * PATIENCE_S,  # bounds the closing, too
            **tls_options(url, ca_file),
        }
        self._client: Any = Redis.from_url(url, **self._options)
        self._is_cluster = self._is_sound = False

    async def execute(self, commands: Sequence[Command], limit_s: float = PATIENCE_S) -> list[Any]:
        """Replies in the order of the commands, in one round trip.

        Raises:
            TimeoutError: the limit has passed.
            RedisError, RedisClusterException: any other fault. Some commands may have been done.
        """
        return await within(limit_s, self._execute(commands))

    async def close(self) -> None:
        """Disconnect; a further exchange connects again."""
        with suppress(*FAULTS):
            await self._client.aclose()
        self._is_sound = False

    async def _execute(self, commands: Sequence[Command]) -> list[Any]:
        if not self._is_sound:
            await self.close()
            if self._is_cluster:  # all that hold keys are connected to, or the probe fails
                await self._client.execute_command("PING", target_nodes=RedisCluster.PRIMARIES)
        self._is_sound = False
        try:
            replies = await self._sent(commands)
        except (MovedError, ClusterCrossSlotError):  # the client of a cluster heeds the first
            if self._is_cluster:
                raise
            await self.close()
            self._client, self._is_cluster = RedisCluster.from_url(self._url, **self._options), True
            return await self._execute(commands)
        self._is_sound = True
        return replies

    async def _sent(self, commands: Sequence[Command]) -> list[Any]:
        options, name = {}, commands[0][0]
        if self._is_cluster and name == "MGET":  # one for each slot
            return [await self._client.mget_nonatomic(commands[0][1:])]
        if self._is_cluster and name == "CONFIG GET":
            options["target_nodes"] = self._client.get_node_from_key(self._beside)
        if len(commands) == 1:  # cheaper without a pipeline
            return [await self._client.execute_command(*commands[0], **options)]
        pipeline = self._client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command, **options)
        replies: list[Any] = await pipeline.execute(raise_on_error=False)
        for reply in replies:
            if isinstance(reply, Exception):  # as it came, where the client would quote a command
                raise reply
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


def kind_of_fault(error: BaseException) -> str:
    """The kind of a fault of Redis in fixed words, since its text may quote a key or the URL.

    Behind them stands the code that Redis itself gives, such as CROSSSLOT.
    """
    if isinstance(error, RedisClusterException) and (cause := error.__cause__ or error.__context__):
        return kind_of_fault(cause)
    if isinstance(error.__context__, ssl.SSLError):
        return "TLS failed"
    code = ""
    if told := _CODE.match(getattr(error, "status_code", None) or str(error)):
        code = f": {told[0]}"
    for kind, words in _KINDS:
        if isinstance(error, kind):
            return words + code
    return type(error).__name__
