"""All that workers share whose model is held by servers: how they are run, watched and closed."""

from typing import Generic

import orjson

from models.records import GenerationRequest
from workers.standing import Known
from workers.upstream import Upstream


class RemoteWorker(Generic[Known]):
    """A worker whose model is held by servers; to be connected before anything else.

    Attributes:
        upstream: the servers.
        busy_since: None, since nothing blocks here.
        num_waiting: 0, since what waits in a server is for its own metrics to tell.
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


def prompt_key(request: GenerationRequest) -> str:
    """Equal for requests of the same prompt, so that they reach the server that has it cached."""
    if request.prompt is not None:
        return request.prompt
    return orjson.dumps(list(map(dict, request.messages or ()))).decode()
