"""Files of lines whose last one may be half: what is whole."""

import pytest

from cocoa_lab.lines import complete_lines, objects_in
from tests.unit.app.test_lines import CASES


@pytest.mark.parametrize(("content", "lines"), CASES.values(), ids=CASES)
def test_only_whole_lines_count(tmp_path, content, lines):
    path = tmp_path / "lines"
    path.write_bytes(content)
    assert list(complete_lines(path)) == lines


@pytest.mark.parametrize("damaged", ["no JSON", "[1]", '{"b": 1}'])
def test_a_line_that_is_damaged_is_named_with_its_file(tmp_path, damaged):
    path = tmp_path / "lines"
    path.write_text(f'{{"a": "\u2028"}}\n{damaged}\n', encoding="utf-8")
    lines = objects_in(path, "a")
    assert next(lines) == {"a": "\u2028"}
    with pytest.raises(ValueError, match="lines, line 2: it is damaged"):
        next(lines)
