"""Events of a stream become one reply, or make no sense."""

import pytest

from workers.client import Unreachable
from workers.openai.streaming import merged


def called(index, name="", arguments=""):
    function = {"name": name, "arguments": arguments}
    return {"choices": [{"delta": {"tool_calls": [{"index": index, "function": function}]}}]}


def test_calls_are_joined_by_their_numbers():
    events = [called(0, "weather", '{"city":'), called(1, "time"), called(0, "", ' "Lima"}')]
    [choice] = merged(events)["choices"]
    assert [one["function"] for one in choice["message"]["tool_calls"]] == [
        {"name": "weather", "arguments": '{"city": "Lima"}'},
        {"name": "time", "arguments": ""},
    ]


@pytest.mark.parametrize("calls", [7, [7], [{"index": [0]}], [{"function": "weather"}]])
def test_pieces_that_are_no_calls_make_no_sense(calls):
    with pytest.raises(Unreachable, match="makes no sense"):
        merged([{"choices": [{"delta": {"tool_calls": calls}}]}])
