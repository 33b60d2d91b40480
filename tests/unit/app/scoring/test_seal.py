"""Seals: nothing but the payload that was sealed under a name comes out under it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.scoring.memory import seal, unseal


@given(st.text(), st.binary())
def test_what_was_sealed_comes_out_under_its_name(name, payload):
    assert unseal(name, seal(name, payload)) == payload


@given(st.text(), st.binary(), st.text())
def test_nothing_comes_out_under_another_name(name, payload, other):
    entry = seal(name, payload)
    if other != name:
        with pytest.raises(ValueError, match="this name"):
            unseal(other, entry)


@given(st.binary(max_size=40), st.data())
def test_no_bit_can_be_flipped(payload, data):
    entry = bytearray(seal("a", payload))
    bit = data.draw(st.integers(0, 8 * len(entry) - 1))
    entry[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ValueError, match="this name"):
        unseal("a", bytes(entry))


@given(st.binary(max_size=40), st.data())
def test_nothing_can_be_cut_off_or_put_on(payload, data):
    entry = seal("a", payload)
    end = data.draw(st.integers(0, len(entry) - 1))
    for other in (entry[:end], entry + entry[end:]):
        with pytest.raises(ValueError, match="this name"):
            unseal("a", other)


def test_the_end_of_a_name_is_not_the_beginning_of_a_payload():
    with pytest.raises(ValueError, match="this name"):
        unseal("a", seal("ab", b"c")[:16] + b"bc")
