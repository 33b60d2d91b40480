"""The usage of each key at all gateways that share a Redis.

A request waits for Redis as long as a lookup in the cache may take. From the first fault on nothing
is sent until a probe succeeds, and each process decides by itself.

The number of a key's requests under way is kept once a gateway, which sends it anew whenever it
changes, and every `_RENEW_S`. A number that was lost on the way is so put right by the next, and
the lease of a gateway that died ends after `_LEASE_S`.
"""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from redis.exceptions import InvalidResponse

from app.cache.breaker import Breaker
from app.cache.connection import Command, Connection, within
from app.cache.lane import Dropped, Lane
from app.cache.protocol import CacheConfig, State
from app.keys.buckets import LIMITS, Refusal
from app.keys.records import Key, Place

# Scripts of one round trip, which has the time of one lookup: of reports on keys, of requests.
_MAX_REPORTED = 64
_MAX_ENTERING = 64
_LEASE_S = 6.0
_RENEW_S = 2.0

# Times are those of Redis, so that clocks of gateways need not agree.
# KEYS: levels of the buckets; of each gateway how many requests are under way, and until when that
# holds.
# ARGV: gateway, seconds of its lease, requests_per_minute, tokens_per_minute (0 for none), ...
# `app.keys.buckets` has the rules. Of a limit that a key has not nothing is kept.
_COMMON = """
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6
local gateway, lease_s = ARGV[1], tonumber(ARGV[2])
local limits = {requests = tonumber(ARGV[3]), tokens = tonumber(ARGV[4])}
local found = redis.call('HMGET', KEYS[1], 'at', 'requests', 'tokens')
local passed = math.max(0, now - (tonumber(found[1]) or now))
local function level_of(name, found)
  local limit = limits[name]
  return math.min(limit, (tonumber(found) or limit) + passed * limit / 60)
end
local levels = {requests = level_of('requests', found[2]), tokens = level_of('tokens', found[3])}
local function keep()
  local until_full = 0
  for name, limit in pairs(limits) do
    if limit > 0 then
      until_full = math.max(until_full, (limit - levels[name]) * 60 / limit)
      redis.call('HSET', KEYS[1], name, levels[name], 'at', now)
    else
      redis.call('HDEL', KEYS[1], name)
    end
  end
  redis.call('EXPIRE', KEYS[1], math.ceil(until_full) + 1)
end
local function set_running(number)
  redis.call('HSET', KEYS[2], gateway, number .. ' ' .. (now + lease_s))
  redis.call('EXPIRE', KEYS[2], math.ceil(lease_s) + 1)
end
"""
# ARGV: ..., max_concurrent (0 for none), whether tokens matter.
# Answers the number of the limit that is reached, 0 for none, and milliseconds to wait.
_ENTER = (
    _COMMON
    + """
local max_concurrent = tonumber(ARGV[5])
local running, own = 0, 0
if max_concurrent > 0 then
  local all = redis.call('HGETALL', KEYS[2])
  for i = 1, #all, 2 do
    local number, lapses_at = string.match(all[i + 1], '(%S+) (%S+)')
    if tonumber(lapses_at) <= now then
      redis.call('HDEL', KEYS[2], all[i])
    else
      running = running + tonumber(number)
      if all[i] == gateway then own = tonumber(number) end
    end
  end
  if running >= max_concurrent then return {3, 0} end
end
if limits.requests > 0 and levels.requests < 1 then
  return {1, math.ceil((1 - levels.requests) * 60000 / limits.requests)}
end
if limits.tokens > 0 and ARGV[6] == '1' and levels.tokens <= 0 then
  return {2, math.ceil(-levels.tokens * 60000 / limits.tokens)}
end
levels.requests = levels.requests - 1
keep()
if max_concurrent > 0 then set_running(own + 1) end
return {0, 0}
"""
)
# ARGV: ..., requests and tokens to take, how many requests are under way at this gateway.
_REPORT = (
    _COMMON
    + """
levels.requests = levels.requests - tonumber(ARGV[5])
levels.tokens = levels.tokens - tonumber(ARGV[6])
keep()
if ARGV[7] == '0' then redis.call('HDEL', KEYS[2], gateway) else set_running(ARGV[7]) end
return {0, 0}
"""
)


@dataclass(slots=True)
class _Usage:
    """The usage of a key to report: requests under way here, and requests and tokens to charge."""

    key: Key
    num_running: int = 0
    requests: int = 0
    tokens: int = 0


class SharedLimits:
    """Usage by the names of keys, in Redis."""

    def __init__(self, url: str, config: CacheConfig, on_state: Callable[[State], None]) -> None:
        self._config = config
        self._on_state = on_state
        self._redis = Connection(url, config.ca_file)
        # None only has the lane send what is unreported.
        self._lane: Lane[Place | None, Refusal | None] = Lane(self._exchange, _MAX_ENTERING)
        self._breaker = Breaker(
            self._probe,
            (self._lane, self._redis),
            config.timeout_s,
            self._changed,
            lost="limits of keys are those of each process until Redis recovers",
            recovered="limits of keys are shared again",
        )
        self._usages: dict[str, _Usage] = {}
        self._unreported: dict[str, None] = {}
        self._gateway = uuid.uuid4().hex

    async def enter(self, place: Place) -> Refusal | None:
        """Count a request as under way, unless a limit is reached; None where Redis cannot say."""
        key = place.key
        if key.requests_per_minute is key.tokens_per_minute is key.max_concurrent is None:
            return None
        self._usage(key).key = key
        place.is_awaited = True
        try:
            if self._breaker.state == "closed":
                return await within(self._config.timeout_s, self._lane.send(place))
        except (Dropped, TimeoutError):
            pass
        finally:
            place.is_awaited = False
        self._count(place)
        self._report(key.name)
        return None

    def leave(self, place: Place) -> None:
        """Count a request as no longer under way, soon, and as soon as Redis is back."""
        if place.key.max_concurrent is not None:
            self._usage(place.key).num_running -= place.is_counted
            place.is_counted = False
            self._report(place.key.name)

    def charge(self, key: Key, *, requests: int = 0, tokens: int = 0) -> None:
        """Take from the buckets, soon, whether or not they hold it; not while Redis is away."""
        usage = self._usage(key)
        usage.key = key
        if self._breaker.state == "closed" and any(_per_minute(key)):
            usage.requests += requests
            usage.tokens += tokens
            self._report(key.name)

    async def run(self) -> None:
        """Probe Redis until it answers and whenever it fails; end, disconnected, when cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._breaker.run())
            while True:
                await asyncio.sleep(_RENEW_S)
                self._report_running()

    def _report_running(self) -> None:
        for name, usage in self._usages.items():
            if usage.num_running:
                self._report(name)

    def _changed(self, state: State) -> None:
        if state == "closed":
            self._wake()
            self._report_running()
        self._on_state(state)

    def _report(self, name: str) -> None:
        self._unreported[name] = None
        self._wake()

    def _wake(self) -> None:
        if self._unreported and self._breaker.state == "closed":
            with suppress(Dropped):  # then others wait, whose batch reports it, too
                self._lane.send(None)

    async def _exchange(self, places: Sequence[Place | None]) -> list[Refusal | None]:
        """Report usages, then let requests enter; one round trip."""
        with self._breaker.watching():
            reported = list(islice(self._unreported, _MAX_REPORTED))
            entering = list(filter(None, places))
            commands = [*map(self._report_command, reported), *map(self._enter_command, entering)]
            refusals: dict[Place | None, Refusal | None] = {}
            try:
                replies = await self._redis.execute(commands, self._config.timeout_s)
                entered = map(_refusal_of, replies[len(reported) :])
                refusals.update(zip(entering, entered, strict=True))
            except BaseException:
                self._unreported |= dict.fromkeys(reported)
                raise
        for place in entering:
            if place.is_awaited and refusals[place] is None:
                self._count(place)
        self._wake()
        return list(map(refusals.get, places))

    def _count(self, place: Place) -> None:
        # Once: its time limit may pass in the turn of the event loop in which Redis answers.
        if place.key.max_concurrent is not None and not place.is_counted:
            place.is_counted = True
            self._usage(place.key).num_running += 1

    def _usage(self, key: Key) -> _Usage:
        return self._usages.setdefault(key.name, _Usage(key))

    def _report_command(self, name: str) -> Command:
        """The report of a key: requests under way now, and charges, which are sent once or lost."""
        del self._unreported[name]
        usage = self._usages[name]
        report = (usage.requests, usage.tokens, usage.num_running)
        usage.requests = usage.tokens = 0
        return self._command(_REPORT, name, *_per_minute(usage.key), *report)

    def _enter_command(self, place: Place) -> Command:
        key = place.key
        arguments = (key.max_concurrent or 0, int(place.costs_tokens))
        return self._command(_ENTER, key.name, *_per_minute(key), *arguments)

    def _command(self, script: str, name: str, *arguments: int) -> Command:
        prefix = f"{self._config.namespace}:limits:{name}"
        keys = (f"{prefix}:levels", f"{prefix}:running")
        return ("EVAL", script, 2, *keys, self._gateway, _LEASE_S, *arguments)

    async def _probe(self, limit_s: float) -> None:
        command = self._command(_REPORT, ":probe", 1, 1, 0, 0, 0)
        [reply] = await self._redis.execute([command], limit_s)
        _refusal_of(reply)


def _per_minute(key: Key) -> tuple[int, int]:
    return key.requests_per_minute or 0, key.tokens_per_minute or 0


def _refusal_of(reply: Any) -> Refusal | None:
    """The refusal in the reply of a script; None where it is none. Refuse any other reply."""
    is_pair = isinstance(reply, list) and list(map(type, reply)) == [int, int]
    if not is_pair or not 0 <= reply[0] <= len(LIMITS) or reply[1] < 0:
        raise InvalidResponse("no answer to a question of limits")
    number, wait_ms = reply
    if number == 0:
        return None
    return Refusal(LIMITS[number - 1], wait_ms / 1000)
