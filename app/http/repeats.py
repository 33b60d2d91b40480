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
    """A request, by its hash: nobody can read it of what is kept.

    Attributes:
        key: where it was sent, by whom, and what it said.
        standing: of the scorer when it came.
        response: to it; None where that is to be found out.
    """

    key: tuple[Any, ...] = ()
    standing: tuple[Any, ...] = ()
    response: Response | None = None


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
        """A request, with the response where it has come before and nothing has changed since."""
        content, scorer = request.state.body, self._service.scorer
        tracing = self._service.tracing
        tells_texts = tracing is not None and tracing.tells_contents
        if scorer is None or scorer.memory is None or tells_texts or len(content) > _MAX_BYTES:
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
        """The body, which is kept where the same request would be answered by it.

        It tells the result, and is written before anything else runs; `renew` writes into it what
        differs each time.
        """
        payload, ask = result.evidence.payload, result.ask
        is_alone = result.source == "cache" and result.escalation is None and ask.units not in PARTS
        # Each call of a tool has an id of its own.
        if seen.key and is_alone and not ask.tools and payload and len(payload) <= _MAX_BYTES:
            told = replace(result, plan=replace(result.plan, ask=ask.without_texts()))
            entry = seal(result.name, payload)
            self._kept[seen.key] = _Kept(seen.standing, told, entry, body, renew)
            if len(self._kept) > _NUM_KEPT:
                del self._kept[next(iter(self._kept))]
        return body
