"""Servers that hold the same model: which one a call goes to, and what happens when it fails.

A call that has a key goes to `servers[hash(key) mod n]`, whose prefix cache knows its beginning;
one without goes where the fewest calls are under way. One that cannot be reached is left out until
it answers again.
"""

import asyncio
import hashlib
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import httpx

from models.errors import ModelNotLoaded
from workers.client import Client
from workers.config import Role, UpstreamConfig, api_key, variable
from workers.hooks import OnCall

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")

_CONNECT_S = 2.0
# A server that says nothing for so long has gone; ours sends a blank line more often.
_SILENCE_S = 20.0
# uvicorn, which vLLM and most others stand on, closes a connection that has rested for 5 s. Whoever
# keeps it for longer may use it just then. The watch has one in use all the time.
_KEEPALIVE_S = 4.0
_WATCH_S = 1.0
_WATCH_TIMEOUT_S = 5.0


class Unreachable(Exception):
    """A server did not answer, or not with an answer; the text says why, and quotes nothing."""


class Refused(Exception):
    """A server that will never answer this process, such as one that wants another key."""


@dataclass(eq=False, slots=True)
class Server:
    """One of the servers.

    Attributes:
        url: of it.
        client: keeps connections to it.
        is_up: whether it answered when it was last asked.
        num_calls: under way.
    """

    url: str
    client: Client
    is_up: bool = True
    num_calls: int = field(default=0)


class Upstream:
    """The servers of one role.

    Attributes:
        servers: all of them, in the order of the settings.

    Args:
        role: what they do.
        config: where they are.
        check: asks one server whether it is well; raises `Unreachable`, or `Refused`.
        on_call: told the outcome and the seconds of each call.
        silence_s: a server that says nothing for so long has gone.
    """

    def __init__(
        self,
        role: Role,
        config: UpstreamConfig,
        check: Callable[[Server], Awaitable[None]],
        *,
        on_call: OnCall,
        silence_s: float = _SILENCE_S,
    ) -> None:
        self.role = role
        self._check = check
        self._on_call = on_call
        self._closed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        timeout = httpx.Timeout(silence_s, connect=_CONNECT_S, pool=None)
        limits = httpx.Limits(
            max_connections=None,
            max_keepalive_connections=None,
            keepalive_expiry=_KEEPALIVE_S,
        )
        key = api_key(config, role)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        verify = _tls(config, role)
        self.servers: list[Server] = []
        for url in config.urls:
            client = Client(
                base_url=url, headers=headers, timeout=timeout, limits=limits, verify=verify
            )
            self.servers.append(Server(url, client))

    async def connect(self) -> None:
        """Wait until one of the servers answers."""
        told: dict[str, str] = {}
        while True:
            for server in self.servers:
                try:
                    await self._ask_whether_well(server)
                except (Unreachable, Refused) as error:
                    server.is_up = False
                    if told.get(server.url) != str(error):
                        told[server.url] = str(error)
                        logger.warning("waiting for %s at %s: %s", self.role, server.url, error)
                else:
                    server.is_up = True
            if any(server.is_up for server in self.servers):
                return
            await asyncio.sleep(_WATCH_S)

    async def run(self) -> None:
        """Ask all servers every second whether they are well, until closed.

        Several workers that share these servers may call it; the first one's task does the asking.
        """
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        await self._closed.wait()

    async def close(self) -> None:
        """End `run` and close all connections."""
        self._closed.set()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
            self._watching = None
        for server in self.servers:
            await server.client.aclose()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed.is_set()

    async def call(
        self,
        send: Callable[[Server], Awaitable[Reply]],
        *,
        key: str | None = None,
        may_repeat: Callable[[], bool] = lambda: True,
    ) -> Reply:
        """What a server answers.

        A server to which no connection can be made is passed over. A call that fails later is
        repeated once, by another server where there is one, if it may be.

        Args:
            send: asks one server; raises `Unreachable` or a transport error of httpx where it
                brings no answer.
            key: what the server is chosen by; None for the one with the fewest calls.
            may_repeat: asked after a failure.

        Raises:
            Unreachable: no server answered.
            Exception: whatever else `send` raises, which is an answer.
        """
        failure: Exception = Unreachable("there is no server")
        num_failed = 0
        servers = self._order(key)
        # Once more to the first: it may have closed a connection that it kept for too long.
        tries = (*servers, servers[0])
        for num_tried, server in enumerate(tries, 1):
            began_at = time.monotonic()
            server.num_calls += 1
            try:
                reply = await send(server)
            except (Unreachable, httpx.TransportError) as error:
                failure = error
                self._mark(server, False, _reason(error))
                never_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                num_failed += not never_sent
                is_last = num_tried == len(tries) or num_failed > 1 or not may_repeat()
                self._on_call(self.role, "failed" if is_last else "repeated", _since(began_at))
                if is_last:
                    break
            except Exception:
                self._on_call(self.role, "answered", _since(began_at))
                raise
            else:
                self._on_call(self.role, "answered", _since(began_at))
                return reply
            finally:
                server.num_calls -= 1
        raise Unreachable(_reason(failure)) from failure

    def _order(self, key: str | None) -> Sequence[Server]:
        """Whom to ask first, second …: those that are up before those that were down."""
        if key is None:
            chosen = sorted(self.servers, key=lambda server: server.num_calls)
        else:
            start = place_of(key, len(self.servers))
            chosen = [*self.servers[start:], *self.servers[:start]]
        return sorted(chosen, key=lambda server: not server.is_up)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_S)
            await asyncio.gather(*(self._look_at(server) for server in self.servers))

    async def _look_at(self, server: Server) -> None:
        try:
            await self._ask_whether_well(server)
        except (Unreachable, Refused) as error:
            self._mark(server, False, str(error))
        except Exception:  # the watch must outlive whatever a server says
            logger.exception("%s at %s cannot be checked", self.role, server.url)
        else:
            self._mark(server, True, "")

    async def _ask_whether_well(self, server: Server) -> None:
        try:
            async with asyncio.timeout(_WATCH_TIMEOUT_S):
                await self._check(server)
        except TimeoutError:
            raise Unreachable("it does not answer") from None
        except httpx.TransportError as error:
            raise Unreachable(_reason(error)) from None

    def _mark(self, server: Server, is_up: bool, reason: str) -> None:
        if server.is_up and not is_up:
            logger.warning("%s at %s is left out: %s", self.role, server.url, reason)
        elif is_up and not server.is_up:
            logger.info("%s at %s is back", self.role, server.url)
        server.is_up = is_up


def place_of(key: str, num_servers: int) -> int:
    """Which of the servers a key belongs to; the same in every process."""
    return int(session_of(key), 16) % num_servers


def session_of(key: str) -> str:
    """A hash for routers in between, so that they, too, send equal keys to one server."""
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def _reason(error: Exception) -> str:
    """What happened, without what was said."""
    return str(error) if isinstance(error, Unreachable) else type(error).__name__


def _since(began_at: float) -> float:
    return time.monotonic() - began_at


def _tls(config: UpstreamConfig, role: Role) -> ssl.SSLContext:
    """What decides whom this process believes, and what it shows.

    Raises:
        ModelNotLoaded: a file cannot be read, or is of another kind.
    """
    setting = "tls_ca_file"
    try:
        context = ssl.create_default_context(cafile=config.tls_ca_file or None)
        if config.tls_cert_file:
            setting = "tls_cert_file"
            context.load_cert_chain(config.tls_cert_file, config.tls_key_file or None)
    except OSError as error:  # ssl.SSLError is one
        reason = f"cannot be used: {type(error).__name__}"
        raise ModelNotLoaded(f"{variable(f'{role}.{setting}')} {reason}") from None
    return context
