"""Admission: places are limited, and freed however a request ends.

A refusal says when to come back.
"""

from contextlib import ExitStack

import pytest

from models.errors import Overloaded
from workers.admission import Admission


class Clock:
    """Stands for the `time` module."""

    now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("workers.admission.time", clock)
    return clock


def refused(admission):
    with pytest.raises(Overloaded) as caught, admission.admit():
        pass
    return caught.value


def test_as_many_are_admitted_as_the_limit_says():
    admission = Admission(2)
    with admission.admit(), admission.admit():
        assert admission.num_admitted == 2
        assert "2 requests" in refused(admission).message
        assert admission.num_admitted == 2, "a refusal takes no place"
    assert admission.num_admitted == 0


def test_a_freed_place_is_given_again():
    admission = Admission(1)
    for _ in range(3):
        with admission.admit():
            refused(admission)


@pytest.mark.parametrize(
    "error", [ValueError, KeyboardInterrupt, GeneratorExit], ids=lambda error: error.__name__
)
def test_a_place_is_freed_when_its_request_fails(error):
    admission = Admission(1)
    with pytest.raises(error), admission.admit():
        raise error
    assert admission.num_admitted == 0


# id: (limit, seconds of each of the requests that ended, idle seconds since then, seconds since
# all places are taken, expected)
RETRY_AFTER = {
    "nothing has ended yet": (4, [], 0, 0, 1),
    "one a second": (4, [1] * 10, 0, 0, 4),
    "ten a second": (4, [0.1] * 10, 0, 0, 1),
    "one in ten seconds": (4, [10] * 3, 0, 0, 40),
    "slower than a minute": (4, [100] * 3, 0, 0, 60),
    "only the recent ones count": (4, [1000] * 100 + [1] * 64, 0, 0, 4),
    "a standstill grows it": (1, [1], 0, 20, 21),
    "a burst after an idle hour": (64, [0.05], 3600, 0, 4),
}


@pytest.mark.parametrize(
    ("limit", "durations", "idle_s", "taken_s", "expected"),
    RETRY_AFTER.values(),
    ids=list(RETRY_AFTER),
)
def test_retry_after_is_the_queue_over_the_recent_rate(
    clock, limit, durations, idle_s, taken_s, expected
):
    admission = Admission(limit)
    for duration in durations:
        with admission.admit():
            clock.now += duration
    clock.now += idle_s
    with ExitStack() as places:
        for _ in range(limit):
            places.enter_context(admission.admit())
        clock.now += taken_s
        assert refused(admission).retry_after_s == expected


def test_requests_beside_each_other_share_the_time(clock):
    admission = Admission(4)
    with ExitStack() as places:
        for _ in range(4):
            places.enter_context(admission.admit())
        clock.now += 8
    with ExitStack() as places:
        for _ in range(4):
            places.enter_context(admission.admit())
        assert refused(admission).retry_after_s == 8  # 4 places, 2 s for each that ended
