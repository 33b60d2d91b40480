"""Servers that hold the same model: the choice of one for a call, and their liveness checks.

A call that has a key goes where the hash of key and url is least (rendezvous hashing), to a server
whose prefix cache knows its beginning: while servers come and go, only the keys of these move. One
without goes where the fewest calls are under way. A server that cannot be reached is left out until
it answers again. `workers.retries` says what is tried again, and where.
"""

import asyncio
import hashlib
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Generic, Literal, TypeVar

import httpx
import orjson

from models import errors
from models.records import GenerationRequest
from workers.client import NO_ANSWER, POOL_S, Client, Pending, Refused, Unreachable, reason_of
from workers.config import Role, Servers, api_keys, tls_context
from workers.hooks import Hooks, Outcome
from workers.retries import Tried, of_one_model, of_some_server
from workers.standing import ChangedModel, Kind, Known, Server

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")
# The addresses of a host, which raises OSError where it has none.
Resolve = Callable[[str], Awaitable[list[str]]]
# The owner of the servers, which decides how often they are checked: ours, somebody's, or one whose
# calls cost money.
Whose = Literal["ours", "others", "hosted"]

_CONNECT_S = 2.0
# A server that sends nothing for so long has gone; ours sends a blank line more often.
_SILENCE_S = 20.0
_WATCH_S = 1.0
_WATCH_TIMEOUT_S = 5.0
# The longest pause between two checks of a server that fails or refuses, or whose calls cost money.
_MOST_PAUSE_S = 60.0
# The time that a cluster's DNS lets an answer be kept.
_RESOLVE_S = 5.0
_MODELS = {"generation": "language model", "similarity": "similarity model"}
_UNAVAILABLE: dict[Role, type[errors.CocoaError]] = {
    "generation": errors.GenerationUnavailable,
    "similarity": errors.SimilarityUnavailable,
}


class Upstream(Generic[Known]):
    """The servers of one role.

    Where replicas stand behind each (`is_routed`), one failed call says nothing of it. Headers and
    params go with each call, the key among them; where there are no headers, the key alone does.
    `resolve` finds the servers behind each url's name, None where a url is one server.
    """

    def __init__(
        self,
        role: Role,
        config: Servers,
        kind: Kind[Known],
        hooks: Hooks,
        *,
        whose: Whose = "ours",
        is_routed: bool = False,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        self.role = role
        self._kind = kind
        self._on_call, self._on_server = hooks.on_call, hooks.on_server
        self._whose, self._is_routed = whose, is_routed
        self._name = f"{role} worker" if whose == "ours" else f"server of the {_MODELS[role]}"
        self._urls = config.urls
        self._resolve = resolve
        self._resolved_at = -_RESOLVE_S
        self._closed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        timeout = httpx.Timeout(_SILENCE_S, connect=_CONNECT_S, pool=POOL_S)
        fixed = dict(headers or {})
        if headers is None and (keys := api_keys(config, role)):
            fixed = {"Authorization": f"Bearer {keys[0]}"}
        tls = tls_context(config, role)
        self._client = partial(Client, headers=fixed, timeout=timeout, verify=tls, params=params)
        self.servers: list[Server[Known]] = []
        if resolve is None:
            self.servers = [Server(self._client(url), kind) for url in config.urls]

    @property
    def known(self) -> Known:
        """Capabilities of the first server that is up; raises `NotReady` before one answered."""
        for server in sorted(self.servers, key=lambda server: not server.is_up):
            if server.known is not None:
                return server.known
        raise errors.NotReady(f"no {self._name} has answered")

    async def connect(self) -> None:
        """Wait until one of the servers answers."""
        while True:
            await self.follow_names()
            await self._check_due()
            if any(server.is_up and server.look_at for server in self.servers):
                return
            await asyncio.sleep(_WATCH_S)

    async def run(self) -> None:
        """Check all servers every second, until closed.

        Several workers that share these servers may call it; the first one's task does the checks.
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
        await self._let_go(self.servers)

    async def call(
        self,
        send: Callable[[Server[Known]], Awaitable[Reply]],
        *,
        key: str | None = None,
        may_repeat: Callable[[], bool] = lambda: True,
    ) -> Reply:
        """The reply of a server.

        The server is chosen by a key; None for the one with the fewest calls. For failures
        and what may be repeated see `workers.retries.of_some_server`.

        Raises:
            GenerationUnavailable, SimilarityUnavailable: no server answered.
            Exception: whatever else `send` raises, which is an answer.
        """
        self.check_open()
        try:
            return await of_some_server(self._order(key), send, may_repeat, self._on_try)
        except NO_ANSWER as error:
            self.check_open()
            message = f"no {self._name} has answered: {reason_of(error)}"
            raise _UNAVAILABLE[self.role](message) from error

    def check_open(self) -> None:
        """Refuse a call once this is closed, with `NotReady`."""
        if self._closed.is_set():
            raise errors.NotReady(f"the {_MODELS[self.role]} has stopped")

    def _on_try(self, server: Server[Known], outcome: Outcome, took_s: float, lost: str) -> None:
        if lost and not self._is_routed:
            self._mark(server, lost)
        self._on_call(self.role, outcome, took_s)

    def _order(self, key: str | None) -> list[Server[Known]]:
        """The servers in the order of calls: those that are up before those that were down."""
        if key is None:
            return sorted(self.servers, key=lambda server: (not server.is_up, server.num_calls))
        return sorted(
            self.servers, key=lambda server: (not server.is_up, session_of(key + server.url))
        )

    async def follow_names(self) -> None:
        """Add servers that are new behind the names, and drop those that are gone.

        A name without an address changes nothing: its servers, if they are gone, do not answer.
        """
        if self._resolve is None or time.monotonic() - self._resolved_at < _RESOLVE_S:
            return
        self._resolved_at = time.monotonic()
        present, resolved = {server.url for server in self.servers}, set[str]()
        for named in self._urls:
            urls = set(await urls_of(named, self._resolve))
            for url in sorted(urls - present):
                server = Server(self._client(url, named), self._kind)
                server.trouble = "it has not been looked at"
                self.servers.append(server)
            resolved |= urls
        if not resolved:
            logger.warning("%s: no address is known of %s", self.role, ", ".join(self._urls))
            return
        idle = [server for server in self.servers if not server.num_calls]
        gone = [server for server in idle if server.url not in resolved]
        self.servers = [server for server in self.servers if server not in gone]
        await self._let_go(gone)

    async def _let_go(self, servers: Sequence[Server[Known]]) -> None:
        for server in servers:
            self._on_server(self.role, server.url, None)
            await server.close()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_S)
            try:
                await self.follow_names()
            except Exception:  # those that are known are watched all the same
                logger.exception("%s: names of servers cannot be looked up", self.role)
            await self._check_due()

    async def _check_due(self) -> None:
        due = [server for server in self.servers if time.monotonic() >= server.look_at]
        await asyncio.gather(*map(self.check, due))

    async def check(self, server: Server[Known]) -> None:
        """Check a server, leave it out or take it back by that, and set its next check."""
        failure: Exception | None = None
        try:
            async with asyncio.timeout(_WATCH_TIMEOUT_S):
                await server.check()
        except TimeoutError:
            failure = Unreachable("it does not answer")
        except NO_ANSWER as error:
            failure = error
        except Exception:  # the watch must outlive whatever a server says
            logger.exception("%s at %s cannot be checked", self.role, server.url)
            return
        server.num_failed = 0 if failure is None else server.num_failed + 1
        server.look_at = time.monotonic() + self._pause_s(failure, server)
        self._mark(server, "" if failure is None else reason_of(failure))

    def _pause_s(self, failure: Exception | None, server: Server[Known]) -> float:
        """Seconds before a server is checked again; 0 for the next check of all of them."""
        is_hosted = self._whose == "hosted"
        if failure is None and is_hosted:
            return _MOST_PAUSE_S
        if failure is None or isinstance(failure, Pending) or self._whose == "ours":
            return 0.0
        if isinstance(failure, Refused):  # until somebody changes something
            return _MOST_PAUSE_S
        if server.known is not None and not is_hosted:
            return 0.0
        most_s = _MOST_PAUSE_S
        if isinstance(failure, httpx.TransportError):  # nobody is disturbed
            most_s = _RESOLVE_S
        return min(_WATCH_S * 2.0 ** min(server.num_failed - 1, 8), most_s)

    def _mark(self, server: Server[Known], trouble: str) -> None:
        if trouble and trouble != server.trouble:
            logger.warning("%s at %s is left out: %s", self.role, server.url, trouble)
        elif not trouble and not server.is_up:
            logger.info("%s at %s is back", self.role, server.url)
        server.trouble = trouble
        self._on_server(self.role, server.url, trouble)


class RemoteWorker(Generic[Known]):
    """A worker whose model is held by servers; to be connected before anything else.

    Attributes:
        upstream: the servers.
        busy_since: None, since nothing blocks here.
        num_waiting: 0, since a server's own metrics show what waits in it.
    """

    busy_since: float | None = None
    num_waiting: int = 0

    def __init__(self, upstream: Upstream[Known]) -> None:
        self.upstream = upstream

    async def run(self) -> None:
        """Watch the servers until closed."""
        await self.upstream.run()

    async def warm_up(self) -> None:
        """Nothing: the servers have warmed up by themselves, or by being tried out."""

    async def close(self) -> None:
        """End `run` and all connections."""
        await self.upstream.close()

    async def _unchanged(
        self: "RemoteWorker[Tried]",
        ask: Callable[[Server[Tried], Tried], Awaitable[Reply]],
        *,
        key: str | None = None,
        may_repeat: Callable[[], bool] = lambda: True,
    ) -> Reply:
        """As `Upstream.call`, of one and the same model; see `workers.retries.of_one_model`."""
        send = partial(of_one_model, ask, may_repeat)
        try:
            return await self.upstream.call(send, key=key, may_repeat=may_repeat)
        except ChangedModel:
            message = "the server's model changed while it answered; repeat the request"
            raise _UNAVAILABLE[self.upstream.role](message) from None


def prompt_key(request: GenerationRequest) -> str:
    """Equal for requests of the same prompt, so that they reach the server that has it cached."""
    if request.prompt is not None:
        return request.prompt
    return orjson.dumps(list(map(dict, request.messages or ()))).decode()


def session_of(key: str) -> str:
    """A hash, the same in every process: routers in between send equal keys to one server by it."""
    return hashlib.sha256(key.encode()).hexdigest()[:16]


async def addresses(host: str) -> list[str]:
    """The addresses of a host by the system's resolver: of a headless Service its ready pods."""
    infos = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return sorted({str(address[0]) for *_, address in infos})


async def urls_of(url: str, resolve: Resolve) -> list[str]:
    """The url once for each address of its host; none where the host has none.

    >>> async def resolve(host): return ["10.0.0.7", "fd00::1"]
    >>> asyncio.run(urls_of("http://vllm-pods:8000/v", resolve))
    ['http://10.0.0.7:8000/v', 'http://[fd00::1]:8000/v']
    """
    named = httpx.URL(url)
    try:
        hosts = await resolve(named.host)
    except OSError:
        return []
    return [str(named.copy_with(host=address)) for address in hosts]
