"""Files of prompts with labelled fields: read as they stand, and refused with file, line, field."""

import json

import pytest

from app.scoring.ask import GivenClaim
from cocoa_lab.judges import Verdict
from cocoa_lab.parts.examples import read_parts

LABELS = [{"path": "/total", "label": True}, {"path": "/a~1b", "label": 0}]


@pytest.fixture
def read(tmp_path):
    """`read_parts` of a file with these lines."""

    def read(*lines, units="fields"):
        path = tmp_path / "mine.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return read_parts(path, units)

    return read


def test_labels_by_path_and_references_are_read(read):
    first, second = read(
        {"prompt": "Which?", "output": "{}", "units": LABELS, "max_new_tokens": 9},
        {"id": "mine", "prompt": "Which?", "output": "[]", "reference": {"total": 7}},
    )

    assert first.labels == [("/total", Verdict(is_right=True)), ("/a~1b", Verdict(is_right=False))]
    assert (first.output, first.example.max_new_tokens, first.has_reference) == ("{}", 9, False)
    assert (first.example.id, first.example.task, first.json_schema) == ("mine-1", "mine", True)
    assert (second.example.id, second.reference) == ("mine", {"total": 7})


def test_chats_without_outputs_are_read(read):
    messages = [{"role": "user", "content": "Hi"}]
    [one] = read({"messages": messages, "reference": [1], "ignored": ["/0"]})

    assert one.example.messages == ({"role": "user", "content": "Hi"},)
    assert one.output is None
    assert one.ignored == {"/0"}


def test_chats_with_tools_have_the_right_calls_or_a_text_where_none_is(read):
    messages = [{"role": "user", "content": "Weather in Lima?"}]
    chat = {"messages": messages, "tools": [{"type": "function", "function": {"name": "weather"}}]}
    calls = [{"name": "weather", "arguments": {"city": "Lima"}}]
    called, told = read({**chat, "reference": calls}, {**chat, "reference": "Mild."})

    assert (called.reference, told.reference) == (calls, "Mild.")
    assert called.tools[0]["function"]["parameters"] == {"type": "object", "properties": {}}


def test_a_call_may_be_required_and_the_answer_is_held_to_one_then(read):
    tools = [{"type": "function", "function": {"name": "weather"}}]
    line = {"prompt": "Weather?", "tools": tools, "reference": []}
    [may_call] = read(line)
    [must_call] = read({**line, "tool_choice": "required"})

    assert may_call.held_to is None
    assert must_call.held_to["properties"]["name"] == {"const": "weather"}
    with pytest.raises(ValueError, match="field 'tool_choice' is neither"):
        read({"prompt": "Weather?", "reference": {}, "tool_choice": "required"})
    with pytest.raises(ValueError, match="field 'tool_choice' is neither"):
        read({**line, "tool_choice": "any"})


def test_tools_and_calls_that_are_none_are_refused_with_their_field(read):
    nameless = [{"type": "function", "function": {}}]
    with pytest.raises(ValueError, match=r"field 'tools': 0\.function\.name: Field required"):
        read({"prompt": "?", "reference": [], "tools": nameless})
    named = [{"type": "function", "function": {"name": "weather"}}]
    with pytest.raises(ValueError, match="field 'reference' is no list of calls"):
        read({"prompt": "?", "reference": {"name": "weather"}, "tools": named})


def test_sentences_have_labels_by_text_or_a_judge(read):
    unit = {"text": "Lima is a port.", "label": False, "error": "confused"}
    labelled, judged = read(
        {"prompt": "?", "units": [unit, unit]},
        {"prompt": "?", "judge": "world", "subject": "Lima"},
        units="sentences",
    )

    assert labelled.labels == [("Lima is a port.", Verdict(False, "confused"))] * 2
    assert (labelled.judge, judged.labels) == (None, [])
    assert judged.judge is not None


def test_claims_are_those_that_are_labelled(read):
    units = [
        {"text": "Lima is a port.", "label": False, "quotes": ["Lima", "port"]},
        {"text": "It is old.", "label": True},
    ]
    [one] = read({"prompt": "?", "output": "Lima, a port.", "units": units}, units="claims")

    assert one.claims == (GivenClaim("Lima is a port.", ("Lima", "port")), GivenClaim("It is old."))
    assert [verdict.is_right for _, verdict in one.labels] == [False, True]


OF_CLAIMS = {"prompt": "?", "output": "Lima.", "units": [{"text": "Lima.", "label": True}]}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"output": None}, "field 'output' is needed"),
        ({"units": [{"text": "L.", "label": True, "quotes": "L"}]}, "'quotes'"),
        ({"units": [{"text": "L.", "label": True, "quotes": [""]}]}, "'quotes'"),
    ],
    ids=["no output", "no list", "an empty quote"],
)
def test_claims_that_cannot_be_compared_are_refused_with_their_field(read, changes, said):
    with pytest.raises(ValueError, match="line 1: ") as caught:
        read(OF_CLAIMS | changes, units="claims")
    assert said in str(caught.value)


GOOD = {"prompt": "Which?", "units": LABELS}
BAD = {
    "no labels": ({"prompt": "Which?"}, "exactly one of the fields 'units' and 'reference'"),
    "both": ({**GOOD, "reference": {}}, "exactly one of the fields"),
    "a reference of text": ({"prompt": "?", "reference": "7"}, "no JSON object or array"),
    "an output that is no text": ({**GOOD, "output": {}}, "field 'output'"),
    "no schema": ({**GOOD, "json_schema": 7}, "field 'json_schema'"),
    "no list": ({**GOOD, "units": {}}, "field 'units' is not a list"),
    "no label": ({**GOOD, "units": [{"path": "/a"}]}, "needs a 'label'"),
    "a label of text": ({**GOOD, "units": [{"path": "/a", "label": "yes"}]}, "needs a 'label'"),
    "no path": ({**GOOD, "units": [{"label": True}]}, "needs a 'path'"),
    "a path twice": ({**GOOD, "units": LABELS[:1] * 2}, "a path occurs twice"),
    "no prompt": ({"units": LABELS}, "field 'prompt' or 'messages'"),
    "what is ignored is no list": ({**GOOD, "ignored": "/a"}, "field 'ignored'"),
    "an id twice": ({**GOOD, "id": "mine-1"}, "occurs twice"),
    "an output in one line": ({**GOOD, "output": "{}"}, "all lines have an answer that is given"),
    "a schema in one line": ({**GOOD, "json_schema": {}}, "all lines have a schema, or none"),
}


@pytest.mark.parametrize(("line", "said"), BAD.values(), ids=list(BAD))
def test_a_line_that_says_nothing_is_refused_with_its_field(read, line, said):
    with pytest.raises(ValueError, match=r"mine\.jsonl, line 2: ") as caught:
        read(GOOD, line)
    assert said in str(caught.value)


def test_a_file_without_lines_is_refused(read):
    with pytest.raises(ValueError, match="holds no example"):
        read()


OF_SENTENCES = {"prompt": "Which?", "units": [{"text": "Lima.", "label": True}]}
BAD_SENTENCES = {
    "neither": ({"prompt": "Which?"}, "exactly one of the fields 'units' and 'judge'"),
    "both": ({**OF_SENTENCES, "judge": "world"}, "exactly one of the fields"),
    "an unknown judge": (
        {"prompt": "?", "judge": "me"},
        "field 'judge' is none of facts, documents, world",
    ),
    "an unknown place": ({"prompt": "?", "judge": "world", "subject": "Atlantis"}, "'subject'"),
    "a path": ({**OF_SENTENCES, "units": LABELS}, "needs a 'text'"),
    "an error of another type": (
        {**OF_SENTENCES, "units": [{"text": "L.", "label": False, "error": 1}]},
        "'error'",
    ),
    "a reference": ({**OF_SENTENCES, "reference": {}}, "'reference' is of fields"),
    "a schema": ({**OF_SENTENCES, "json_schema": {}}, "'json_schema'"),
}


@pytest.mark.parametrize(("line", "said"), BAD_SENTENCES.values(), ids=list(BAD_SENTENCES))
def test_a_line_that_says_nothing_of_sentences_is_refused_with_its_field(read, line, said):
    with pytest.raises(ValueError, match=r"mine\.jsonl, line 2: ") as caught:
        read(OF_SENTENCES, line, units="sentences")
    assert said in str(caught.value)
