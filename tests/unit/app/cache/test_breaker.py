"""The breaker as a sequence of faults and probes."""

from app.cache.breaker import Breaker

CALM_S = 30


def closed():
    breaker = Breaker()
    breaker.succeed()
    return breaker


def test_at_the_start_nothing_is_asked_and_the_first_probe_comes_at_once():
    breaker = Breaker()
    assert breaker.is_open
    assert breaker.pause_s == 0


def test_a_first_probe_that_succeeds_closes_it_and_is_no_news():
    breaker = Breaker()
    assert not breaker.succeed()
    assert not breaker.is_open


def test_a_first_probe_that_fails_is_news_once():
    breaker = Breaker()
    assert [breaker.fail(now) for now in (0, 1, 2, 100)] == [True, False, False, False]
    assert breaker.is_open


def test_the_first_fault_opens_it_and_one_probe_decides_at_once_before_anything_is_reported():
    breaker = closed()
    assert not breaker.fail(100)
    assert breaker.is_open
    assert breaker.pause_s == 0


def test_an_isolated_fault_that_the_probe_does_not_confirm_is_never_reported():
    breaker = closed()
    assert not breaker.fail(100)
    assert not breaker.succeed()
    assert not breaker.is_open


def test_a_fault_that_the_probe_confirms_is_reported_when_it_comes_and_when_it_goes():
    breaker = closed()
    breaker.fail(100)
    assert breaker.fail(100.1)
    assert breaker.pause_s == 1
    assert breaker.succeed()
    assert not breaker.is_open


def test_a_second_fault_soon_after_the_first_is_reported_at_once_and_the_probe_takes_its_time():
    breaker = closed()
    breaker.fail(100)
    breaker.succeed()
    assert breaker.fail(100 + CALM_S - 1)
    assert breaker.is_open
    assert breaker.pause_s == 1


def test_after_enough_calm_a_fault_counts_as_the_first_again():
    breaker = closed()
    breaker.fail(100)
    breaker.succeed()
    assert not breaker.fail(100 + CALM_S)
    assert breaker.pause_s == 0
