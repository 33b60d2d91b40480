"""Every field of OpenAI's bodies reaches the ask; nothing is lost on the way or invented."""

import json

import pytest
from pydantic import ValidationError

from app.http.openai.requests import ChatRequest, CompletionRequest, ask_of
from app.scoring.ask import Ask
from models.errors import InvalidRequest
from models.records import SamplingParams

UNCERTAINTY = {
    "strategy": "mbr",
    "estimators": ["sp", "cocoa_sp"],
    "estimator": "mte",
    "similarity": "added",
    "num_samples": 3,
    "top_k": 7,
    "return_samples": True,
    "explain": True,
    "timeout_s": 2.5,
    "cache": False,
    "target_error": 0.05,
    "on_reject": "abstain",
    "calibration": "facts",
}
ASKED = {
    "strategy": "mbr",
    "estimators": ("sp", "cocoa_sp"),
    "primary": "mte",
    "similarity": "added",
    "return_samples": True,
    "explain": True,
    "timeout_s": 2.5,
    "cache": False,
    "target_error": 0.05,
    "on_reject": "abstain",
    "calibration": "facts",
}
SHARED = {
    "model": "m",
    "temperature": 0.5,
    "top_p": 0.9,
    "stop": ["\n", "Q:"],
    "seed": 11,
    "uncertainty": UNCERTAINTY,
}
SAMPLING = SamplingParams(3, 5, 0.5, 7, 0.9, ("\n", "Q:"), 11, clamps=True)


def test_a_chat_becomes_an_ask_with_every_field():
    request = ChatRequest(
        messages=[{"role": "developer", "content": "a"}, {"role": "user", "content": "b"}],
        max_completion_tokens=5,
        chat_template_kwargs={"thinking": False},
        logprobs=True,
        **SHARED,
    )
    messages = ({"role": "system", "content": "a"}, {"role": "user", "content": "b"})
    assert ask_of(request, light=False) == Ask(
        messages=messages,
        chat_template_kwargs={"thinking": False},
        sampling=SAMPLING,
        return_tokens=True,
        **ASKED,
    )


def test_a_text_becomes_an_ask_with_every_field_but_the_prompt():
    request = CompletionRequest(prompt=["a"], max_tokens=5, logprobs=0, **SHARED)
    expected = Ask(sampling=SAMPLING, return_tokens=True, **ASKED)
    assert ask_of(request, light=False) == expected


# id: (fields, temperature of the samples, of the answer)
DRAWN = {
    "none": ({}, 1.0, 0.0),
    "greedy": ({"temperature": 0.04}, 1.0, 0.0),
    "an answer": ({"temperature": 0.2}, 1.0, 0.2),
    "both": ({"temperature": 0.2, "uncertainty": {"temperature": 0.7}}, 0.7, 0.2),
    "samples beside a greedy answer": ({"uncertainty": {"temperature": 0.7}}, 0.7, 0.0),
    "choices": ({"temperature": 0.2, "n": 2}, 0.2, 0.2),
    "choices by default": ({"n": 2}, 1.0, 1.0),
    "one of the samples": ({"temperature": 0.2, "uncertainty": {"strategy": "mbr"}}, 0.2, 0.0),
    "samples alone": ({"temperature": 0.2, "uncertainty": {"strategy": "greedy"}}, 0.2, 0.0),
}


@pytest.mark.parametrize(("body", "of_samples", "of_answer"), DRAWN.values(), ids=list(DRAWN))
def test_a_temperature_is_that_of_what_may_be_returned(body, of_samples, of_answer):
    sampling = ask_of(CompletionRequest(model="m", prompt="a", **body), light=False).sampling
    assert (sampling.temperature, sampling.answer_temperature) == (of_samples, of_answer)


def test_without_further_fields_it_is_the_default_ask():
    expected = Ask(sampling=SamplingParams(clamps=True))
    assert ask_of(CompletionRequest(model="m", prompt="a"), light=False) == expected


@pytest.mark.parametrize("value", [True, False, 2, "1", [1], {}])
def test_a_field_that_may_hold_one_value_holds_no_other(value):
    with pytest.raises(ValidationError) as refused:
        CompletionRequest(model="m", prompt="a", best_of=value)
    assert [error["loc"] for error in refused.value.errors()] == [("best_of",)]


def chat_with(tool_choice, **body):
    tools = []
    for name in ("now", "weather"):
        tools.append({"type": "function", "function": {"name": name}})
    asked = {"model": "m", "messages": [{"role": "user", "content": "a"}], "tools": tools}
    return ChatRequest(**asked | {"tool_choice": tool_choice} | body)


@pytest.mark.parametrize(
    ("tool_choice", "shown", "required"),
    [
        ("none", [], None),
        ("auto", ["now", "weather"], None),
        ("required", ["now", "weather"], ["now", "weather"]),
        ({"type": "function", "function": {"name": "weather"}}, ["now", "weather"], ["weather"]),
    ],
)
def test_tool_choice_says_which_tools_are_shown_and_which_must_be_called(
    tool_choice, shown, required
):
    ask = ask_of(chat_with(tool_choice), light=False)
    assert [tool["function"]["name"] for tool in ask.tools] == shown
    if required is None:
        assert ask.grammar is None
        return
    source = json.loads(ask.grammar.source)
    branches = source.get("anyOf", [source])
    assert [one["properties"]["name"]["const"] for one in branches] == required


FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"enum": ["a", "b"]}}}


def test_an_answer_that_must_call_has_no_format():
    held = ask_of(chat_with("required", response_format=FORMAT), light=False)
    assert held.grammar == ask_of(chat_with("required"), light=False).grammar


def test_samples_of_requests_with_tools_are_drawn_where_something_is_said_of_them():
    said = [{}, {"estimators": ["sp"]}, {"num_samples": 3}, {"target_error": 0.1}]
    asks = [ask_of(chat_with("auto", uncertainty=one), light=False) for one in said]
    assert [ask.of_tokens for ask in asks] == [True, True, False, False]
    assert {ask.units for ask in asks} == {"fields"}
    alone = ask_of(chat_with("auto", uncertainty={"units": "answer"}), light=False)
    assert alone.units == "answer"


def test_parameters_that_no_arguments_can_be_held_to_are_those_of_tools():
    endless = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    body = chat_with("required")
    body.tools[0].function.parameters = endless
    body.tools.pop()
    with pytest.raises(InvalidRequest, match="no finite value") as refused:
        ask_of(body, light=False)
    assert refused.value.field == "tools"
