"""Hooks of workers in a process that serves HTTP: its metrics, and the request's id and trace."""

import logging
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from app.http.logs import current_request_id
from app.http.telemetry import Telemetry
from app.scoring.ask import current_caller
from app.settings import contents_wanted, traces_wanted
from workers.hooks import Hooks
from workers.remote.wire import REQUEST_ID_HEADER

if TYPE_CHECKING:
    from app.http.tracing import Tracing

logger = logging.getLogger(__name__)


def make_tracing() -> "Tracing | None":
    """Traces of this process; None where they are off, or their package is missing."""
    if not traces_wanted():
        return None
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        remedy = "pip install '.[otel]' in the checkout"
        logger.warning("no traces: OTEL_EXPORTER_OTLP_ENDPOINT needs %s", remedy)
        return None
    from app.http.tracing import Tracing

    return Tracing(has_contents=contents_wanted())


def hooks_of(telemetry: Telemetry, tracing: "Tracing | None") -> Hooks:
    def headers() -> Mapping[str, str]:
        sent: dict[str, str] = {}
        if (request_id := current_request_id.get()) is not None:
            sent[REQUEST_ID_HEADER] = request_id
        if tracing is not None:
            sent |= tracing.headers()
        return sent

    return Hooks(
        on_step=telemetry.observe_step,
        on_batch=telemetry.observe_batch,
        on_call=telemetry.observe_call,
        on_server=telemetry.set_server,
        headers=headers,
        tenant=lambda: current_caller.get().namespace,
    )
