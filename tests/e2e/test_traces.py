"""Traces as a collector gets them, from a gateway and its workers."""

import json
import socket

import pytest

from tests.chaos.cocoa_process import cocoa, cocoa_serve, until
from tests.conftest import GENERATE
from tests.otlp_receiver import attributes, receiver

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
FAKE = {"COCOA_GENERATION__ENGINE": "fake", "OTEL_BSP_SCHEDULE_DELAY": "50"}
SECRET = "What is the secret word?"


def traceparent(trace=TRACE, flags="01"):
    return {"traceparent": f"00-{trace}-{PARENT}-{flags}"}


@pytest.fixture(scope="module")
def collected():
    with receiver() as (received, url):
        yield received, url


@pytest.fixture(scope="module")
def service(collected):
    _, url = collected
    with cocoa_serve(OTEL_EXPORTER_OTLP_ENDPOINT=url, **FAKE) as running:
        running.wait_ready()
        yield running


def spans_of(received, trace, count):
    """The spans of a trace by name, once so many have come."""

    def found():
        return [span for span in received.spans if span.trace_id.hex() == trace]

    until(lambda: len(found()) >= count, 10)
    assert len(found()) == count
    return {span.name: span for span in found()}


def test_an_answer_is_a_span_below_the_callers_with_one_for_each_stage(service, collected):
    received, _ = collected
    response = service.generate(SECRET, traceparent())
    answered = response.json()
    spans = spans_of(received, TRACE, 6)
    assert set(spans) >= {f"POST {GENERATE}", "text_completion fake", "generate", "similarity"}
    served, asked = spans[f"POST {GENERATE}"], spans["text_completion fake"]
    assert served.parent_span_id.hex() == PARENT
    assert asked.parent_span_id == served.span_id
    assert attributes(served)["http.response.status_code"] == 200
    for name, span in spans.items():
        if span not in (served, asked):
            assert span.parent_span_id == asked.span_id
            stage_ms = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
            assert stage_ms == pytest.approx(answered["timing_ms"][name], abs=1e-3)
    told = attributes(asked)
    assert told["gen_ai.operation.name"] == "text_completion"
    assert told["gen_ai.response.id"] == answered["id"]
    assert told["gen_ai.usage.output_tokens"] == answered["usage"]["completion_tokens"]
    assert told["gen_ai.response.finish_reasons"] == [answered["finish_reason"]]
    assert told["cocoa.uncertainty"] == pytest.approx(answered["uncertainty"])
    assert not told["cocoa.cached"]
    assert {"service.name": "cocoa-serve"}.items() <= received.resources[0].items()


def test_a_cached_answer_says_so(service, collected):
    received, _ = collected
    service.generate("Again?", seed=1)
    for trace in ("a" * 32, "9" * 32):
        service.generate("Again?", traceparent(trace), seed=1)
        spans = spans_of(received, trace, 2)
        assert attributes(spans["text_completion fake"])["cocoa.cached"]


def test_an_error_has_its_code_and_nothing_of_the_prompt_is_ever_told(service, collected):
    received, _ = collected
    trace = "b" * 32
    refused = service.generate(SECRET + " word" * 2000, traceparent(trace))
    assert refused.status_code == 422
    spans = spans_of(received, trace, 2)
    asked = spans["text_completion fake"]
    assert attributes(asked)["error.type"] == refused.json()["error"]["code"]
    assert asked.status.code == 2
    assert "secret" not in str(received.spans)


def test_what_the_caller_does_not_sample_is_not_sent(service, collected):
    received, _ = collected
    dropped, kept = "c" * 32, "d" * 32
    assert service.generate("Dropped?", traceparent(dropped, "00")).status_code == 200
    service.generate("Kept?", traceparent(kept))
    spans_of(received, kept, 6)
    assert dropped not in {span.trace_id.hex() for span in received.spans}


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": "00-" + "0" * 32 + "-" + "0" * 16 + "-01"},
        {"traceparent": "x" * 8000},
        {"traceparent": "00-é-é-01".encode("latin-1")},
        {"baggage": "key=" + "v" * 8000, "tracestate": "=,=" * 500},
    ],
)
def test_a_hostile_header_is_ignored(service, headers):
    assert service.generate("Hostile?", headers).status_code == 200


def test_the_log_names_the_trace(service):
    trace = "e" * 32
    service.generate("In the log?", traceparent(trace))
    until(lambda: any(trace in line for line in service.log), 10)
    (line,) = [json.loads(line) for line in service.log if trace in line]
    assert (line["message"], line["trace_id"]) == ("request", trace)


def test_a_trace_goes_on_in_workers(collected):
    received, url = collected
    trace = "f" * 32
    otel = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, **FAKE}
    with cocoa("worker", "generation", **otel) as worker:
        worker.wait_ready()
        del otel["COCOA_GENERATION__ENGINE"]
        with cocoa_serve(**otel, COCOA_GENERATION__URL=worker.url) as gateway:
            gateway.wait_ready()
            assert gateway.generate("Remote?", traceparent(trace)).status_code == 200
            spans = spans_of(received, trace, 7)
    assert spans["POST /v1/generate"].parent_span_id == spans["text_completion fake"].span_id


def test_contents_are_told_where_the_operator_says_so(collected):
    received, url = collected
    trace = "1" * 32
    opt_in = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
    with cocoa_serve(OTEL_EXPORTER_OTLP_ENDPOINT=url, **FAKE, **opt_in) as service:
        service.wait_ready()
        answered = service.generate("Told?", traceparent(trace)).json()
        asked = spans_of(received, trace, 6)["text_completion fake"]
    told = attributes(asked)
    assert json.loads(told["gen_ai.input.messages"])[0]["parts"][0]["content"] == "Told?"
    output = json.loads(told["gen_ai.output.messages"])[0]
    assert output["parts"][0]["content"] == answered["text"]


def test_a_collector_may_be_below_a_path_and_want_a_key(collected):
    received, url = collected
    trace = "2" * 32
    langfuse = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"{url}/api/public/otel"}
    langfuse["OTEL_EXPORTER_OTLP_HEADERS"] = "Authorization=Basic%20cGs6c2s="
    with cocoa_serve(**langfuse, **FAKE) as service:
        service.wait_ready()
        answered = service.generate("No event?", traceparent(trace)).json()
        asked = spans_of(received, trace, 6)["text_completion fake"]
    assert attributes(asked)["cocoa.uncertainty"] == pytest.approx(answered["uncertainty"])
    own = [one for one in received.requests if one[0].startswith("/api")]
    assert {path for path, _ in own} == {"/api/public/otel/v1/traces"}
    assert {headers["Authorization"] for _, headers in own} == {"Basic cGs6c2s="}


@pytest.mark.parametrize("is_silent", [False, True])
def test_a_collector_that_is_away_or_silent_holds_up_neither_answers_nor_the_end(is_silent):
    with socket.create_server(("127.0.0.1", 0)) as collector:
        url = f"http://127.0.0.1:{collector.getsockname()[1]}"
        if not is_silent:
            collector.close()
        with cocoa_serve(OTEL_EXPORTER_OTLP_ENDPOINT=url, **FAKE) as service:
            service.wait_ready()
            assert service.generate("Alone?").status_code == 200
            service.popen.terminate()
            assert service.popen.wait(5) == 0
