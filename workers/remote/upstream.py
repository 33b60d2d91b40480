"""The server that holds the model of a role: calls of it, and its liveness checks.

It may be a balancer or a router before several that hold the same model, which chooses among them.
`workers.remote.retries` says what is tried again.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Generic, Literal, TypeVar

import orjson

from models import errors
from models.records import GenerationRequest
from workers.config import Role, ServerAddress, variable
from workers.hooks import Hooks, Outcome
from workers.remote.client import (
    NO_ANSWER,
    Client,
    Pending,
    Refused,
    Unconnected,
    Unreachable,
    reason_of,
)
from workers.remote.retries import Tried, of_one_model, repeating
from workers.remote.standing import ChangedModel, Kind, Known, Server

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")
# The owner of the server, which decides how often it is checked: ours, somebody's, or one whose
# calls cost money.
Whose = Literal["ours", "others", "hosted"]

_SESSION_HEADER = "X-Session-ID"
_CONNECT_S: Mapping[Whose, float] = {"ours": 2.0, "others": 5.0, "hosted": 5.0}  # maybe by proxy
# A server that sends nothing for so long has gone; ours sends a blank line more often.
_SILENCE_S = 20.0
_WATCH_S = 1.0
_WATCH_TIMEOUT_S = 5.0
# The longest pause between two checks of a server that fails or refuses, or whose calls cost money,
# and of one to which no connection is made.
_MOST_PAUSE_S, _MOST_PAUSE_UNCONNECTED_S = 60.0, 5.0
_NO_SUCH_PATH = (
    "; {0}__API says what answers there, {0}__MODEL the model's name, and {0}__URL must end where "
    "/v1, /info or /score begins (infinity needs --url-prefix /v1)"
)
_MODELS = {"generation": "language model", "similarity": "similarity model"}
_UNAVAILABLE: dict[Role, type[errors.CocoaError]] = {
    "generation": errors.GenerationUnavailable,
    "similarity": errors.SimilarityUnavailable,
}


class Upstream(Generic[Known]):
    """The server of one role.

    Where replicas stand behind it (`is_routed`), one failed call says nothing of it. Headers and
    params go with each call, the key among them; where there are no headers, the key alone does.
    """

    def __init__(
        self,
        role: Role,
        config: ServerAddress,
        kind: Kind[Known],
        hooks: Hooks,
        *,
        whose: Whose = "ours",
        is_routed: bool = False,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> None:
        self.role = role
        self._on_call, self._on_server = hooks.on_call, hooks.on_server
        self._whose, self._is_routed = whose, is_routed
        self._name = f"{role} worker" if whose == "ours" else f"server of the {_MODELS[role]}"
        self._closed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        fixed = dict(headers or {})
        if headers is None and (keys := config.keys(role)):
            fixed = {"Authorization": f"Bearer {keys[0]}"}
        client = Client(
            config.base_url,
            fixed,
            params=params,
            connect_s=_CONNECT_S[whose],
            silence_s=_SILENCE_S,
            tls=config.tls_context(role),
        )
        self.server = Server(client, kind)

    @property
    def known(self) -> Known:
        """Capabilities of the server; raises `NotReady` before it has answered."""
        if self.server.known is None:
            raise errors.NotReady(f"no {self._name} has answered")
        return self.server.known

    async def connect(self) -> None:
        """Wait until the server answers; who no longer waits leaves no connection."""
        try:
            while True:
                await self._check_if_due()
                if self.server.is_up and self.server.look_at:
                    return
                await asyncio.sleep(_WATCH_S)
        except BaseException:
            await self.close()
            raise

    async def run(self) -> None:
        """Check the server every second, until closed.

        Several workers that share it may call it; the first one's task does the checks.
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
        await self.server.close()

    async def call(
        self,
        send: Callable[[Server[Known]], Awaitable[Reply]],
        *,
        may_repeat: Callable[[], bool] = lambda: True,
    ) -> Reply:
        """The reply of the server; see `workers.remote.retries.repeating` for what is repeated.

        Raises:
            GenerationUnavailable, SimilarityUnavailable: it did not answer.
            Exception: whatever else `send` raises, which is an answer.
        """
        self.check_open()
        try:
            return await repeating(partial(send, self.server), may_repeat, self._on_try)
        except NO_ANSWER as error:
            self.check_open()
            message = f"no {self._name} has answered: {reason_of(error)}"
            raise _UNAVAILABLE[self.role](message) from error

    def check_open(self) -> None:
        """Refuse a call once this is closed, with `NotReady`."""
        if self._closed.is_set():
            raise errors.NotReady(f"the {_MODELS[self.role]} has stopped")

    def _on_try(self, outcome: Outcome, took_s: float, lost: str) -> None:
        if lost and not self._is_routed:
            self._mark(lost)
        self._on_call(self.role, outcome, took_s)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_S)
            await self._check_if_due()

    async def _check_if_due(self) -> None:
        if time.monotonic() >= self.server.look_at:
            await self.check()

    async def check(self) -> None:
        """Check the server, say whether it is well, and set its next check."""
        server = self.server
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
        server.look_at = time.monotonic() + self._pause_s(failure)
        trouble = "" if failure is None else reason_of(failure)
        if "status 404" in trouble:
            trouble += _NO_SUCH_PATH.format(variable(self.role))
        self._mark(trouble)

    def _pause_s(self, failure: Exception | None) -> float:
        """Seconds before the server is checked again; 0 for the next second."""
        is_hosted = self._whose == "hosted"
        if failure is None and is_hosted:
            return _MOST_PAUSE_S
        if failure is None or isinstance(failure, Pending) or self._whose == "ours":
            return 0.0
        if isinstance(failure, Refused):  # until somebody changes something
            return _MOST_PAUSE_S
        if self.server.known is not None and not is_hosted:
            return 0.0
        most_s = _MOST_PAUSE_S
        if isinstance(failure, Unconnected):  # nobody is disturbed
            most_s = _MOST_PAUSE_UNCONNECTED_S
        return min(_WATCH_S * 2.0 ** min(self.server.num_failed - 1, 8), most_s)

    def _mark(self, trouble: str) -> None:
        server = self.server
        if trouble and trouble != server.trouble:
            logger.warning("%s at %s is lost: %s", self.role, server.url, trouble)
        elif not trouble and not server.is_up:
            logger.info("%s at %s is back", self.role, server.url)
        server.trouble = trouble
        self._on_server(self.role, server.url, trouble)


class RemoteWorker(Generic[Known]):
    """A worker whose model is held by a server; to be connected before anything else."""

    busy_since: float | None = None  # nothing blocks here
    num_waiting: int = 0  # a server's own metrics show what waits in it

    def __init__(self, upstream: Upstream[Known]) -> None:
        self.upstream = upstream

    async def run(self) -> None:
        """Watch the server until closed."""
        await self.upstream.run()

    async def warm_up(self) -> None:
        """Nothing: the server has warmed up by itself, or by being tried out."""

    async def close(self) -> None:
        """End `run` and all connections."""
        await self.upstream.close()

    async def _unchanged(
        self: "RemoteWorker[Tried]",
        ask: Callable[[Server[Tried], Tried], Awaitable[Reply]],
        *,
        may_repeat: Callable[[], bool] = lambda: True,
    ) -> Reply:
        """As `Upstream.call`, of one and the same model; see `retries.of_one_model`."""
        send = partial(of_one_model, ask, may_repeat)
        try:
            return await self.upstream.call(send, may_repeat=may_repeat)
        except ChangedModel:
            message = "the server's model changed while it answered; repeat the request"
            raise _UNAVAILABLE[self.upstream.role](message) from None


def session_of(request: GenerationRequest) -> dict[str, str]:
    """A header with a hash of the prompt: by it routers choose the server that has it cached."""
    prompt = request.prompt
    if prompt is None:
        prompt = orjson.dumps(list(map(dict, request.messages or ()))).decode()
    return {_SESSION_HEADER: hashlib.sha256(prompt.encode()).hexdigest()[:16]}
