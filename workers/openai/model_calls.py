"""Calls of one server of the language model, in its own dialect."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from workers.calls import Calls, Denied, Rejected
from workers.client import MAX_REPLY_BYTES, Client
from workers.openai.dialect import Dialect

Reply = TypeVar("Reply")


class Tongue:
    """The dialect of one server, which all its calls share.

    Attributes:
        dialect: as far as it is known by now.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def draws_at_most(self, num: int) -> None:
        """Remember that one call draws no more samples than these."""
        most = self.dialect.most_samples or num
        self.dialect = replace(self.dialect, most_samples=min(most, num))


class ModelCalls(Calls):
    """Calls whose bodies are spoken as the server takes them; what it refuses teaches how.

    Attributes:
        tongue: of the server.

    Args:
        client: of the server.
        model: its name there.
        tongue: that its calls share.
        **options: see `Calls`.
    """

    def __init__(self, client: Client, model: str, tongue: Tongue, **options: Any) -> None:
        super().__init__(client, model, **options)
        self.tongue = tongue

    async def get(self, path: str) -> Any:
        return await super().get(self._at(path))

    async def post_for_events(
        self, path: str, body: Mapping[str, Any], on_event: Callable[[Any], None], max_bytes: int
    ) -> list[Any]:
        send = super().post_for_events

        async def stream(spoken: Mapping[str, Any]) -> list[Any]:
            return await send(self._at(path), spoken, on_event, max_bytes)

        return await self._understood(body, stream)

    async def _post(
        self,
        path: str,
        body: Mapping[str, Any],
        max_bytes: int = MAX_REPLY_BYTES,
        *,
        may_be_rejected: bool = False,
    ) -> Any:
        send = super()._post

        async def post(spoken: Mapping[str, Any]) -> Any:
            return await send(self._at(path), spoken, max_bytes, may_be_rejected=may_be_rejected)

        return await self._understood(body, post)

    async def _understood(
        self, body: Mapping[str, Any], send: Callable[[Mapping[str, Any]], Awaitable[Reply]]
    ) -> Reply:
        """What the server answers, once it is spoken to as it wants; else its first refusal."""
        dialect = at_first = self.tongue.dialect
        first: Exception | None = None
        while True:
            try:
                reply = await send(dialect.spoken(body))
            except (Rejected, Denied) as refusal:
                first = first or refusal
                rejected = refusal if isinstance(refusal, Rejected) else Rejected(403, "")
                if (taught := dialect.taught(rejected, body)) is None:
                    raise first from None
                dialect = taught
            else:
                if dialect is at_first:
                    dialect = self.tongue.dialect  # others may have learnt something meanwhile
                self.tongue.dialect = dialect.after(body)
                return reply

    def _at(self, path: str) -> str:
        if path.startswith("/v1/"):
            return self.tongue.dialect.prefix + path.removeprefix("/v1")
        return path
