"""OpenTelemetry: a trace of each ask, with its scores. Imported where traces are wanted.

Names are those of the semantic conventions for generative AI. Prompts and answers are sent only
where the operator wants it. The SDK exports in the background, samples as its environment or the
caller's `traceparent` say, and drops spans that no collector takes.
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
from starlette.middleware import Middleware
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
        has_contents: whether spans have prompts and answers.
    """

    def __init__(self, *, has_contents: bool) -> None:
        resource = Resource.create()
        if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "cocoa-serve"}))
        self._spans = TracerProvider(resource=resource)
        self._spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._spans.get_tracer(_NAME)
        self.has_contents = has_contents

    def middleware(self) -> Middleware:
        """What traces requests."""
        return Middleware(_TraceRequests, tracing=self)

    def mark_log(self) -> None:
        """Put the id of its trace into each record of the log."""
        for handler in logging.getLogger().handlers:
            handler.addFilter(_with_trace_id)

    def headers(self) -> dict[str, str]:
        """The headers by which a call of another process joins this trace."""
        headers: dict[str, str] = {}
        _PROPAGATOR.inject(headers)
        return headers

    def close(self) -> None:
        """Send the spans that are left, within two seconds at most."""
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

    async def traced(
        self, ask: Ask, model: str, answer_id: str, run: Callable[[], Awaitable[Result]]
    ) -> Result:
        """The result of `run`, awaited in a span that has one below it for each stage."""
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
                self._describe(span, ask, result)
            return result

    def _describe(self, span: trace.Span, ask: Ask, result: Result) -> None:
        """Set attributes, and add a span for each stage, as long as it took, one after another."""
        attributes = _attributes(ask, result)
        if self.has_contents:
            attributes |= _contents(ask, result)
        span.set_attributes(attributes)
        # An answer from the cache has no spans of stages: one costs as much as such an answer.
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
                _describe_request(span, scope, status)


def _describe_request(span: trace.Span, scope: Scope, status: int) -> None:
    """Set what is known of a request at its end; a status of 0 is none."""
    attributes: dict[str, str | int] = {}
    if status:
        attributes["http.response.status_code"] = status
    if status >= _FIRST_ERROR_STATUS:
        span.set_status(Status(StatusCode.ERROR))
    route = getattr(scope.get("route"), "path", None)  # the template, never the path
    if route is not None:
        span.update_name(f"{scope['method']} {route}")
        attributes["http.route"] = route
    span.set_attributes(attributes)


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
    attributes: dict[str, Any] = {
        "gen_ai.request.max_tokens": sampling.max_new_tokens,
        "gen_ai.request.seed": sampling.seed,
        "gen_ai.request.temperature": sampling.answer_temperature or sampling.temperature,
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
    if (generation := result.evidence.generation) is not None:
        attributes["gen_ai.usage.input_tokens"] = generation.prompt_tokens
        attributes["gen_ai.usage.output_tokens"] = generation.answer.num_written
    return {name: value for name, value in attributes.items() if value is not None}


def _contents(ask: Ask, result: Result) -> dict[str, str]:
    sent = ask.messages or ()
    if ask.prompt is not None:
        sent = ({"role": "user", "content": ask.prompt},)
    messages = [_message(message["role"], message["content"]) for message in sent]
    answered = []
    if result.text is not None:
        answered.append(_message("assistant", result.text))
    return {
        "gen_ai.input.messages": json.dumps(messages),
        "gen_ai.output.messages": json.dumps(answered),
    }


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}
