"""What all workers share whose model is held by servers: how they are run, asked and closed."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import orjson

from models.errors import CocoaError, GenerationUnavailable, NotReady, SimilarityUnavailable
from models.records import GenerationRequest
from workers.client import NO_ANSWER, reason_of
from workers.config import Role
from workers.upstream import Server, Upstream

Known = TypeVar("Known")
Reply = TypeVar("Reply")

_MODELS = {"generation": "language model", "similarity": "similarity model"}
_UNAVAILABLE: dict[Role, type[CocoaError]] = {
    "generation": GenerationUnavailable,
    "similarity": SimilarityUnavailable,
}


class RemoteWorker(Generic[Known]):
    """A worker whose model is held by servers; to be connected before anything else.

    Attributes:
        upstream: the servers.
        busy_since: None, since nothing blocks here.
        num_waiting: 0, since what waits in a server is for its own metrics to tell.

    Args:
        upstream: the servers.
        asked: what one of them is called in messages.
    """

    busy_since: float | None = None
    num_waiting: int = 0

    def __init__(self, upstream: Upstream[Known], asked: str) -> None:
        self.upstream = upstream
        self._asked = asked

    async def connect(self) -> None:
        """Wait until a server answers."""
        await self.upstream.connect()

    async def run(self) -> None:
        """Watch the servers until closed."""
        await self.upstream.run()

    async def warm_up(self) -> None:
        """Nothing: the servers have warmed up by themselves, or by being tried out."""

    async def close(self) -> None:
        """End `run` and all connections."""
        await self.upstream.close()

    @property
    def _known(self) -> Known:
        """What the first server that is up was last found to be."""
        if (known := self.upstream.known) is None:
            raise NotReady(f"no {self._asked} has answered")
        return known

    async def _call(
        self,
        send: Callable[[Server[Known]], Awaitable[Reply]],
        *,
        key: str | None = None,
        may_repeat: Callable[[], bool] = lambda: True,
    ) -> Reply:
        """What a server answers; see `Upstream.call`.

        Raises:
            NotReady: this worker is closed.
            GenerationUnavailable, SimilarityUnavailable: no server answered.
            Exception: whatever else `send` raises.
        """
        self._check_open()
        try:
            return await self.upstream.call(send, key=key, may_repeat=may_repeat)
        except NO_ANSWER as error:
            self._check_open()
            raise self._unavailable(f"no {self._asked} has answered: {reason_of(error)}") from error

    def _unavailable(self, message: str) -> CocoaError:
        return _UNAVAILABLE[self.upstream.role](message)

    def _check_open(self) -> None:
        if self.upstream.is_closed:
            raise NotReady(f"the {_MODELS[self.upstream.role]} has stopped")


def prompt_key(request: GenerationRequest) -> str:
    """Equal for requests of the same prompt, so that they reach the server that has it cached."""
    if request.prompt is not None:
        return request.prompt
    return orjson.dumps(list(map(dict, request.messages or ()))).decode()
