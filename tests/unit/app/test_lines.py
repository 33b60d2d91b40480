"""Files of lines whose last one may be half: where what is whole ends."""

import pytest

from app.lines import end_of_last_line

LONG = b"x" * 70_000


CASES = {
    "empty": (b"", []),
    "half": (b"half", []),
    "whole": (b"a\n", [b"a\n"]),
    "several and a half": (b"a\n\nb\nhalf", [b"a\n", b"\n", b"b\n"]),
    "long ones": (LONG + b"\n" + LONG, [LONG + b"\n"]),
    "long half": (LONG, []),
}


@pytest.mark.parametrize(("content", "lines"), CASES.values(), ids=CASES)
def test_only_whole_lines_count(tmp_path, content, lines):
    path = tmp_path / "lines"
    path.write_bytes(content)
    assert end_of_last_line(path) == sum(map(len, lines))
