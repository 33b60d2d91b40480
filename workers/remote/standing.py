"""One server of a model that another process holds, and its capabilities, tried out."""

import asyncio
import logging
import time
from typing import Any, Generic, Protocol, TypeVar

from models.errors import Overloaded
from workers.remote.client import Client, Pending, Refused, Unreachable
from workers.remote.refusals import Failed, Rejected

logger = logging.getLogger(__name__)

Known = TypeVar("Known")

# The longest wait of a trial whether a known server is the same, for which all its users wait. A
# first answer may be for a model that is loaded only then.
TRIAL_S = 20.0
# Seconds between trials whether a server is still the same.
_TRY_AGAIN_S = 60.0
# The watch waits for so long for a server that is being tried out.
_PATIENCE_S = 3.0


class Kind(Protocol[Known]):
    """Discovery of one kind of server. Raises what calls do, or `TimeoutError` if it hangs."""

    async def look_up(self, client: Client) -> Any:
        """The server's own description, by a call without cost; equal while it is the same."""

    async def try_out(self, client: Client, said: Any) -> Known:
        """Its identity and capabilities."""

    async def ask_again(self, client: Client, known: Known) -> Known | None:
        """Its known capabilities where they still hold; None where they do not."""


def is_old(tried_at: float) -> bool:
    """True where what was tried at this monotonic second is to be tried again."""
    return time.monotonic() - tried_at > _TRY_AGAIN_S


class ChangedModel(Exception):
    """A reply shows that the server's model is no longer the one that was called."""


class Server(Generic[Known]):
    """One server, as its latest trial showed it.

    A caller with reason to think that another one may answer there by now calls `doubt`, and
    waits by `settled` until it has been tried. While a known server hangs under trial, its known
    capabilities hold, and it is tried again every second.
    """

    def __init__(self, client: Client, kind: Kind[Known]) -> None:
        self.url = client.url
        self.client = client
        self.known: Known | None = None  # its capabilities by the latest trial
        self.trouble = ""  # what is wrong with it; "" where it is well, or was never checked
        self.num_failed = 0  # checks of it in a row
        self.look_at = 0.0  # monotonic second before which it is not checked again
        self.hangs = False  # its latest trial took too long
        self._kind = kind
        self._description: Any = None
        self._is_doubted = False
        self._tried_at = 0.0
        self._trial: asyncio.Task[None] | None = None
        self._failure: Exception | None = None

    @property
    def is_up(self) -> bool:
        """True where its latest check succeeded."""
        return not self.trouble

    async def check(self) -> None:
        """The liveness check of every second: raises while it is not there, or not tried out."""
        description = await self._kind.look_up(self.client)
        is_other, self._description = description != self._description, description
        is_sound = self.is_up and self._failure is None
        if (
            is_other
            or is_old(self._tried_at)
            or not is_sound
            or (self.hangs and not self._is_under_trial)
        ):
            self.doubt()
        if self.known is None or self._failure is not None:
            if self._trial is not None:
                await asyncio.wait([self._trial], timeout=_PATIENCE_S)
            self._outcome()

    def doubt(self) -> None:
        """Have it tried again: it may be another one by now."""
        self._is_doubted = True
        if not self._is_under_trial:
            self._trial = asyncio.create_task(self._try())

    async def settled(self) -> Known:
        """Its capabilities, once nobody doubts them.

        Raises:
            Unreachable, Refused: its trial failed.
        """
        while self._trial is not None and self._is_under_trial:
            if self.hangs and self.known is not None:
                break
            await asyncio.shield(self._trial)
        has_failed = isinstance(self._failure, Unreachable) and self.known is not None
        if has_failed and not self._is_under_trial:  # it may have passed by now
            self.doubt()
            await asyncio.shield(self._trial or asyncio.sleep(0))
        return self._outcome()

    async def close(self) -> None:
        """End what is under way, and its connections."""
        if self._trial is not None:
            self._trial.cancel()
            await asyncio.gather(self._trial, return_exceptions=True)
        await self.client.aclose()

    @property
    def _is_under_trial(self) -> bool:
        return self._trial is not None and not self._trial.done()

    def _outcome(self) -> Known:
        if self._failure is not None:
            raise self._failure
        if self.known is None:
            raise Pending("it is being tried out")
        return self.known

    async def _try(self) -> None:
        try:
            while self._is_doubted:
                self._is_doubted = False
                await self._try_once()
                self._tried_at = time.monotonic()
                self._failure, self.hangs = None, False
        except TimeoutError:
            self.hangs = True
            if self.known is None:
                self._failure = Unreachable(f"it answers no trial call within {TRIAL_S:g} s")
        except Overloaded as error:  # what is known of it holds
            self._tried_at, self.hangs = time.monotonic(), False
            self._failure = None if self.known else Unreachable(error.message)
        except (Unreachable, Refused) as error:
            self._failure = error
        except (Failed, Rejected) as error:
            self._failure = Unreachable(str(error) or type(error).__name__)
        except Exception as error:  # whatever a server says, its watch lives
            logger.exception("the server at %s cannot be tried out", self.url)
            self._failure = Unreachable(f"it cannot be tried out: {type(error).__name__}")

    async def _try_once(self) -> None:
        if self.known is not None:
            async with asyncio.timeout(TRIAL_S):
                same = await self._kind.ask_again(self.client, self.known)
            if same is not None:
                self.known = same
                return
            logger.warning("the server at %s is another one than before", self.url)
            self._description = await self._kind.look_up(self.client)
        self.known = await self._kind.try_out(self.client, self._description)
        logger.info("the server at %s has been found out", self.url)
