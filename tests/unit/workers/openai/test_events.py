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


@pytest.mark.parametrize("index", [1, 10**9, -1, "0", None])
def test_a_call_of_any_other_number_makes_no_sense(index):
    with pytest.raises(Unreachable, match="makes no sense"):
        merged([called(index, "weather")])
