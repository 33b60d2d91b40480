"""The command line as reports show it."""

import pytest

from cocoa_lab.commands.command_line import command_line


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["evaluate", "my file.jsonl"], "cocoa evaluate 'my file.jsonl'", id="quotes"),
        pytest.param(
            ["--judge-key", "SECRET", "--seed", "1"], "cocoa --judge-key '…' --seed 1", id="blank"
        ),
        pytest.param(["--judge-key=SECRET"], "cocoa '--judge-key=…'", id="equals sign"),
        pytest.param(["--judge-key=a=SECRET"], "cocoa '--judge-key=…'", id="two equals signs"),
        pytest.param(
            ["--judge-url=https://me:SECRET@host/v1"],
            "cocoa '--judge-url=https://…@host/v1'",
            id="url",
        ),
    ],
)
def test_the_command_is_shown_without_secrets(arguments, expected):
    assert command_line(arguments) == expected
