"""Calls of one server of the language model, in its own dialect."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import MappingProxyType
from typing import Any

import httpx

from workers.calls import Calls, Denied, Failed, Rejected
from workers.client import Client
from workers.openai.found import OpenAIServer
from workers.openai.replies import Choice, read_choices
from workers.openai.requests import Prompt, completion

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class ModelCalls(Calls):
    """Calls whose bodies are spoken as the server takes them; what it refuses teaches how.

    Attributes:
        can: what the server can do.

    Args:
        client: of the server.
        can: see above.
        **options: see `Calls`.
    """

    def __init__(self, client: Client, can: OpenAIServer, **options: Any) -> None:
        super().__init__(client, can.model_id, **options)
        self.can = can

    async def complete(
        self, prompt: Prompt, num: int = 1, further: Mapping[str, Any] = _NOTHING, **asked: Any
    ) -> list[Choice]:
        """So many choices of a reply to what `completion` asks, and to `further` parameters."""
        body = {**completion(self.can, prompt, **asked), **further}
        return read_choices(await self.post(prompt.path, body), num)

    async def try_complete(
        self, prompt: Prompt, further: Mapping[str, Any] = _NOTHING, **asked: Any
    ) -> list[Choice]:
        """The one choice of such a reply; none where the server takes no such body, or fails."""
        with suppress(Rejected, Failed):
            body = {**completion(self.can, prompt, **asked), **further}
            return read_choices(await self.post(prompt.path, body, may_be_rejected=True), 1)
        return []

    async def get(self, path: str) -> Any:
        return await super().get(self._at(path))

    @asynccontextmanager
    async def _posted(
        self, path: str, body: Mapping[str, Any], *, may_be_rejected: bool = False
    ) -> AsyncIterator[httpx.Response]:
        """The response once the server is spoken to as it wants; raises its first refusal."""
        dialect = at_first = self.can.tongue.dialect
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
                dialect = self.can.tongue.dialect  # others may have learnt something meanwhile
            self.can.tongue.dialect = dialect.after(body)
            yield response

    def _at(self, path: str) -> str:
        if path.startswith("/v1/"):
            return self.can.tongue.dialect.prefix + path.removeprefix("/v1")
        return path
