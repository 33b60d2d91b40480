"""Lines in order whatever order results come in, a half-written one dropped, headers compared."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cocoa_lab.lines import complete_lines
from cocoa_lab.log import AnotherRun, InOrder, LineFile, check_same


@dataclass(frozen=True)
class MadeHeader:
    model: str = "fake"
    layers: tuple[int, ...] = (1, 2)
    sampling: dict = field(default_factory=lambda: {"top_k": 50})


def lines(path):
    return list(complete_lines(path))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (MadeHeader(model="other"), "this folder has model = 'other', this run has 'fake'"),
        (MadeHeader(layers=(1,)), r"layers = \[1\], this run has \[1, 2\]"),
        (MadeHeader(sampling={"top_k": 1}), "sampling"),
        (MadeHeader(model="other", layers=()), "model"),
    ],
    ids=["text", "tuple", "mapping", "the first of two"],
)
def test_the_first_difference_of_headers_is_named(found, message):
    with pytest.raises(AnotherRun, match=message):
        check_same(found, MadeHeader(), "this folder has")


@given(st.permutations(range(7)))
def test_items_are_written_in_order_and_none_waits_for_longer_than_it_has_to(order):
    written = []
    ordered = InOrder(written.append)
    come = set()
    for position in order:
        ordered.put(position, position)
        come.add(position)
        first_missing = next(i for i in range(8) if i not in come)
        assert written == list(range(first_missing))


def test_each_line_is_on_disk_as_soon_as_it_is_appended(tmp_path):
    path = tmp_path / "lines.jsonl"
    file = LineFile(path)
    file.append({"text": "Zürich\n", "values": [0.1, None]})

    assert path.read_bytes() == '{"text":"Zürich\\n","values":[0.1,null]}\n'.encode()
    file.close()


@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (b"", b""),
        (b'{"a"', b""),
        (b'{"a":1}\n', b'{"a":1}\n'),
        (b'{"a":1}\n{"a":', b'{"a":1}\n'),
        (b'{"a":1}\n' + b"x" * 200_000, b'{"a":1}\n'),
        (b"y" * 200_000 + b"\n" + b"x" * 100_000, b"y" * 200_000 + b"\n"),
    ],
    ids=["empty", "half a line", "whole", "half a second line", "long half line", "long lines"],
)
def test_a_half_written_last_line_is_dropped(tmp_path, content, kept):
    path = tmp_path / "lines.jsonl"
    path.write_bytes(content)
    assert b"".join(lines(path)) == kept
    file = LineFile(path)
    file.append({})
    file.close()

    assert path.read_bytes() == kept + b"{}\n"


def test_a_file_is_cut_to_the_bytes_that_its_owner_keeps(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_bytes(b"{}\n{}\n{}\n")
    LineFile(path, num_bytes=3).close()

    assert path.read_bytes() == b"{}\n"
