"""What a mistyped name was meant to be."""

import pytest

from app import spelling
from app.spelling import closest, did_you_mean

NAMES = ("num_samples", "max_new_tokens", "temperature")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("num_sample", "num_samples"), ("temmperature", "temperature"), ("zebra", None), ("", None)],
)
def test_the_name_most_like_it_was_meant(name, meant):
    assert closest(name, NAMES) == meant


def test_a_name_of_900_kb_is_compared_with_nothing(monkeypatch):
    compared = []
    monkeypatch.setattr(spelling, "get_close_matches", lambda *a, **k: compared.append(a) or [])
    assert closest("x" * 900_000, NAMES) is None
    assert compared == []
    assert closest("x", NAMES) is None
    assert len(compared) == 1


def test_a_message_asks_only_where_something_was_meant():
    assert did_you_mean("port") == "; did you mean port?"
    assert did_you_mean(None) == ""
