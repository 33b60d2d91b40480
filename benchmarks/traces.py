"""What traces cost: processor time of an answer with a collector, against one without.

Two services of the same models, one of which sends every trace, take turns in blocks. A block ends
after all of its spans have been sent, so that making, encoding and sending them counts, in
whichever thread it is done. Other work on the machine adds to the processor time of a block and
takes nothing from it: the least of all blocks counts. For comparison, OpenTelemetry's SDK makes and
sends two spans and an event with as many attributes, with nothing of ours around it.
"""

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle, islice
from typing import Annotated, Any

import typer
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from report import Figure, Round, Values, in_turn, reporting
from service import cocoa_process, connect, free_port, post, testbed_prompts

_SENT_WITHIN_S = 0.5
_NUM_PROMPTS = 10
# Attributes as a cached answer has them: of the request, of the ask, of the event.
_REQUEST = {"http.request.method": "POST", "http.route": "/", "http.response.status_code": 200}
_ASK = {f"text.{i}": "some text" for i in range(8)} | {f"number.{i}": i / 2 for i in range(9)}
_EVENT = {"gen_ai.evaluation.name": "cocoa_ppl", "gen_ai.evaluation.score.value": 0.5}


def main(
    blocks: Annotated[int, typer.Option(min=2, help="Blocks of requests to each.")] = 12,
    cached: Annotated[int, typer.Option(min=1, help="Cached answers in a block.")] = 300,
    computed: Annotated[int, typer.Option(min=1, help="Computed answers in a block.")] = 10,
    minutes: Annotated[float, typer.Option(help="It ends after these.")] = 10.0,
) -> None:
    """Measure, print and store; the exit code is 0 whatever the figures."""
    bodies = [{"prompt": text, "seed": 1} for text in testbed_prompts(_NUM_PROMPTS)]
    with reporting("traces", minutes, cached=cached, computed=computed) as report:
        report.measure("traces", blocks, partial(_blocks, bodies, cached, computed), _figures)


@contextmanager
def _blocks(bodies: Sequence[dict[str, Any]], cached: int, computed: int) -> Iterator[Round]:
    anew = [body | {"cache": False} for body in bodies]
    with ExitStack() as stack:
        silent = stack.enter_context(_service())
        stack.enter_context(_collector_in_environment())
        telling = stack.enter_context(_service())
        for service in (silent, telling):
            _block_us(service, _many(bodies, 200))  # fills caches, warms up
        sides = {}
        for kind, asked in (("cached", _many(bodies, cached)), ("computed", _many(anew, computed))):
            sides[kind] = partial(_block_us, silent, asked)
            sides[f"{kind}, traced"] = partial(_block_us, telling, asked)
        sides["sdk"] = partial(_sdk_alone_us, cached)
        yield partial(in_turn, sides, rest_s=0)


def _figures(rounds: Sequence[Values]) -> list[Figure]:
    least = {name: min(values[name] for values in rounds) for name in rounds[0]}
    traced, traced_slow = least["cached, traced"], least["computed, traced"]
    return [
        Figure("cached answer without traces", least["cached"], "µs"),
        Figure("its trace adds", traced - least["cached"], "µs", 100.0),
        Figure("two spans and an event of the SDK alone", least["sdk"], "µs"),
        Figure("computed answer without traces", least["computed"], "µs"),
        Figure("its trace adds", traced_slow - least["computed"], "µs"),
        Figure("its trace adds", 100 * (traced_slow / least["computed"] - 1), "%", 1.0),
    ]


def _service() -> Any:
    return cocoa_process("serve", GENERATION__MODEL="embedded", SIMILARITY__MODEL="embedded")


def _many(bodies: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    return list(islice(cycle(bodies), count))


def _block_us(service: tuple[str, int], bodies: Sequence[dict[str, Any]]) -> float:
    url, process = service
    clock = ~process << 3 | 2  # Linux's name of a process's clock, with threads that have ended
    began = time.clock_gettime(clock)
    with connect(url) as client:
        for body in bodies:
            post(client, body)
    time.sleep(2 * _SENT_WITHIN_S)
    return 1e6 * (time.clock_gettime(clock) - began) / len(bodies)


def _sdk_alone_us(count: int) -> float:
    """Processor time of two spans, one below the other, and an event, sent in batches."""
    spans, logs = TracerProvider(), LoggerProvider()
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    tracer, events = spans.get_tracer("alone"), logs.get_logger("alone")
    began = time.process_time()
    for _ in range(count):
        above = tracer.start_as_current_span("request", attributes=_REQUEST)
        with above, tracer.start_as_current_span("ask", attributes=_ASK):
            events.emit(LogRecord(event_name="event", attributes=_EVENT))
    spans.shutdown()
    logs.shutdown()
    return 1e6 * (time.process_time() - began) / count


@contextmanager
def _collector_in_environment() -> Iterator[None]:
    """A process that takes whatever it is sent; those started from now on send to it."""
    port, delay = free_port(), f"{1000 * _SENT_WITHIN_S:g}"
    process = multiprocessing.Process(target=_take_all, args=(port,), daemon=True)
    process.start()
    os.environ |= {"OTEL_BSP_SCHEDULE_DELAY": delay, "OTEL_BLRP_SCHEDULE_DELAY": delay}
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{port}"
    try:
        yield
    finally:
        process.terminate()


def _take_all(port: int) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    typer.run(main)
