"""The core of our own client: attempts within a deadline, and streams in pieces."""

import pytest
from cocoa_client import AsyncClient, Client, core, errors
from cocoa_client.core import Attempts, Reading

PASSING = errors.EngineError("broken", status=503)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_the_wait_is_what_the_service_says():
    attempts = Attempts(60, 5)
    assert attempts.wait_s(errors.Overloaded("full", status=429, retry_after_s=7)) == 7


def test_waits_double_without_word_from_the_service():
    attempts = Attempts(600, 9)
    waits = [attempts.wait_s(PASSING) for _ in range(8)]
    for wait, longest in zip(waits, [0.5, 1, 2, 4, 8, 8, 8, 8], strict=True):
        assert longest / 2 <= wait <= longest


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidRequest("no", status=422),
        errors.UnknownAnswer("no", status=404),
        errors.Unauthorized("no", status=401),
        errors.RequestTimeout("slow", status=408),
        errors.InternalError("broken", status=500),
        errors.DeadlineExceeded("late", status=504),
        errors.UnexpectedResponse("HTML", status=502),
    ],
    ids=lambda error: error.code,
)
def test_what_a_repetition_cannot_help_is_raised_at_once(error):
    with pytest.raises(type(error)):
        Attempts(60, 5).wait_s(error)


@pytest.mark.parametrize(
    ("wait_s", "fits"), [(4.9, True), (5.0, False)], ids=["before the deadline", "at it"]
)
def test_a_wait_beyond_the_deadline_is_not_begun(wait_s, fits):
    clock = Clock()
    attempts = Attempts(60, 5, clock)
    clock.now += 55
    error = errors.Overloaded("full", status=429, retry_after_s=wait_s)
    if fits:
        assert attempts.wait_s(error) == wait_s
    else:
        with pytest.raises(errors.Overloaded):
            attempts.wait_s(error)


def test_repetitions_have_an_end():
    attempts = Attempts(600, 1)
    attempts.wait_s(PASSING)
    with pytest.raises(errors.EngineError):
        attempts.wait_s(PASSING)


def test_a_connection_that_fails_is_tried_again():
    assert Attempts(60, 5).wait_s(errors.Unreachable("refused")) > 0


def test_the_deadline_of_the_service_is_what_is_left_of_the_call():
    clock = Clock()
    attempts = Attempts(60, 5, clock)
    clock.now += 20
    call = core.generate("Tell me.", {"timeout_s": 60, "seed": 1})
    body = call.body_within(attempts.remaining_s())
    assert body == {"prompt": "Tell me.", "seed": 1, "timeout_s": 40}
    clock.now += 40
    with pytest.raises(errors.DeadlineExceeded):
        attempts.remaining_s()


def test_items_have_the_deadline_of_their_call_unless_they_name_one():
    items = [{"answer": "Paris"}, {"answer": "Lyon", "timeout_s": 3}]
    body = core.score_all(items, None).body_within(40)
    assert [item["timeout_s"] for item in body["items"]] == [40, 3]


def test_events_may_come_in_pieces_of_any_size():
    stream = (
        b":\n\n"
        b'event: token\ndata: {"text": "\xc3\xa9", "logprob": -0.5, "entropy": null}\n\n'
        b'event: token\ndata: {"text": "", "logprob": null, "entropy": null}\n\n'
    )
    for size in (1, 2, 7, len(stream)):
        reading, tokens = Reading(), []
        for start in range(0, len(stream), size):
            tokens += reading.tokens(stream[start : start + size])
        assert [(token.text, token.logprob) for token in tokens] == [("é", -0.5), ("", None)]
        with pytest.raises(errors.Unreachable):
            reading.ended()


def test_a_code_that_is_not_known_is_the_root():
    told = {"code": "brand_new", "message": "new", "field": None, "request_id": "1"}
    error = errors.error_of(errors.ErrorBody.model_validate(told), 418)
    assert (type(error), error.code, error.status) == (errors.CocoaError, "brand_new", 418)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("localhost:8000", "http://"),
        ("cocoa.example.com", "http://"),
        ("", "http://"),
        ("ftp://cocoa", "http://"),
        ("http://localhost:8000/v1", "/generate-with-uncertainty"),
        ("http://localhost:8000/v1/", "/generate-with-uncertainty"),
    ],
)
def test_a_url_that_cannot_be_one_of_a_service_is_refused_at_once(url, why):
    for kind in (Client, AsyncClient):
        with pytest.raises(ValueError, match=why):
            kind(url)


@pytest.mark.parametrize("url", ["http://localhost:8000", "https://cocoa/", "http://host/v1/cocoa"])
def test_a_service_may_lie_below_any_path(url):
    assert core.checked_url(url) == url
