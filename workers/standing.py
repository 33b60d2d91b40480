"""What is known of one server, and whether that still holds."""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

import httpx

from workers.asking import Failed, Rejected
from workers.upstream import Refused, Server, Unreachable

logger = logging.getLogger(__name__)

Tried = TypeVar("Tried")

# Seconds after which a server is asked again whether it is still the same.
_ASK_AGAIN_S = 60.0


class Trial(Protocol[Tried]):
    """How one kind of server is tried out. Raises `Unreachable` and `Refused`, or what calls do."""

    async def look_up(self, client: httpx.AsyncClient) -> Mapping[str, Any]:
        """What a server says it is, in a call that costs it nothing; equal while it is the same."""

    async def try_out(self, client: httpx.AsyncClient, said: Mapping[str, Any]) -> Tried:
        """What it is and can, by what it does."""

    async def ask_again(self, client: httpx.AsyncClient, known: Tried) -> Tried | None:
        """What is known of it, where it still does the same; None where it does not."""


class Standing(Generic[Tried]):
    """One server, as it was last tried out.

    Whoever has reason to think that another one may answer there by now says so by `doubt`, and
    waits by `settled` until it has been asked.

    Attributes:
        tried: None until it has been tried out.
    """

    def __init__(self, server: Server, trial: Trial[Tried]) -> None:
        self.tried: Tried | None = None
        self._server = server
        self._trial = trial
        self._said: Mapping[str, Any] = {}
        self._num_doubts = 0
        self._num_settled = 0
        self._asked_at = 0.0
        self._asking: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    async def check(self) -> None:
        """What `Upstream` asks every second: whether it is there, and has been tried out.

        Raises:
            Unreachable, Refused: it is not, or has not.
        """
        said = await self._trial.look_up(self._server.client)
        is_other = said != self._said
        is_old = time.monotonic() - self._asked_at > _ASK_AGAIN_S
        self._said = said
        if is_other or is_old or not self._server.is_up or self._failure is not None:
            self.doubt()
        if self.tried is None or self._failure is not None:
            if self._asking is not None:
                await asyncio.wait([self._asking], timeout=3.0)
            self._check_failure()
            if self.tried is None:
                raise Unreachable("it is being tried out")

    def doubt(self) -> None:
        """From now on nobody knows whether it is still the same."""
        self._num_doubts += 1
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())

    async def settled(self) -> Tried:
        """What it is, once nobody doubts it.

        Raises:
            Unreachable, Refused: it could not be asked.
        """
        while self._asking is not None and not self._asking.done():
            await asyncio.shield(self._asking)
        self._check_failure()
        if self.tried is None:
            raise Unreachable("it has not been tried out")
        return self.tried

    async def close(self) -> None:
        """End what is under way."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)

    async def _ask(self) -> None:
        try:
            while self._num_settled != self._num_doubts:
                num_doubts = self._num_doubts
                await self._ask_once()
                self._asked_at = time.monotonic()
                self._num_settled, self._failure = num_doubts, None
        except (Unreachable, Refused) as error:
            self._failure = error
        except (Failed, Rejected, httpx.TransportError) as error:
            self._failure = Unreachable(str(error) or type(error).__name__)
        except Exception as error:  # whatever a server says, its watch lives
            logger.exception("the server at %s cannot be tried out", self._server.url)
            self._failure = Unreachable(f"it cannot be tried out: {type(error).__name__}")

    async def _ask_once(self) -> None:
        client, known = self._server.client, self.tried
        if known is not None:
            if (same := await self._trial.ask_again(client, known)) is not None:
                self.tried = same
                return
            logger.warning("the server at %s is another one than before", self._server.url)
            self._said = await self._trial.look_up(client)
        self.tried = await self._trial.try_out(client, self._said)
        logger.info("the server at %s has been tried out", self._server.url)

    def _check_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
