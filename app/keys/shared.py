"""What each key has used at all gateways that share a Redis.

A question waits for its answer as long as a lookup in the cache may take. From the first fault on
nothing is asked until a probe succeeds, and who asks is told nothing: their own process decides.
"""

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from redis.exceptions import InvalidResponse, RedisError

from app.cache.connections import connect, within
from app.cache.health import Health
from app.cache.protocol import CacheConfig
from app.keys.buckets import LIMITS
from app.keys.local import Refusal
from app.keys.records import Key

_MAX_CALLS = 256
# Nobody waits for what is only told.
_PATIENCE_S = 1.0
# A request of a gateway that died is under way for as long as its lease, which one that lives
# renews in time.
_LEASE_S = 30
_RENEW_S = 10.0

# Times are those of Redis, so that clocks of gateways need not agree.
_NOW = """
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
"""

# KEYS: levels of the buckets, leases of what is under way.
# ARGV: requests_per_minute, tokens_per_minute, 0 for none; see `app.keys.buckets` for the rules.
_BUCKETS = (
    _NOW
    + """
local names = {'requests', 'tokens'}
local limits = {requests = tonumber(ARGV[1]), tokens = tonumber(ARGV[2])}
local found = redis.call('HMGET', KEYS[1], 'requests', 'tokens', 'at')
local passed = math.max(0, now - (tonumber(found[3]) or now))
local levels = {}
for i, name in ipairs(names) do
  local level = tonumber(found[i]) or limits[name]
  levels[name] = math.min(limits[name], level + passed * limits[name] / 60)
end
local function keep()
  local until_full = 0
  for _, name in ipairs(names) do
    if limits[name] > 0 then
      until_full = math.max(until_full, (limits[name] - levels[name]) * 60 / limits[name])
    end
  end
  redis.call('HSET', KEYS[1], 'requests', levels.requests, 'tokens', levels.tokens, 'at', now)
  redis.call('EXPIRE', KEYS[1], math.ceil(until_full) + 1)
end
"""
)
# ARGV: …, max_concurrent (0 for none), whether tokens matter, lease, its seconds.
# Answers the number of the limit that is reached, 0 for none, and milliseconds to wait.
_ENTER = (
    _BUCKETS
    + """
local max_concurrent = tonumber(ARGV[3])
if max_concurrent > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  if redis.call('ZCARD', KEYS[2]) >= max_concurrent then return {3, 0} end
end
if limits.requests > 0 and levels.requests < 1 then
  return {1, math.ceil((1 - levels.requests) * 60000 / limits.requests)}
end
if limits.tokens > 0 and ARGV[4] == '1' and levels.tokens <= 0 then
  return {2, math.ceil(-levels.tokens * 60000 / limits.tokens)}
end
levels.requests = levels.requests - 1
keep()
if max_concurrent > 0 then
  redis.call('ZADD', KEYS[2], now + tonumber(ARGV[6]), ARGV[5])
  redis.call('EXPIRE', KEYS[2], tonumber(ARGV[6]) + 1)
end
return {0, 0}
"""
)
# ARGV: …, requests and tokens to take, lease that ends.
_SETTLE = (
    _BUCKETS
    + """
levels.requests = levels.requests - tonumber(ARGV[3])
levels.tokens = levels.tokens - tonumber(ARGV[4])
keep()
redis.call('ZREM', KEYS[2], ARGV[5])
return {0, 0}
"""
)
# ARGV: seconds, leases.
_RENEW = (
    _NOW
    + """
for i = 2, #ARGV do
  redis.call('ZADD', KEYS[2], now + tonumber(ARGV[1]), ARGV[i])
end
redis.call('EXPIRE', KEYS[2], tonumber(ARGV[1]) + 1)
return {0, 0}
"""
)


@dataclass(slots=True, eq=False)
class _Call:
    """One script to run; `reply` is None where nobody waits for it."""

    script: str
    name: str
    arguments: Sequence[int | str]
    ends_at: float  # on the event loop's clock
    reply: "asyncio.Future[Refusal | None] | None" = None

    def answer(self, refusal: Refusal | None) -> None:
        if self.reply is not None and not self.reply.done():
            self.reply.set_result(refusal)


class SharedLimits:
    """Usage by the names of keys, in Redis.

    Args:
        url: of the server.
        config: of the cache there.
        on_breaker: told when Redis is given up (True) and when it is back (False).
    """

    def __init__(self, url: str, config: CacheConfig, on_breaker: Callable[[bool], None]) -> None:
        self._config = config
        self._redis = connect(url, config.ca_file)
        self._health = Health(
            self._probe,
            on_breaker,
            lost="limits of keys are those of each process until Redis recovers",
            found="limits of keys are shared again",
        )
        self._calls: asyncio.Queue[_Call] = asyncio.Queue()
        self._leases: defaultdict[str, set[str]] = defaultdict(set)
        self._process, self._numbers = uuid.uuid4().hex, count()

    def new_lease(self) -> str:
        """Name of one request under way."""
        return f"{self._process}:{next(self._numbers)}"

    async def enter(self, key: Key, lease: str, *, costs_tokens: bool) -> Refusal | None:
        """Count a request as under way, unless a limit is reached; None where Redis cannot say."""
        if key.max_concurrent is not None:
            self._leases[key.name].add(lease)
        if self._health.is_open:
            return None
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Refusal | None] = loop.create_future()
        arguments = (key.max_concurrent or 0, int(costs_tokens), lease, _LEASE_S)
        ends_at = loop.time() + self._config.timeout_s
        call = _Call(_ENTER, key.name, (*_per_minute(key), *arguments), ends_at, reply)
        self._calls.put_nowait(call)
        return await reply

    def leave(self, key: Key, lease: str) -> None:
        """Count a request as no longer under way, soon."""
        if key.max_concurrent is not None:
            self._leases[key.name].discard(lease)
            self._tell(_SETTLE, key.name, (*_per_minute(key), 0, 0, lease))

    def charge(self, key: Key, *, requests: int = 0, tokens: int = 0) -> None:
        """Take from the buckets, soon, whether or not they hold it."""
        self._tell(_SETTLE, key.name, (*_per_minute(key), requests, tokens, ""))

    async def run(self) -> None:
        """Probe Redis until it answers, serve until it fails, and start again.

        Ends, disconnected, when cancelled.
        """
        try:
            while True:
                await self._health.heal()
                try:
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(self._serve())
                        tasks.create_task(self._renew())
                except* Exception as errors:
                    self._health.fail(errors.exceptions[0])
                    self._drop_calls()
        finally:
            self._health.reset()
            self._drop_calls()
            await self._disconnect()

    async def _serve(self) -> None:
        while True:
            calls = [await self._calls.get()]
            while len(calls) < _MAX_CALLS and not self._calls.empty():
                calls.append(self._calls.get_nowait())
            try:
                ends_at = min(call.ends_at for call in calls)
                replies = await self._exchange(calls, ends_at - asyncio.get_running_loop().time())
                for call, reply in zip(calls, replies, strict=True):
                    call.answer(reply)
            finally:
                for call in calls:
                    call.answer(None)

    async def _renew(self) -> None:
        """Keep what is under way under way."""
        while True:
            for name, leases in self._leases.items():
                if leases:
                    self._tell(_RENEW, name, (_LEASE_S, *leases))
            await asyncio.sleep(_RENEW_S)

    async def _probe(self) -> None:
        """Connect anew, then write in time."""
        await self._disconnect()
        loop = asyncio.get_running_loop()
        # The first round connects, which includes TLS and the password.
        for limit_s in (_PATIENCE_S, self._config.timeout_s):
            call = _Call(_SETTLE, ":probe", (1, 1, 0, 0, ""), loop.time() + limit_s)
            await self._exchange([call], limit_s)

    async def _exchange(self, calls: Sequence[_Call], limit_s: float) -> list[Refusal | None]:
        """What the scripts answer, in order; one round trip.

        Raises:
            TimeoutError: the limit has passed.
            RedisError: whatever else went wrong.
        """
        pipeline = self._redis.pipeline(transaction=False)
        for call in calls:
            prefix = f"{self._config.namespace}:limits:{call.name}"
            arguments = map(str, call.arguments)
            pipeline.eval(call.script, 2, f"{prefix}:levels", f"{prefix}:leases", *arguments)
        replies: Any = await within(limit_s, pipeline.execute())
        return [_refusal_of(reply) for reply in replies]

    def _tell(self, script: str, name: str, arguments: Sequence[int | str]) -> None:
        if not self._health.is_open:
            ends_at = asyncio.get_running_loop().time() + _PATIENCE_S
            self._calls.put_nowait(_Call(script, name, arguments, ends_at))

    def _drop_calls(self) -> None:
        while not self._calls.empty():
            self._calls.get_nowait().answer(None)

    async def _disconnect(self) -> None:
        with suppress(RedisError, OSError):
            await self._redis.aclose()


def _per_minute(key: Key) -> tuple[int, int]:
    return key.requests_per_minute or 0, key.tokens_per_minute or 0


def _refusal_of(reply: Any) -> Refusal | None:
    """What a script said.

    Raises:
        InvalidResponse: no script of ours said that.
    """
    is_pair = isinstance(reply, list) and list(map(type, reply)) == [int, int]
    if not is_pair or not 0 <= reply[0] <= len(LIMITS) or reply[1] < 0:
        raise InvalidResponse("no answer to a question of limits")
    number, wait_ms = reply
    return Refusal(LIMITS[number - 1], wait_ms / 1000) if number else None
