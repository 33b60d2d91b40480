"""The buckets of keys at all gateways that share a Redis.

A request waits for Redis as long as a lookup in the cache may take. From the first fault on nothing
is sent until a probe succeeds, and each gateway goes by its own buckets.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from redis.exceptions import InvalidResponse

from app.cache.breaker import Breaker
from app.cache.connection import Command, Connection, within
from app.cache.lane import Dropped, Lane
from app.cache.protocol import CacheConfig, State
from app.plugins.keys.buckets import LIMITS, Refusal
from app.plugins.keys.records import Key

# Scripts of one round trip, which has the time of one lookup.
_MAX_SCRIPTS = 64

# Takes from the buckets of one key by the rules of `buckets.py`, unless one that is asked refuses.
# Times are those of Redis, so that clocks of gateways need not agree. Of a limit that a key has not
# nothing is kept.
# ARGV: of requests and then tokens the limits a minute (0 for none), what is taken, and whether the
# bucket is asked. Answers the number of the bucket that refuses, 0 for none, and milliseconds.
_TAKE = """
local names, least = {'requests', 'tokens'}, {1, 0}
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
local found = redis.call('HMGET', KEYS[1], names[1], names[2], 'at')
local passed = math.max(0, now - (tonumber(found[3]) or now))
local levels, until_full = {}, 0
for i = 1, 2 do
  local limit = tonumber(ARGV[i])
  if limit > 0 then
    local level = math.min(limit, (tonumber(found[i]) or limit) + passed * limit / 60)
    if ARGV[i + 4] == '1' and level < least[i] then
      return {i, math.ceil((least[i] - level) * 60000 / limit)}
    end
    levels[i] = level - tonumber(ARGV[i + 2])
    until_full = math.max(until_full, (limit - levels[i]) * 60 / limit)
  end
end
for i = 1, 2 do
  if levels[i] then
    redis.call('HSET', KEYS[1], names[i], levels[i], 'at', now)
  else
    redis.call('HDEL', KEYS[1], names[i])
  end
end
redis.call('EXPIRE', KEYS[1], math.ceil(until_full) + 1)
return {0, 0}
"""


class SharedLimits:
    """Levels of buckets by the names of keys, in Redis."""

    def __init__(self, url: str, config: CacheConfig, on_state: Callable[[State], None]) -> None:
        self._config = config
        self._redis = Connection(url, config.ca_file)
        self._lane: Lane[Command, Refusal | None] = Lane(self._exchange, _MAX_SCRIPTS)
        self._breaker = Breaker(
            self._probe,
            (self._lane, self._redis),
            config.timeout_s,
            on_state,
            lost="limits of keys are those of each process until Redis recovers",
            recovered="limits of keys are shared again",
        )

    async def enter(self, key: Key, *, costs_tokens: bool) -> Refusal | None:
        """Take a request, unless a limit is reached; None where it passes or Redis cannot say."""
        if self._breaker.state == "closed" and any(_per_minute(key)):
            command = _command(self._config, key.name, *_per_minute(key), 1, 0, 1, costs_tokens)
            with suppress(Dropped, TimeoutError):
                return await within(self._config.timeout_s, self._lane.send(command))
        return None

    def charge(self, key: Key, *, requests: int, tokens: int) -> None:
        """Take from the buckets, soon, whether or not they hold it; not while Redis is away."""
        if self._breaker.state == "closed" and any(_per_minute(key)):
            command = _command(self._config, key.name, *_per_minute(key), requests, tokens, 0, 0)
            with suppress(Dropped):
                self._lane.send(command)

    async def run(self) -> None:
        """Probe Redis until it answers and whenever it fails; end, disconnected, when cancelled."""
        await self._breaker.run()

    async def _exchange(self, commands: Sequence[Command]) -> list[Refusal | None]:
        with self._breaker.watching():
            replies = await self._redis.execute(commands, self._config.timeout_s)
            return list(map(_refusal_of, replies))

    async def _probe(self, limit_s: float) -> None:
        command = _command(self._config, ":probe", 1, 1, 0, 0, 0, 0)
        _refusal_of(*await self._redis.execute([command], limit_s))


def _command(config: CacheConfig, name: str, *arguments: int) -> Command:
    levels = f"{config.namespace}:limits:{name}:levels"
    return ("EVAL", _TAKE, 1, levels, *map(int, arguments))


def _per_minute(key: Key) -> tuple[int, int]:
    return key.requests_per_minute or 0, key.tokens_per_minute or 0


def _refusal_of(reply: Any) -> Refusal | None:
    """The refusal in the reply of the script; None where it is none. Refuse any other reply."""
    is_pair = isinstance(reply, list) and list(map(type, reply)) == [int, int]
    if not is_pair or not 0 <= reply[0] <= 2 or reply[1] < 0:
        raise InvalidResponse("no answer to a question of limits")
    number, wait_ms = reply
    if number == 0:
        return None
    return Refusal(LIMITS[number - 1], wait_ms / 1000)
