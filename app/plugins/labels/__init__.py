"""Labels of answers that were served, kept for a calibrator with scores alone."""

from collections.abc import Mapping
from typing import Any

from app.plugin import Gateway, Plugin


def _settings() -> Mapping[str, tuple[Any, Any]]:
    from app.plugins.labels.protocol import FeedbackConfig

    return {"feedback": (FeedbackConfig, FeedbackConfig())}


def _install(gateway: Gateway) -> None:
    from app.plugins.labels.routes import install

    install(gateway)


PLUGIN = Plugin("labels", _install, _settings)
