"""Requests that come again, byte for byte, while the cache still holds their answers.

Such a response differs from the one before in its id and its time alone, so that the body is not
read again, and nothing is planned, scored or described anew.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fastapi import Request, Response

from app.http.json_calls import json_response
from app.http.service import Service
from app.scoring.ask import PARTS, current_caller
from app.scoring.memory import seal
from app.scoring.result import Result

Body = TypeVar("Body")

_NUM_KEPT = 256
# Of a request, and of an entry of the cache.
_MAX_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class Seen:
    """A request by its hash, from which its text cannot be read."""

    key: tuple[Any, ...] = ()  # path, namespace and modes of the caller, and hash of the body
    standing: tuple[Any, ...] = ()  # that of the scorer when the request came
    response: Response | None = None  # None where the request has to be answered anew


@dataclass(frozen=True, slots=True)
class _Kept:
    standing: tuple[Any, ...]
    result: Result
    entry: bytes
    body: Any
    renew: Callable[[Any, Result, str], None]


class Repeats:
    """The latest responses from the cache, by the requests that they answered."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._kept: dict[tuple[Any, ...], _Kept] = {}

    async def seen(self, request: Request) -> Seen:
        """The request, with its response where an equal one came before and nothing has changed."""
        content, scorer = request.state.body, self._service.scorer
        reads_texts = self._service.reads_texts
        if scorer is None or scorer.memory is None or reads_texts or len(content) > _MAX_BYTES:
            return Seen()
        caller, path = current_caller.get(), request.scope["path"]
        key = path, caller.namespace, caller.modes, hashlib.blake2b(content).digest()
        standing = scorer.standing()
        kept, request_id = self._kept.get(key), request.state.request_id
        if kept is None or kept.standing != standing:
            return Seen(key, standing)
        result = await self._service.again(kept.result, kept.entry, request_id)
        if result is None:
            return Seen(key, standing)
        kept.renew(kept.body, result, request_id)
        return Seen(key, standing, json_response(kept.body))

    def keep(
        self, seen: Seen, result: Result, body: Body, renew: Callable[[Body, Result, str], None]
    ) -> Body:
        """The body, kept where an equal request can be answered with it.

        It is that of the result, and is written before anything else runs; `renew` writes into it
        the fields that differ each time.
        """
        payload, ask = result.evidence.payload, result.ask
        is_alone = result.source == "cache" and ask.units not in PARTS
        # Each call of a tool has a new id.
        if seen.key and is_alone and not ask.tools and payload and len(payload) <= _MAX_BYTES:
            kept = replace(result, plan=replace(result.plan, ask=ask.without_texts()))
            entry = seal(result.name, payload)
            self._kept[seen.key] = _Kept(seen.standing, kept, entry, body, renew)
            if len(self._kept) > _NUM_KEPT:
                del self._kept[next(iter(self._kept))]
        return body
