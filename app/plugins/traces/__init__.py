"""OpenTelemetry: a trace of each request, where its variables name an endpoint."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec

from app.plugin import Gateway, Plugin

logger = logging.getLogger(__name__)

_ENDPOINTS = {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"}
_CONTENTS = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def _install(gateway: Gateway) -> None:
    if not os.environ.keys() & _ENDPOINTS:
        return
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        remedy = "pip install '.[otel]' in the checkout"
        logger.warning("no traces: OTEL_EXPORTER_OTLP_ENDPOINT needs %s", remedy)
        return
    from app.plugins.traces.tracing import Tracing

    has_contents = os.environ.get(_CONTENTS, "").lower() == "true"
    tracing = Tracing(has_contents=has_contents)

    @asynccontextmanager
    async def closed_at_the_end() -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.to_thread(tracing.close)

    tracing.mark_log()
    gateway.add_middleware(tracing.middleware())
    gateway.on_ask(tracing.traced, reads_texts=has_contents)
    gateway.on_call(tracing.headers)
    gateway.run_beside(closed_at_the_end)


PLUGIN = Plugin("traces", _install, in_workers=True)
