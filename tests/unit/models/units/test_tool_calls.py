"""Tool calls in texts: formats that are known, what is no call, texts that are still growing."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.units.json_values import parse
from models.units.schemas import rules
from models.units.tool_calls import (
    Call,
    CallTrial,
    as_value,
    num_settled,
    read,
    schema_of,
    segments,
)

NAMES = ["get_weather", "now"]
TOOLS = [{"function": {"name": name}} for name in NAMES]
ONE = '{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}'
TWO = '{"name": "now", "arguments": {}}'
LLAMA = ONE.replace("arguments", "parameters")


def told(text, names=NAMES):
    found = []
    for one in read(text, names):
        found.append((one.name, json.loads(one.arguments)) if isinstance(one, Call) else one)
    return found


WEATHER, NOW = ("get_weather", {"city": "Paris", "days": 3}), ("now", {})
FORMATS = {
    "hermes": (f"<tool_call>\n{ONE}\n</tool_call>", [WEATHER]),
    "hermes, two": (f"<tool_call>{ONE}</tool_call>\n<tool_call>{TWO}</tool_call>", [WEATHER, NOW]),
    "hermes, not closed": (f"<tool_call>\n{ONE}", [WEATHER]),
    "hermes, among words": (
        f"Let me look. <tool_call>{ONE}</tool_call> Done.",
        ["Let me look.", WEATHER, "Done."],
    ),
    "hermes, a tool that there is not": ('<tool_call>{"name":"f","arguments":{}}', [("f", {})]),
    "an array in one block": (f"<tool_call>[{ONE}, {TWO}]</tool_call>", [WEATHER, NOW]),
    "mistral": (f"[TOOL_CALLS][{ONE}, {TWO}]", [WEATHER, NOW]),
    "mistral, without its special token": (f"[{ONE}, {TWO}]", [WEATHER, NOW]),
    "llama": (LLAMA, [WEATHER]),
    "llama, two": (f"<|python_tag|>{LLAMA}; {TWO}", [WEATHER, NOW]),
    "a tag inside an argument": (
        '<tool_call>{"name": "now", "arguments": {"a": "</tool_call><tool_call>"}}</tool_call>',
        [("now", {"a": "</tool_call><tool_call>"})],
    ),
}


@pytest.mark.parametrize("one", ["[1]", TWO])
def test_each_of_many_values_is_read_for_itself_alone(one, monkeypatch):
    lengths, loads = [], json.loads
    monkeypatch.setattr(json, "loads", lambda text, **how: lengths.append(len(text)) or loads(text))
    read(one * 500, NAMES)
    assert sum(lengths) < 3 * len(one * 500)


@pytest.mark.parametrize(("text", "expected"), FORMATS.values(), ids=FORMATS.keys())
def test_calls_are_found_in_every_format_that_is_known(text, expected):
    assert told(text) == expected


NO_CALLS = {
    "words": "It is 21 degrees.",
    "nothing said of arguments": '<tool_call>{"name": "now"}</tool_call>',
    "arguments in a string": '<tool_call>{"name": "now", "arguments": "{}"}</tool_call>',
    "cut": '<tool_call>{"name": "now", "argume',
    "NaN": '<tool_call>{"name": "now", "arguments": {"a": NaN}}</tool_call>',
    "a name that is a number": '<tool_call>{"name": 7, "arguments": {}}</tool_call>',
    "JSON of no tool": '{"name": "Ada", "arguments": {"for": 1}}',
    "a call and words without a mark": f"{ONE} is what I would call",
    "words and a call without a mark": f"I would call {ONE}",
    "other JSON": '{"city": "Paris"}',
    "half of a call, half of none": f"[{ONE}, 7]",
    "no end of brackets": "[" * 9000,
    "an empty array": "[]",
}


@pytest.mark.parametrize("text", NO_CALLS.values(), ids=NO_CALLS.keys())
def test_what_is_no_call_is_text(text):
    assert told(text) == [text]
    assert as_value(text, TOOLS) is None


@pytest.mark.parametrize("text", [case[0] for case in FORMATS.values()], ids=FORMATS.keys())
@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_growing_text_is_settled_where_the_whole_one_says_the_same(text, size):
    found, start = [], 0
    for end in [*range(size, len(text), size), len(text)]:
        settled = start + num_settled(text[start:end], is_start=start == 0)
        if settled > start:
            found += segments(text[start:settled], NAMES if start == 0 else ())
            start = settled
    found += segments(text[start:], NAMES if start == 0 else ())
    calls = [one.arguments for one in found if isinstance(one, Call)]
    assert calls == [one.arguments for one in read(text, NAMES) if isinstance(one, Call)]
    words = "".join(one for one in found if isinstance(one, str))
    assert words.split() == " ".join(one for one in told(text) if isinstance(one, str)).split()


@given(st.text(alphabet='<tool_call>/{}[]"name:argu ts,;\n\\', max_size=80))
def test_no_text_breaks_it(text):
    words = "".join(one for one in segments(text, ["name"]) if isinstance(one, str))
    assert as_value(text, [{"function": {"name": "name"}}]) is not None or words == text
    assert 0 <= num_settled(text, is_start=True) <= len(text)


def test_the_schema_of_calls_says_how_arguments_are_compared():
    date = {"type": "string", "format": "date"}
    place = {"type": "object", "properties": {"day": {"$ref": "#/$defs/day"}}}
    tools = [
        {"function": {"name": "now"}},
        {"function": {"name": "book", "parameters": place | {"$defs": {"day": date}}}},
    ]
    text = '[{"name": "book", "arguments": {"day": "2026-11-22", "note": "by the window"}}]'
    found = rules(as_value(text, tools), schema_of(tools))
    assert found["/0/function/name"].exact
    assert found["/0/function/arguments/day"].exact
    assert not found["/0/function/arguments/note"].exact


RENDERED = {
    "qwen": ("<|im_start|>assistant\n", "<tool_call>\n%s\n</tool_call><|im_end|>\n", True),
    "qwen, opened": ("<|im_start|>assistant\n", "<tool_call>\n%s\n</tool_call>", True),
    "llama": ("<|end_header_id|>\n\n", "%s<|eot_id|>", True),
    "mistral": ("[/INST]", "[TOOL_CALLS] [%s]</s>", True),
    "another one": ("<a>\n", '<|tool_sep|>get\n```json\n{"place": "x"}\n```', False),
    "in another frame": ("<a>\n", "<function=%s>", False),
    "other keys": ("<a>\n", '{"tool": %s}', False),
    "dropped": ("<a>\n", "<|im_end|>", False),
}


@pytest.mark.parametrize(("prompt", "frame", "is_known"), RENDERED.values(), ids=RENDERED.keys())
def test_a_template_is_known_if_its_calls_can_be_read_back(prompt, frame, is_known):
    trial = CallTrial()
    [user, message] = trial.chat
    [call] = message["tool_calls"]
    name = call["function"]["name"]
    arguments = parse(call["function"]["arguments"]).plain()
    written = json.dumps({"name": name, "arguments": arguments})
    before = f"<tool_call>{{name}}</tool_call> {user['content']}{prompt}"
    rendered = before + frame.replace("%s", written)
    opening = "<think>\n" if is_known and "tool_call" in frame else ""
    assert trial.reads_back(before + opening, rendered) is is_known
    assert not CallTrial().reads_back(before, rendered)
