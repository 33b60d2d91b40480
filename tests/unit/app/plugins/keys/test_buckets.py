"""Buckets that fill up evenly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.plugins.keys.buckets import level_after, wait_s

AMOUNTS = st.integers(1, 10**9)
LEVELS = st.floats(-1e9, 1e9)
SECONDS = st.floats(0, 1e5)


@given(LEVELS, SECONDS, AMOUNTS)
def test_a_bucket_never_holds_more_than_a_minutes_worth(level, seconds, per_minute):
    assert level_after(level, seconds, per_minute) <= per_minute


@given(st.integers(-(10**6), 0), st.integers(1, 10**6))
def test_after_the_wait_it_holds_what_was_wanted(level, per_minute):
    seconds = wait_s(level, 1, per_minute)
    assert level_after(level, seconds, per_minute) == pytest.approx(1, abs=1e-6)


@given(LEVELS, AMOUNTS)
def test_a_clock_that_goes_back_takes_nothing(level, per_minute):
    assert level_after(level, -5.0, per_minute) == min(per_minute, level)


def test_what_is_there_needs_no_wait():
    assert wait_s(3, 1, 60) == 0
