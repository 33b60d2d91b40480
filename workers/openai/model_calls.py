"""Calls of one server of the language model, in its own dialect."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx

from workers.calls import Calls, Denied, Rejected
from workers.client import Client
from workers.openai.dialect import Dialect


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

    @asynccontextmanager
    async def _posted(
        self, path: str, body: Mapping[str, Any], *, may_be_rejected: bool = False
    ) -> AsyncIterator[httpx.Response]:
        """The response once the server is spoken to as it wants; raises its first refusal."""
        dialect = at_first = self.tongue.dialect
        first: Exception | None = None
        async with AsyncExitStack() as stack:
            while True:
                spoken = dialect.spoken(body)
                posted = super()._posted(self._at(path), spoken, may_be_rejected=may_be_rejected)
                try:
                    response = await stack.enter_async_context(posted)
                    break
                except (Rejected, Denied) as refusal:
                    first = first or refusal
                    rejected = refusal if isinstance(refusal, Rejected) else Rejected(403, "")
                    if (taught := dialect.taught(rejected, body)) is None:
                        raise first from None
                    dialect = taught
            if dialect is at_first:
                dialect = self.tongue.dialect  # others may have learnt something meanwhile
            self.tongue.dialect = dialect.after(body)
            yield response

    def _at(self, path: str) -> str:
        if path.startswith("/v1/"):
            return self.tongue.dialect.prefix + path.removeprefix("/v1")
        return path
