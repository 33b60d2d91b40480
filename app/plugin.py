"""What a plugin is, and what it may add to a gateway.

A distribution names its plugins by entry points of the group `cocoa.plugins`, as ours does. The
module of a plugin is imported with the command line: it imports the rest of itself when it is
installed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import APIRouter

_GROUP = "cocoa.plugins"


class PluginInvalid(ValueError):
    """A plugin that is installed cannot be used."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """Something that a deployment may have.

    Attributes:
        name: that of its entry point.
        install: called once for each application, before its models load.
    """

    name: str
    install: Callable[["Gateway"], None]


@dataclass(slots=True)
class Gateway:
    """An application as plugins see it: what they read of it, and the verbs that add to it.

    Attributes:
        settings: of the deployment, a `Settings`.
    """

    settings: Any
    routers: list["APIRouter"] = field(default_factory=list)
    open_paths: list[str] = field(default_factory=list)

    def add_routes(self, router: "APIRouter", *, needs_key: bool = True) -> None:
        """Serve more routes; beside a route that `needs_key` anybody's request gets in."""
        self.routers.append(router)
        if not needs_key:
            for route in router.routes:
                self.open_paths.append(route.path)  # type: ignore[attr-defined]


@cache
def installed() -> Sequence[Plugin]:
    """The plugins of all distributions that are installed, in the order of their names.

    Raises:
        PluginInvalid: one cannot be imported, or is none.
    """
    plugins = []
    for point in sorted(entry_points(group=_GROUP), key=lambda point: point.name):
        try:
            plugin = point.load()
        except Exception as error:
            raise PluginInvalid(f"the plugin {point.name} cannot be imported: {error!r}") from error
        if not isinstance(plugin, Plugin):
            raise PluginInvalid(f"the plugin {point.name} is no Plugin of app.plugin")
        plugins.append(plugin)
    return tuple(plugins)
