"""Calls of one server for one request: its deadline, its model's name, what they showed."""

from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

import httpx

from workers.asking import Rejected, post_for_events, post_json
from workers.upstream import Unreachable


class Calls:
    """What one request asks one server.

    Attributes:
        system_fingerprints: that replies carried.

    Args:
        client: of the server.
        model: its name there.
        until: monotonic second of the request's deadline; None where there is none.
        on_open: told where a new connection was needed: another one may answer there by now.
        headers: of every call.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        model: str,
        until: float | None = None,
        *,
        on_open: Callable[[], None] = lambda: None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.system_fingerprints: set[str] = set()
        self._client = client
        self._model = model
        self._until = until
        self._on_open = on_open
        self._headers = headers

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """See `workers.asking.post_json`."""
        reply = await post_json(
            self._client,
            path,
            self._named(body),
            until=self._until,
            on_open=self._on_open,
            headers=self._headers,
        )
        self._look_at(reply)
        return reply

    async def post_for_events(
        self, path: str, body: Mapping[str, Any], on_event: Callable[[Any], None]
    ) -> list[Any]:
        """All events of a stream, each told as it comes; see `workers.asking.post_for_events`."""
        events = []
        asked = self._named({**body, "stream": True, "stream_options": {"include_usage": True}})
        found = post_for_events(
            self._client,
            path,
            asked,
            until=self._until,
            on_open=self._on_open,
            headers=self._headers,
        )
        async with aclosing(found):
            async for event in found:
                if not isinstance(event, Mapping) or "error" in event:
                    raise Unreachable("its stream ends in an error")
                self._look_at(event)
                events.append(event)
                on_event(event)
        return events

    async def try_post(self, path: str, body: Mapping[str, Any]) -> Any:
        """What a POST answers; None where the server does not take such a body."""
        try:
            return await self.post(path, body)
        except Rejected:
            return None

    def _named(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"model": self._model, **body}

    def _look_at(self, reply: Any) -> None:
        told = reply.get("system_fingerprint") if isinstance(reply, Mapping) else None
        if isinstance(told, str) and told:
            self.system_fingerprints.add(told)
