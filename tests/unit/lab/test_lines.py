"""Files of lines whose last one may be half: what is whole."""

import pytest

from cocoa_lab.lines import complete_lines
from tests.unit.app.test_lines import CASES


@pytest.mark.parametrize(("content", "lines"), CASES.values(), ids=CASES)
def test_only_whole_lines_count(tmp_path, content, lines):
    path = tmp_path / "lines"
    path.write_bytes(content)
    assert list(complete_lines(path)) == lines
