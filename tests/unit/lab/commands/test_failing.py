"""Errors of commands, in words."""

from pathlib import Path

import pytest

from cocoa_lab.commands.failing import reason_of
from models.errors import EngineError, InvalidRequest


def test_a_missing_file_is_told_by_its_whole_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as error:
        Path("missing.jsonl").read_text()
    assert reason_of(error.value) == f"{tmp_path}/missing.jsonl: No such file or directory"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("no row has a quality"), "no row has a quality"),
        (EngineError("the model failed"), "the model failed"),
        (
            InvalidRequest("is not in the prompt", field="documents.0"),
            "documents.0: is not in the prompt",
        ),
        (OSError("Redis: unreachable"), "Redis: unreachable"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_no_class_of_python_stands_before_a_message(error, told):
    assert reason_of(error) == told
