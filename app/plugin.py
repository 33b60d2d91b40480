"""What a plugin is, and what it may add to a process that serves (docs/plugins.md).

A distribution names its plugins by entry points of the group `cocoa.plugins`, as ours does. Their
modules are imported with the list of commands: each imports the rest of itself when it is needed.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import APIRouter
    from pydantic import BaseModel
    from starlette.applications import Starlette
    from starlette.middleware import Middleware

    from app.scoring.ask import Ask
    from app.scoring.result import Result

    # Given the ask, the id of the model and that of the answer, and what computes the result.
    Around = Callable[[Ask, str, str, Callable[[], Awaitable[Result]]], Awaitable[Result]]


class PluginInvalid(ValueError):
    """A plugin that is installed cannot be used; its message says which, and why."""


@dataclass(frozen=True, slots=True, eq=False)
class Plugin:
    """Something that a deployment may have."""

    name: str  # that of its entry point
    # Called once for each application, before its models load.
    install: Callable[["Gateway"], None] = lambda gateway: None
    # Type and default of each setting by its name; a dataclass is a group of them.
    settings: Callable[[], Mapping[str, tuple[Any, Any]]] = dict
    # Of `cocoa`, by name: "module:function" or "module:Typer", and what the list of commands
    # says.
    commands: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # Whether processes of workers install it, too; they have routes of their own.
    in_workers: bool = False
    # Pair models by name, as in `models.similarity.PAIR_MODELS`; always loaded.
    similarities: Mapping[str, str] = field(default_factory=dict)
    # By name "module:ROW", of `models.estimators.row`.
    estimators: Mapping[str, str] = field(default_factory=dict)
    # By `COCOA_GENERATION__API` what connects with such a server, as
    # `workers.openai.generator.connect_generator` does.
    generators: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Gateway:
    """A process that serves, as plugins see it: what they read of it, and verbs that add to it."""

    app: "Starlette"  # the application; its `state.service` is the `Service` of a gateway
    settings: Any
    is_guarded: bool = True  # False where only this process itself can ask
    access: Any = None
    routers: list["APIRouter"] = field(default_factory=list)
    bodies: list[type["BaseModel"]] = field(default_factory=list)
    open_paths: list[str] = field(default_factory=list)
    free_paths: list[str] = field(default_factory=list)
    counters: dict[str, tuple[str, str, Sequence[str]]] = field(default_factory=dict)
    starts: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    around: list["Around"] = field(default_factory=list)
    reads_texts: bool = False
    middleware: list["Middleware"] = field(default_factory=list)
    headers: list[Callable[[], Mapping[str, str]]] = field(default_factory=list)
    _beside: list[Callable[[], AbstractAsyncContextManager[None]]] = field(default_factory=list)

    def add_routes(
        self,
        router: "APIRouter",
        bodies: Sequence[type["BaseModel"]] = (),
        *,
        needs_key: bool = True,
        costs_tokens: bool = True,
    ) -> None:
        """Serve more routes, and document the bodies that `app.http.json_calls.takes` names.

        Those that need no key let anybody in; those that cost no tokens, a key that has none left.
        """
        self.routers.append(router)
        self.bodies += bodies
        paths = [route.path for route in router.routes]  # type: ignore[attr-defined]
        if not needs_key:
            self.open_paths += paths
        if not costs_tokens:
            self.free_paths += paths

    def add_counter(self, name: str, text: str, label: str, values: Sequence[str]) -> None:
        """Have a counter `cocoa_NAME` with one label, whose values are fixed."""
        self.counters[name] = text, label, values

    def guard(self, access: Any) -> None:
        """Let requests in by an `Access` of `app.http.access` alone."""
        self.access = access

    def add_middleware(self, middleware: "Middleware") -> None:
        """Put ASGI middleware around all that is served, the later around the earlier."""
        self.middleware.append(middleware)

    def on_ask(self, around: "Around", *, reads_texts: bool = False) -> None:
        """Await each ask within `around`; where it `reads_texts`, no response is given again."""
        self.around.append(around)
        self.reads_texts |= reads_texts

    def on_call(self, headers: Callable[[], Mapping[str, str]]) -> None:
        """Send more headers with each call of a worker in another process."""
        self.headers.append(headers)

    def on_start(self, start: Callable[[], Awaitable[None]]) -> None:
        """Await `start` before models load; where it raises, the process ends."""
        self.starts.append(start)

    def run_beside(self, context: Callable[[], AbstractAsyncContextManager[None]]) -> None:
        """Enter `context` before models load, and leave it when they have stopped."""
        self._beside.append(context)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All that runs beside."""
        async with AsyncExitStack() as stack:
            for context in self._beside:
                await stack.enter_async_context(context())
            yield
