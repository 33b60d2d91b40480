"""Events of a stream become choices, or make no sense."""

import json

import pytest

from models.units.tool_calls import read
from workers.client import Unreachable
from workers.openai.replies import read_choices


def called(index, name="", arguments=""):
    function = {"name": name, "arguments": arguments}
    return {"choices": [{"delta": {"tool_calls": [{"index": index, "function": function}]}}]}


def test_calls_are_joined_by_their_numbers():
    events = [called(0, "weather", '{"city":'), called(1, "time"), called(0, "", ' "Lima"}')]
    [choice] = read_choices(events, 1)
    calls = [
        (call.name, json.loads(call.arguments)) for call in read(choice.text, ["weather", "time"])
    ]
    assert calls == [("weather", {"city": "Lima"}), ("time", {})]


@pytest.mark.parametrize("calls", [7, [7], [{"index": [0]}], [{"function": "weather"}]])
def test_pieces_that_are_no_calls_make_no_sense(calls):
    with pytest.raises(Unreachable, match=r"makes no sense|cannot be understood"):
        read_choices([{"choices": [{"delta": {"tool_calls": calls}}]}], 1)
