"""What is known of servers that nobody here wrote, as they were tried out; whether it holds."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import httpx

from workers.calls import Failed, Hung, Rejected
from workers.client import Client, Pending, Refused, Unreachable
from workers.config import Role, Servers
from workers.hooks import Hooks
from workers.remote_worker import RemoteWorker
from workers.upstream import Server, Upstream

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")

# Seconds after which a server is asked again whether it is still the same.
_ASK_AGAIN_S = 60.0
# The watch waits for so long for a server that is being tried out.
_PATIENCE_S = 3.0


class Identified(Protocol):
    """What a server was found to be."""

    @property
    def identity(self) -> str:
        """Digest of all that decides its answers, as far as it can be known from outside."""


Tried = TypeVar("Tried", bound=Identified)


class Trial(Protocol[Tried]):
    """How one kind of server is tried out. Raises `Unreachable` and `Refused`, or what calls do."""

    async def look_up(self, client: Client) -> Mapping[str, Any]:
        """What a server says it is, in a call that costs it nothing; equal while it is the same."""

    async def try_out(self, client: Client, said: Mapping[str, Any]) -> Tried:
        """What it is and can, by what it does."""

    async def ask_again(self, client: Client, known: Tried) -> Tried | None:
        """What is known of it, where it still does the same; None where it does not."""


class ChangedModel(Exception):
    """A reply shows that the server's model is no longer the one that was asked."""


class TriedWorker(RemoteWorker[Tried]):
    """A worker over servers that are tried out before they are first asked.

    Args:
        role: what the servers do.
        servers: where they are.
        trial: how they are tried out.
        hooks: what it is tied to.
        asked: what one of them is called in messages.
        **options: see `Upstream`.
    """

    def __init__(
        self,
        role: Role,
        servers: Servers,
        trial: Trial[Tried],
        hooks: Hooks,
        asked: str,
        **options: Any,
    ) -> None:
        found = role, servers, self._check, hooks
        upstream = Upstream[Tried](*found, on_leave=self._leave, backs_off=True, **options)
        super().__init__(upstream, asked)
        self._tried_by = trial
        self._standings: dict[Server[Tried], Standing[Tried]] = {}

    async def _check(self, server: Server[Tried]) -> None:
        await self._standing(server).check()

    def _standing(self, server: Server[Tried]) -> "Standing[Tried]":
        if server not in self._standings:
            self._standings[server] = Standing(server, self._tried_by)
        return self._standings[server]

    async def _leave(self, server: Server[Tried]) -> None:
        """End a trial of it that is under way."""
        if (standing := self._standings.pop(server, None)) is not None:
            await standing.close()

    async def _unchanged(
        self,
        server: Server[Tried],
        ask: Callable[["Standing[Tried]", Tried], Awaitable[Reply]],
        may_repeat: Callable[[], bool] = lambda: True,
    ) -> Reply:
        """What one server answers, while it is the same from beginning to end.

        Where it became another one it is asked once more.

        Args:
            server: that is asked.
            ask: asks it; may raise `ChangedModel`.
            may_repeat: asked where the server has changed.

        Raises:
            GenerationUnavailable, SimilarityUnavailable: it has changed again, or has been listened
                to already.
        """
        standing = self._standing(server)
        for _ in range(2):
            known = await standing.settled()
            try:
                reply = await ask(standing, known)
                if (await standing.settled()).identity == known.identity:
                    return reply
            except ChangedModel:
                standing.doubt()
            if not may_repeat():
                break
        raise self._unavailable("the server's model changed while it answered; repeat the request")


class Standing(Generic[Tried]):
    """One server, as it was last tried out, which its `known` says.

    Whoever has reason to think that another one may answer there by now says so by `doubt`, and
    waits by `settled` until it has been asked. While a server that is known hangs when it is asked,
    what is known of it holds, and it is asked again every second.
    """

    def __init__(self, server: Server[Tried], trial: Trial[Tried]) -> None:
        self._server = server
        self._trial = trial
        self._said: Mapping[str, Any] = {}
        self._num_doubts = 0
        self._num_settled = 0
        self._asked_at = 0.0
        self._asking: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._hangs = False
        self._learning = asyncio.Lock()

    async def check(self) -> None:
        """What `Upstream` asks every second: whether it is there, and has been tried out.

        Raises:
            Unreachable, Refused: it is not, or has not.
        """
        said = await self._trial.look_up(self._server.client)
        is_other = said != self._said
        is_old = time.monotonic() - self._asked_at > _ASK_AGAIN_S
        self._said = said
        is_sound = self._server.is_up and self._failure is None
        if is_other or is_old or not is_sound or (self._hangs and not self._is_asking):
            self.doubt()
        if self._server.known is None or self._failure is not None:
            if self._asking is not None:
                await asyncio.wait([self._asking], timeout=_PATIENCE_S)
            self._tried()

    def doubt(self) -> None:
        """From now on nobody knows whether it is still the same."""
        self._num_doubts += 1
        if not self._is_asking:
            self._asking = asyncio.create_task(self._ask())

    async def settled(self) -> Tried:
        """What it is, once nobody doubts it.

        Raises:
            Unreachable, Refused: it could not be asked.
        """
        while self._asking is not None and self._is_asking:
            if self._hangs and self._server.known is not None:
                break
            await asyncio.shield(self._asking)
        has_failed = isinstance(self._failure, Unreachable) and self._server.known is not None
        if has_failed and not self._is_asking:  # it may have passed by now
            self.doubt()
            await asyncio.shield(self._asking or asyncio.sleep(0))
        return self._tried()

    async def extended(self, extend: Callable[[Tried], Awaitable[Tried]]) -> Tried:
        """What it is, with more that one request needs to be known, and others will not ask."""
        async with self._learning:
            self._server.known = known = await extend(self._tried())
            return known

    async def close(self) -> None:
        """End what is under way."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    @property
    def _is_asking(self) -> bool:
        return self._asking is not None and not self._asking.done()

    def _tried(self) -> Tried:
        if self._failure is not None:
            raise self._failure
        if self._server.known is None:
            raise Pending("it is being tried out")
        return self._server.known

    async def _ask(self) -> None:
        try:
            while self._num_settled != self._num_doubts:
                num_doubts = self._num_doubts
                async with self._learning:
                    await self._ask_once()
                self._asked_at = time.monotonic()
                self._num_settled, self._failure, self._hangs = num_doubts, None, False
        except Hung as error:
            self._hangs = True
            if self._server.known is None:
                self._failure = error
        except (Unreachable, Refused) as error:
            self._failure = error
        except (Failed, Rejected, httpx.TransportError) as error:
            self._failure = Unreachable(str(error) or type(error).__name__)
        except Exception as error:  # whatever a server says, its watch lives
            logger.exception("the server at %s cannot be tried out", self._server.url)
            self._failure = Unreachable(f"it cannot be tried out: {type(error).__name__}")

    async def _ask_once(self) -> None:
        server = self._server
        if server.known is not None:
            if (same := await self._trial.ask_again(server.client, server.known)) is not None:
                server.known = same
                return
            logger.warning("the server at %s is another one than before", server.url)
            self._said = await self._trial.look_up(server.client)
        server.known = await self._trial.try_out(server.client, self._said)
        logger.info("the server at %s has been tried out", server.url)
