"""OpenTelemetry: a trace of each ask, with its scores. Imported where traces are wanted.

Names are those of the semantic conventions for generative AI. Prompts and answers are told only
where the operator asks for it. The SDK sends in the background, samples as its environment or the
caller's `traceparent` say, and drops what nobody takes.
"""

import json
import logging
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import Span, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.http.middleware import OPERATION_PATHS
from app.scoring.ask import Ask
from app.scoring.result import STAGES, Result
from models.errors import CocoaError

_NAME = "cocoa"
_TRACE_HEADERS = (b"traceparent", b"tracestate")
_NANOSECONDS = 1_000_000_000
_FIRST_ERROR_STATUS = 500
_CLOSING_S = 2.0
_PROPAGATOR = TraceContextTextMapPropagator()
# Exceptions are not written down: their texts may quote a prompt.
_within = partial(
    trace.use_span, end_on_exit=True, record_exception=False, set_status_on_exception=False
)


class Tracing:
    """Traces of one process.

    Attributes:
        tells_contents: whether spans have prompts and answers.
    """

    def __init__(self, *, tells_contents: bool) -> None:
        resource = Resource.create()
        if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "cocoa-serve"}))
        self._spans = TracerProvider(resource=resource)
        self._spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._spans.get_tracer(_NAME)
        self.tells_contents = tells_contents

    def add_to(self, app: Starlette) -> None:
        """Trace an application's requests, and tell its log of what trace."""
        app.add_middleware(_TraceRequests, tracing=self)
        for handler in logging.getLogger().handlers:
            handler.addFilter(_with_trace_id)

    def headers(self) -> dict[str, str]:
        """What a call of another process says of the trace that it belongs to."""
        found: dict[str, str] = {}
        _PROPAGATOR.inject(found)
        return found

    def close(self) -> None:
        """Send what is left; whoever takes nothing within two seconds is not waited for."""
        closing = threading.Thread(target=self._spans.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSING_S)

    def begin(self, scope: Scope) -> trace.Span:
        """The span of a request over HTTP, below that of its `traceparent` where it has one."""
        carrier: dict[str, str] = {}
        for name, value in scope["headers"]:
            if name in _TRACE_HEADERS:
                carrier[name.decode()] = value.decode("latin-1")
        return self._tracer.start_span(
            scope["method"],
            context=_PROPAGATOR.extract(carrier),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": scope["method"]},
        )

    async def asked(
        self, ask: Ask, model: str, answer_id: str, run: Callable[[], Awaitable[Result]]
    ) -> Result:
        """What `run` gives, in a span of its own with one for each stage below it."""
        operation = _operation(ask)
        span = self._tracer.start_span(
            f"{operation} {model}",
            kind=SpanKind.CLIENT,
            attributes={
                "gen_ai.operation.name": operation,
                "gen_ai.provider.name": _NAME,
                "gen_ai.request.model": model,
                "gen_ai.response.id": answer_id,
            },
        )
        with _within(span):
            try:
                result = await run()
            except Exception as error:
                code = type(error).__name__
                if isinstance(error, CocoaError):
                    code = error.code
                span.set_attribute("error.type", code)
                span.set_status(Status(StatusCode.ERROR))
                raise
            if span.is_recording():
                self._tell(span, ask, result)
            return result

    def _tell(self, span: trace.Span, ask: Ask, result: Result) -> None:
        """Attributes, and spans of the stages one behind the other, each as long as it took."""
        found = _attributes(ask, result)
        if self.tells_contents:
            found |= _contents(ask, result)
        span.set_attributes(found)
        # What came from the cache has no stages: a span costs as much as such an answer.
        if result.source != "computed" or not isinstance(span, Span):
            return
        begins = span.start_time or 0
        for name in STAGES:
            if (seconds := result.stage_s[name]) > 0:
                ends = begins + int(seconds * _NANOSECONDS)
                self._tracer.start_span(name, start_time=begins).end(ends)
                begins = ends


class _TraceRequests:
    """Puts each request, but those of operation, in a span."""

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app = app
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPERATION_PATHS:
            await self._app(scope, receive, send)
            return
        span, status = self._tracing.begin(scope), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with _within(span):
            try:
                await self._app(scope, receive, sending)
            finally:
                _tell_request(span, scope, status)


def _tell_request(span: trace.Span, scope: Scope, status: int) -> None:
    """What is known of a request at its end; a status of 0 is none."""
    found: dict[str, str | int] = {}
    if status:
        found["http.response.status_code"] = status
    if status >= _FIRST_ERROR_STATUS:
        span.set_status(Status(StatusCode.ERROR))
    route = getattr(scope.get("route"), "path", None)  # the template, never the path
    if route is not None:
        span.update_name(f"{scope['method']} {route}")
        found["http.route"] = route
    span.set_attributes(found)


def _with_trace_id(record: logging.LogRecord) -> bool:
    """A filter that gives each record of the log the id of the trace that it belongs to."""
    known = trace.get_current_span().get_span_context()
    if known.is_valid:
        record.trace_id = trace.format_trace_id(known.trace_id)
    return True


def _operation(ask: Ask) -> str:
    if ask.answer is not None:
        return "score"
    if ask.input != "prompt":
        return "chat"
    return "text_completion"


def _attributes(ask: Ask, result: Result) -> dict[str, Any]:
    sampling, judgement = ask.sampling, result.judgement
    found: dict[str, Any] = {
        "gen_ai.request.max_tokens": sampling.max_new_tokens,
        "gen_ai.request.seed": sampling.seed,
        "gen_ai.request.temperature": sampling.temperature,
        "gen_ai.request.top_p": sampling.top_p,
        "gen_ai.response.finish_reasons": [result.evidence.subject.answer.finish_reason],
        "cocoa.mode": ask.mode,
        "cocoa.strategy": result.plan.strategy,
        "cocoa.num_samples": len(result.evidence.subject.samples),
        "cocoa.cached": result.source == "cache",
        "cocoa.estimator": result.plan.primary,
        "cocoa.uncertainty": result.uncertainty,
        "cocoa.confidence": judgement.confidence,
        "cocoa.outcome": result.outcome,
        "cocoa.warnings": result.warnings or None,
    }
    if (generation := result.generation) is not None:
        found["gen_ai.usage.input_tokens"] = generation.prompt_tokens
        found["gen_ai.usage.output_tokens"] = generation.answer.num_written
    return {name: value for name, value in found.items() if value is not None}


def _contents(ask: Ask, result: Result) -> dict[str, str]:
    asked = ask.messages or ()
    if ask.prompt is not None:
        asked = ({"role": "user", "content": ask.prompt},)
    messages = [_message(one["role"], one["content"]) for one in asked]
    answered = []
    if result.text is not None:
        answered.append(_message("assistant", result.text))
    return {
        "gen_ai.input.messages": json.dumps(messages),
        "gen_ai.output.messages": json.dumps(answered),
    }


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}
