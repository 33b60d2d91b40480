"""The prompts about the world, and what is right in answers to them."""

import json

import pytest

from cocoa_lab.embedded.world.corpus import knowledge_of
from cocoa_lab.embedded.world.labels import labelled
from cocoa_lab.embedded.world.pen import Pen
from cocoa_lab.embedded.world.reasonings import reasoning
from cocoa_lab.embedded.world.testbed import (
    NEVER_SHOWN,
    TASKS,
    Line,
    all_lines,
    lines_of,
    read_testbed,
    write_probe_prompts,
    write_testbed,
)


@pytest.fixture(scope="module")
def knowledge():
    return knowledge_of(0)


@pytest.fixture(scope="module")
def lines(knowledge):
    return all_lines(knowledge, 150)


def labels(knowledge, line, output):
    return [(one.path or one.text, one.label) for one in labelled(knowledge.world, line, output)]


def call_text(*calls):
    return "\n".join(f"<tool_call>\n{json.dumps(call)}\n</tool_call>" for call in calls)


def right_answer(line):
    if line.task == "json":
        return json.dumps(line.reference)
    if isinstance(line.reference, list):
        return call_text(*line.reference)
    return f"<think>\nSo.\n</think>\n\n{line.references[-1]}"


def test_there_are_enough_prompts_and_all_differ(knowledge):
    for task in TASKS:
        drawn = lines_of(knowledge, task)
        assert len(drawn) >= 700
        assert len({str(line.messages) for line in drawn}) == len(drawn)


def test_a_probes_prompts_are_none_of_the_testbeds_and_have_no_labels(knowledge, tmp_path):
    write_probe_prompts(knowledge, tmp_path / "prompts.jsonl", 20)
    drawn = [json.loads(line) for line in (tmp_path / "prompts.jsonl").read_text().splitlines()]
    held_out = {line.messages[0]["content"] for line in lines_of(knowledge, "paragraph")}
    asked = {one["messages"][0]["content"] for one in drawn}
    assert len(asked) == 20
    assert asked.isdisjoint(held_out)
    assert all(one.keys() == {"id", "task", "messages", "max_new_tokens"} for one in drawn)


def test_right_answers_are_right_in_all_their_parts(knowledge, lines):
    for task in ("json", "call", "reasoning"):
        for line in lines[task]:
            found = labelled(knowledge.world, line, right_answer(line))
            assert {one.label for one in found} == {"true"}, line


def test_what_is_trained_is_no_prompt_of_reasoning(knowledge, lines):
    trained = set()
    for i in range(400):
        trained.add(reasoning(knowledge, Pen(f"test:{i}")).messages[0]["content"])
    asked = {line.messages[0]["content"] for line in lines["reasoning"]}

    assert len(trained) > 300
    assert not trained & asked


def test_prompts_also_ask_for_places_and_facts_that_training_never_tells(knowledge, lines):
    unseen = [line for line in lines["paragraph"] if line.fame == NEVER_SHOWN]
    places = knowledge.world.places
    untold = 0
    for line in lines["json"]:
        place = places[line.subject]
        untold += any(knowledge.telling(place, one) == "untold" for one in list(line.reference)[1:])

    assert 2 <= len(unseen) <= 30
    assert not any(knowledge.is_seen(places[line.subject]) for line in unseen)
    assert untold > 20


def test_lines_are_read_back_as_they_were_written(knowledge, tmp_path):
    write_testbed(knowledge, tmp_path, count=5)

    assert read_testbed(tmp_path) == all_lines(knowledge, 5)


RECORD = Line(
    id="",
    task="json",
    kind="nested",
    messages=[],
    subject="Lima",
    json_schema={
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "population": {"type": "integer", "x-relative-tolerance": 0.1},
            "country": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "neighbours": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
    },
    ignored=["/name"],
    reference={
        "name": "Lima",
        "population": 7_700_000,
        "country": {"name": "Peru", "neighbours": ["Bolivia", "Brazil", "Chile"]},
    },
)


def test_each_field_of_a_record_is_right_or_wrong_by_itself(knowledge):
    answer = {
        "name": "Lima",
        "population": 7_000_000,  # within a tenth
        "country": {"name": "Chile", "neighbours": ["Chile", "Brazil", "Ecuador"]},
    }

    assert labels(knowledge, RECORD, json.dumps(answer)) == [
        ("/population", "true"),
        ("/country/name", "false"),
        ("/country/neighbours/0", "true"),
        ("/country/neighbours/1", "true"),
        ("/country/neighbours/2", "false"),
    ]


def test_a_record_that_is_no_json_is_one_wrong_answer(knowledge):
    assert labels(knowledge, RECORD, '{"name": "Lima"') == [('{"name": "Lima"', "false")]


CALLS = Line(
    id="",
    task="call",
    kind="two_calls",
    messages=[],
    reference=[
        {"name": "get_time", "arguments": {"city": "Lima"}},
        {"name": "get_time", "arguments": {"city": "Quito"}},
    ],
)


def test_arguments_of_calls_are_fields_of_their_array(knowledge):
    lima = {"name": "get_time", "arguments": {"city": "Lima"}}
    rome = {"name": "get_weather", "arguments": {"city": "Rome"}}

    assert labels(knowledge, CALLS, call_text(lima, rome)) == [
        ("/0/function/name", "true"),
        ("/0/function/arguments/city", "true"),
        ("/1/function/name", "false"),
        ("/1/function/arguments/city", "false"),
    ]


@pytest.mark.parametrize("text", ["At noon.", call_text("{"), call_text({"name": "get_time"})])
def test_too_few_calls_are_one_wrong_answer(knowledge, text):
    assert labels(knowledge, CALLS, text) == [(text, "false")]


SUM = Line("", "reasoning", "sum", [], reference="6", references=["6", "The answer is 6."])


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("6", "true"),
        ("<think>\n1 + 2 = 3. 3 + 3 = 6.\n</think>\n\nThe answer is 6.", "true"),
        ("<think>\n1 + 2 = 4. 4 + 3 = 6.\n</think>\n\n6", "true"),  # only the answer counts
        ("<think>\n1 + 2 = 3. 3 + 3 = 6.\n</think>\n\n7", "false"),
        ("<think>\n6", "false"),
        ("<think>6", "false"),
        ("", "false"),
    ],
)
def test_the_answer_behind_the_thoughts_is_right_or_wrong(knowledge, text, label):
    [one] = labelled(knowledge.world, SUM, text)
    assert one.label == label


def test_the_sentences_of_a_paragraph_are_labelled_one_by_one(knowledge):
    line = Line("", "paragraph", "paragraph", [], subject="Lima")
    text = "Lima is a city in Peru. Its people speak Dutch. It has about 7.7 million people. Nice!"

    assert labels(knowledge, line, text) == [
        ("Lima is a city in Peru.", "true"),
        ("Its people speak Dutch.", "false"),
        ("It has about 7.7 million people.", "true"),
        ("Nice!", "unverifiable"),
    ]
