"""Tools of the Model Context Protocol for agents: at `/mcp`, and by `cocoa mcp`."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, Any

from app.plugin import Gateway, Plugin


def _settings() -> Mapping[str, tuple[Any, Any]]:
    from pydantic import AfterValidator

    return {"mcp": (Annotated[bool, AfterValidator(_can_be_served)], False)}


def _can_be_served(mcp: bool) -> bool:
    if mcp and find_spec("mcp") is None:
        raise ValueError("needs the package mcp: pip install '.[mcp]' in the checkout")
    return mcp


def _install(gateway: Gateway) -> None:
    if gateway.settings.mcp:
        from app.plugins.mcp.mounting import make_tools

        sessions, router = make_tools(gateway.app, gateway.settings.limits.max_body_bytes)
        gateway.add_routes(router)
        gateway.run_beside(sessions.run)


_HELP = "Serve tools to an agent that starts this command (Model Context Protocol)."
PLUGIN = Plugin("mcp", _install, _settings, {"mcp": ("app.plugins.mcp.command:mcp", _HELP)})
