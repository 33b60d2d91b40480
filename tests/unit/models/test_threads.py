"""ModelThread tells since when its running call has run; a waiting call does not count."""

import threading
import time

import pytest

from models.threads import ModelThread


@pytest.fixture
def thread():
    with ModelThread("test") as running:
        yield running


def test_a_call_is_busy_from_its_beginning_to_its_end(thread):
    begun, go_on = threading.Event(), threading.Event()

    def call():
        begun.set()
        assert go_on.wait(30)

    assert thread.busy_since is None
    earliest = time.monotonic()
    future = thread.submit(call)
    assert begun.wait(30)
    assert earliest <= thread.busy_since <= time.monotonic()
    go_on.set()
    future.result(30)
    assert thread.busy_since is None


def test_a_call_that_waits_for_its_turn_is_not_counted_from_its_submission(thread):
    begun, go_on = threading.Event(), threading.Event()

    def first():
        begun.set()
        assert go_on.wait(30)
        return time.monotonic()

    ended = thread.submit(first)
    since = thread.submit(lambda: thread.busy_since)
    assert begun.wait(30)
    go_on.set()
    assert since.result(30) >= ended.result(30)


def test_a_call_that_raises_leaves_the_thread_free(thread):
    with pytest.raises(ZeroDivisionError):
        thread.submit(lambda: 1 / 0).result(30)
    assert thread.busy_since is None


def test_the_initializer_runs_on_the_thread_first():
    calls = []

    def initialize(argument):
        calls.append((argument, threading.current_thread().name))

    with ModelThread("named", initializer=initialize, initargs=("x",)) as thread:
        thread.submit(calls.append, "call").result(30)
    assert calls == [("x", "named_0"), "call"]
