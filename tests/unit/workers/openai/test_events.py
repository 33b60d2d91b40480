"""Events of a stream become choices, or make no sense."""

import json

import pytest

from models.units.tool_calls import read
from workers.openai.replies import read_choices
from workers.remote.client import Unreachable


def called(index, name="", arguments=""):
    function = {"name": name, "arguments": arguments}
    return {"choices": [{"delta": {"tool_calls": [{"index": index, "function": function}]}}]}


def test_calls_are_joined_by_their_numbers():
    events = [called(0, "weather", '{"city":'), called(1, "time"), called(0, "", ' "Lima"}')]
    [choice] = read_choices(events, 1)
    calls = read(choice.text, ["weather", "time"])
    assert [call.name for call in calls] == ["weather", "time"]
    assert [json.loads(call.arguments) for call in calls] == [{"city": "Lima"}, {}]


@pytest.mark.parametrize("calls", [7, [7], [{"index": [0]}], [{"function": "weather"}]])
def test_pieces_that_are_no_calls_make_no_sense(calls):
    with pytest.raises(Unreachable, match=r"makes no sense|cannot be understood"):
        read_choices([{"choices": [{"delta": {"tool_calls": calls}}]}], 1)


def written(index, text, finish_reason=None):
    logprobs = {"tokens": [text], "token_logprobs": [-0.5]}
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish_reason}


def test_choices_of_a_stream_are_kept_apart_by_their_numbers():
    pieces = [(1, "Ro"), (0, "Par"), (1, "me"), (0, "is")]
    events = [{"choices": [written(index, text)]} for index, text in pieces]
    events.append({"choices": [written(index, ".", "stop") for index in (1, 0)]})
    choices = read_choices([*events, {"choices": None, "usage": {}}], 2)
    assert [choice.text for choice in choices] == ["Paris.", "Rome."]
    assert [choice.logprobs.tolist() for choice in choices] == [[-0.5] * 3] * 2


@pytest.mark.parametrize("index", [None, 0])
def test_choices_of_a_whole_reply_need_no_numbers(index):
    reply = {"choices": [written(index, text, "stop") for text in ("Rome", "Paris")]}
    assert [choice.text for choice in read_choices([reply], 2)] == ["Rome", "Paris"]
