"""Files of lines whose last one may be half: what is whole."""

import pytest

from cocoa_lab.lines import complete_lines

LONG = b"x" * 70_000


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"half", []),
        (b"a\n", [b"a\n"]),
        (b"a\n\nb\nhalf", [b"a\n", b"\n", b"b\n"]),
        (LONG + b"\n" + LONG, [LONG + b"\n"]),
        (LONG, []),
    ],
    ids=["empty", "half", "whole", "several and a half", "long ones", "long half"],
)
def test_only_whole_lines_count(tmp_path, content, lines):
    path = tmp_path / "lines"
    path.write_bytes(content)
    assert list(complete_lines(path)) == lines
