"""Options that commands share."""

import pytest
from typer.testing import CliRunner

from app.cli import app


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--url", "localhost:8000", "should be a URL, as http://localhost:8000"),
        ("--url", "", "should be a URL, as http://localhost:8000"),
        ("--url", "http://", "should be a URL, as http://localhost:8000"),
        ("--url", "http://localhost:99999", "should be a URL, as http://localhost:8000"),
        ("--key", "k\u00e9y", "has characters that no key has"),
    ],
)
def test_a_url_or_key_that_is_none_is_said_before_anything_is_asked(option, value, told):
    commands = [["ask", "Hi"]] if option == "--key" else [["ask", "Hi"], ["doctor"]]
    for command in commands:
        result = CliRunner().invoke(app, [*command, option, value])
        assert result.exit_code == 2
        assert told in " ".join(result.stderr.replace("│", " ").split())
