"""Labels in a Redis that several gateways share: one hash, so that a repetition counts once."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, TypeVar

import redis
from redis.exceptions import InvalidResponse, RedisError

from app.cache.connections import connect, within
from app.cache.faults import kind_of_fault
from app.feedback.batches import Batches
from app.feedback.protocol import FeedbackConfig, StoreFailed
from app.feedback.records import Answer, Label, from_json, to_json

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")
_MAX_ANSWERS = 256
_PAUSE_S = 1.0
_READ_TIMEOUT_S = 10.0
_SETTING = "COCOA_FEEDBACK__REQUIRE_FSYNC"
# Only with these is a label on disk before it is acknowledged.
_DURABLE = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}


class RedisStore:
    """A `FeedbackStore` in Redis.

    Args:
        url: of the server.
        config: of this deployment.
        on_lost: told of each answer that could not wait any longer for Redis.
    """

    def __init__(self, url: str, config: FeedbackConfig, on_lost: Callable[[], None]) -> None:
        self._config = config
        self._on_lost = on_lost
        # A connection each, so that a cancelled call leaves no late reply to another one.
        self._clients = [connect(url, config.ca_file) for _ in range(3)]
        self._reader, self._labeller, self._writer = self._clients
        self._finds: Batches[str, bytes | None] = Batches(self._read)
        self._puts: Batches[tuple[str, bytes], None] = Batches(self._write)
        self._pending: OrderedDict[str, tuple[Answer, bytes]] = OrderedDict()
        self._has_pending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to store answers; Redis need not be there."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Store what is pending, if Redis lets it, and disconnect."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            with suppress(Exception):
                await self._store_answers()
        for batches in (self._finds, self._puts):
            await batches.close()
        for client in self._clients:
            await _disconnect(client)

    def remember(self, answer: Answer) -> None:
        """See `FeedbackStore`: soon, and as soon as Redis is back."""
        self._pending.pop(answer.name, None)
        self._pending[answer.name] = answer, to_json(answer)
        self._has_pending.set()
        if len(self._pending) > self._config.max_answers:
            self._pending.popitem(last=False)
            self._on_lost()

    async def find(self, name: str) -> Answer | None:
        """See `FeedbackStore`. What others wrote under its name is none."""
        if name in self._pending:
            return self._pending[name][0]
        content = await self._finds.ask(name)
        if content is None:
            return None
        try:
            answer = from_json(Answer, content)
        except ValueError:
            return None
        return answer if answer.name == name else None

    async def put(self, label: Label) -> None:
        """See `FeedbackStore`: one round trip for all labels that wait."""
        await self._puts.ask((label.answer.name, to_json(label)))

    async def _run(self) -> None:
        """Store answers as they come, and while Redis is away, try again."""
        is_known = False
        while True:
            await self._has_pending.wait()
            try:
                await self._store_answers()
            except Exception as error:
                if not is_known:
                    logger.warning("answers wait for the Redis of labels: %s", kind_of_fault(error))
                is_known = True
                await _disconnect(self._writer)
                await asyncio.sleep(_PAUSE_S)
            else:
                is_known = False

    async def _store_answers(self) -> None:
        while batch := dict(islice(self._pending.items(), _MAX_ANSWERS)):
            pipeline = self._writer.pipeline(transaction=False)
            for name, (_, content) in batch.items():
                pipeline.set(self._answer_key(name), content, ex=self._config.ttl_s)
            await within(self._config.timeout_s, pipeline.execute())
            for name, stored in batch.items():
                if self._pending.get(name) is stored:
                    del self._pending[name]
        self._has_pending.clear()

    async def _read(self, names: Sequence[str]) -> Sequence[bytes | None]:
        keys = [self._answer_key(name) for name in names]
        reply: Any = await self._exchange(self._reader, lambda: self._reader.mget(keys))
        if len(reply) != len(keys):
            raise StoreFailed("Redis: no sense in its reply")
        values: Sequence[bytes | None] = reply
        return values

    async def _write(self, labels: Sequence[tuple[str, bytes]]) -> Sequence[None]:
        if self._config.require_fsync:
            found = await self._exchange(self._labeller, self._settings_of_redis)
            if (fault := why_not_durable(found)) is not None:
                raise StoreFailed(f"{fault}, unless {_SETTING}=false")
        key = labels_key(self._config.namespace)
        items = [part for label in labels for part in label]  # of an answer the last one stays
        await self._exchange(self._labeller, lambda: self._labeller.hset(key, items=items))
        return [None] * len(labels)

    async def _settings_of_redis(self) -> dict[str, str]:
        pipeline = self._labeller.pipeline(transaction=False)
        pipeline.config_get("*append*")
        pipeline.config_get("maxmemory-policy")
        found: dict[str, str] = {}
        for part in await pipeline.execute():
            if not isinstance(part, dict):
                raise InvalidResponse("no settings")
            found |= part
        return found

    async def _exchange(self, client: Any, call: Callable[[], Awaitable[Reply]]) -> Reply:
        """What Redis replies in time.

        Raises:
            StoreFailed: it does not; says what is wrong with it.
        """
        try:
            return await within(self._config.timeout_s, call())
        except redis.exceptions.NoPermissionError:
            what = f"Redis: permission refused; CONFIG GET is needed unless {_SETTING}=false"
            raise StoreFailed(what) from None
        except (RedisError, OSError) as error:  # TimeoutError is an OSError
            await _disconnect(client)
            raise StoreFailed(f"Redis: {kind_of_fault(error)}") from None

    def _answer_key(self, name: str) -> str:
        return f"{self._config.namespace}:feedback:answer:{name}"


def labels_key(namespace: str) -> str:
    """Name of the hash of labels: name of the answer to the label as JSON."""
    return f"{namespace}:feedback:labels"


def why_not_durable(found: dict[str, str]) -> str | None:
    """What in the settings of a Redis lets go of a label that it has acknowledged, if anything."""
    for name, wanted in _DURABLE.items():
        if found.get(name) != wanted:
            return f"Redis must have {name} {wanted}"
    if found.get("maxmemory-policy", "").startswith("allkeys-"):
        return "Redis must not evict labels: maxmemory-policy noeviction or volatile-*"
    return None


def label_values(url: str, config: FeedbackConfig) -> Iterator[bytes]:
    """The labels in a Redis, in any order; one that is replaced meanwhile may come twice.

    Raises:
        StoreFailed: it does not give them.
    """
    tls: dict[str, Any] = {}
    if config.ca_file and url.startswith("rediss:"):
        tls["ssl_ca_certs"] = config.ca_file
    try:
        with redis.Redis.from_url(url, socket_timeout=_READ_TIMEOUT_S, **tls) as client:
            for _, value in client.hscan_iter(labels_key(config.namespace), count=1000):
                yield value
    except (RedisError, OSError, ValueError) as error:  # of the URL
        raise StoreFailed(f"Redis: {kind_of_fault(error)}") from None


async def _disconnect(client: Any) -> None:
    with suppress(RedisError, OSError):
        await client.aclose()
