"""A collector of traces, over OTLP/HTTP, that keeps what it is sent."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Received:
    """What has come, in its order.

    Attributes:
        spans: of all requests.
        resources: of the spans.
        requests: path and headers of each.
    """

    def __init__(self):
        self.spans, self.resources, self.requests = [], [], []

    def take_spans(self, content):
        for group in ExportTraceServiceRequest.FromString(content).resource_spans:
            self.resources.append(attributes(group.resource))
            for scope in group.scope_spans:
                self.spans += scope.spans


def attributes(told):
    """The attributes of a span or a resource as a dict."""
    found = {}
    for one in told.attributes:
        kind = one.value.WhichOneof("value")
        value = getattr(one.value, kind)
        if kind == "array_value":
            value = [item.string_value for item in value.values]
        found[one.key] = value
    return found


@contextmanager
def receiver():
    """A collector that listens, as what it has received and its URL."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            content = self.rfile.read(int(self.headers["Content-Length"]))
            received.requests.append((self.path, self.headers))
            received.take_spans(content)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield received, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
