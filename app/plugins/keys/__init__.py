"""API keys: who may ask, how much, and apart from whom."""

from collections.abc import Mapping
from typing import Any

from app.plugin import Gateway, Plugin


def _settings() -> Mapping[str, tuple[Any, Any]]:
    from app.plugins.keys.records import KeysConfig

    return {"keys": (KeysConfig, KeysConfig())}


def _install(gateway: Gateway) -> None:
    settings = gateway.settings
    if settings.keys.file and gateway.is_guarded:
        from app.plugins.keys.access import KeyAccess

        telemetry = gateway.app.state.service.telemetry
        access = KeyAccess(settings.keys, settings.cache, telemetry)
        gateway.guard(access)
        gateway.run_beside(access.running)


_HELP = "Keys for clients of the service (docs/keys.md)."
PLUGIN = Plugin("keys", _install, _settings, {"key": ("app.plugins.keys.command:key", _HELP)})
