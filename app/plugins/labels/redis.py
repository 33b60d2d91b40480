"""Labels in a Redis that several gateways share: one hash, so that a repetition counts once."""

import asyncio
import logging
from collections import ChainMap, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import Any

from redis.exceptions import NoPermissionError

from app.cache.connection import FAULTS, Command, Connection, kind_of_fault
from app.cache.lane import Lane
from app.plugins.labels.protocol import Answer, FeedbackConfig, Label, StoreFailed, answer_from_json
from models.codec import to_json

logger = logging.getLogger(__name__)

_MAX_ANSWERS = 256
_PAUSE_S = 1.0
_SETTING = "COCOA_FEEDBACK__REQUIRE_FSYNC"
# Only with these is a label on disk before it is acknowledged.
_DURABLE = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}
_READ_SETTINGS = (("CONFIG GET", "*append*"), ("CONFIG GET", "maxmemory-policy"))


class RedisStore:
    """A `FeedbackStore` in Redis."""

    def __init__(self, url: str, config: FeedbackConfig, on_lost: Callable[[], None]) -> None:
        self._config = config
        self._on_lost = on_lost
        # A connection each, so that none waits for another's exchange.
        beside = labels_key(config.namespace)
        self._connections = [Connection(url, config.ca_file, beside) for _ in range(3)]
        self._reader, self._labeller, self._writer = self._connections
        self._finds: Lane[str, bytes | None] = Lane(self._read)
        self._puts: Lane[tuple[str, bytes], None] = Lane(self._write)
        self._pending: OrderedDict[str, tuple[Answer, bytes]] = OrderedDict()
        self._has_pending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to store answers; Redis need not be there."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            with suppress(Exception):
                await self._store_answers()
        await self._finds.close()
        await self._puts.close()
        for connection in self._connections:
            await connection.close()

    def remember(self, answer: Answer) -> None:
        self._pending.pop(answer.name, None)
        self._pending[answer.name] = answer, to_json(answer)
        self._has_pending.set()
        if len(self._pending) > self._config.max_answers:
            self._pending.popitem(last=False)
            self._on_lost()

    async def find(self, name: str) -> Answer | None:
        if name in self._pending:
            return self._pending[name][0]
        try:
            answer = answer_from_json(await self._finds.send(name) or b"")
        except ValueError:  # no entry, or one of another program
            return None
        if answer.name != name:
            return None
        return answer

    async def put(self, label: Label) -> None:
        """Keep a label; one round trip for all that wait."""
        await self._puts.send((label.answer.name, to_json(label)))

    async def _run(self) -> None:
        is_known = False
        while True:
            await self._has_pending.wait()
            try:
                await self._store_answers()
            except Exception as error:
                if not is_known:
                    logger.warning("answers wait for the Redis of labels: %s", kind_of_fault(error))
                is_known = True
                await asyncio.sleep(_PAUSE_S)
            else:
                is_known = False

    async def _store_answers(self) -> None:
        while batch := dict(islice(self._pending.items(), _MAX_ANSWERS)):
            commands: list[Command] = []
            for name, (_, content) in batch.items():
                commands.append(("SET", self._key(name), content, "EX", self._config.ttl_s))
            await self._writer.execute(commands, self._config.timeout_s)
            for name, stored in batch.items():
                if self._pending.get(name) is stored:
                    del self._pending[name]
        self._has_pending.clear()

    async def _read(self, names: Sequence[str]) -> Sequence[bytes | None]:
        [values] = await self._execute(self._reader, ("MGET", *map(self._key, names)))
        if not isinstance(values, list) or len(values) != len(names):
            raise StoreFailed("Redis: no sense in its reply")
        return values

    async def _write(self, labels: Sequence[tuple[str, bytes]]) -> Sequence[None]:
        if self._config.require_fsync:
            settings = await self._execute(self._labeller, *_READ_SETTINGS)
            if not all(isinstance(part, dict) for part in settings):
                raise StoreFailed("Redis: no sense in its reply")
            if (fault := why_not_durable(dict(ChainMap(*settings)))) is not None:
                raise StoreFailed(f"{fault}, unless {_SETTING}=false")
        # Of several labels of an answer the last stays.
        items: Iterable[str | bytes] = chain.from_iterable(labels)
        await self._execute(self._labeller, ("HSET", labels_key(self._config.namespace), *items))
        return [None] * len(labels)

    async def _execute(self, connection: Connection, *commands: Command) -> list[Any]:
        """The replies of Redis; raises a `StoreFailed` that says what is wrong with it."""
        try:
            return await connection.execute(commands, self._config.timeout_s)
        except NoPermissionError:
            message = f"Redis: permission refused; CONFIG GET is needed unless {_SETTING}=false"
            raise StoreFailed(message) from None
        except FAULTS as error:
            raise StoreFailed(f"Redis: {kind_of_fault(error)}") from None

    def _key(self, name: str) -> str:
        return f"{self._config.namespace}:feedback:answer:{name}"


def labels_key(namespace: str) -> str:
    """Name of the hash of labels: name of the answer to the label as JSON."""
    return f"{namespace}:feedback:labels"


def why_not_durable(settings: Mapping[str, str]) -> str | None:
    """The fault in a Redis's settings by which acknowledged labels may be lost; None without."""
    for name, wanted in _DURABLE.items():
        if settings.get(name) != wanted:
            return f"Redis must have {name} {wanted}"
    if settings.get("maxmemory-policy", "").startswith("allkeys-"):
        return "Redis must not evict labels: maxmemory-policy noeviction or volatile-*"
    return None
