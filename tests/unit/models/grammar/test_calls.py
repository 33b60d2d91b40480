"""Texts that may be answers beside tools: words, or JSON, or calls that are valid."""

import json

import pytest
from llguidance import LLMatcher, LLTokenizer

from models.grammar.calls import MARKS, grammar_of_calls, with_tokens
from models.grammar.grammars import grammar_of
from models.units.json_schemas import BadSchema
from models.units.tool_calls import schema_of_one

BYTES = LLTokenizer("byte")
CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Lyon"]}},
    "required": ["city"],
    "additionalProperties": False,
}
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
ANSWER = CITY | {"properties": {"answer": {"type": "integer"}}, "required": ["answer"]}


def tool(name, parameters):
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [tool("f", CITY), tool("now", NOTHING)]


def call(city="Paris", *, name="f", called_with="arguments"):
    return json.dumps({"name": name, called_with: {"city": city}})


def block(text):
    return f"<tool_call>\n{text}\n</tool_call>"


LLAMA = call(called_with="parameters")
ONE = [
    block(call()),
    "\n" * 4 + block(call()),
    f"<tool_call>{call()}</tool_call>",
    call(),
    LLAMA,
    f"[{call()}]",
    f"[TOOL_CALLS] [{call()}]",
    '{"name": "now", "arguments": {}}',
]
SEVERAL = [
    f"{block(call())}\n{block(call('Lyon'))}",
    f"{LLAMA}; {LLAMA}",
    f"[TOOL_CALLS][{call()}, {call('Lyon')}]",
]
WORDS = ["", "Hello\nyou", 'It is {"a": 1}', "a <tool_cal", " "]
BESIDE = [f"Let me look.\n{block(call())}", f"{block(call())} Done. {{"]
# Where nothing else can be meant, blanks without end are not.
BEHIND_BLANKS = ["\n" * 5 + block(call())]
JSON = ['{"answer": 42}']
NEVER = [
    block(call("Rome")),
    block(call(name="g")),
    "<tool_call> is a tag",
    f"{block(call())}<tool_call>",
    call("Rome", called_with="parameters"),
    f"\u00a0{call('Rome')}",
    f"<|python_tag|>{call('Rome')}",
    f"[TOOL_CALLS][{call('Rome')}]",
    "[TOOL_CALLS]",
    '{"answer": "many"}',
]


def follows(text, grammar):
    matcher = LLMatcher(BYTES, LLMatcher.grammar_from_lark(grammar.source))
    assert not matcher.is_error(), matcher.get_error()
    ids = BYTES.tokenize_str(text)
    return matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()


@pytest.mark.parametrize(
    ("several", "answer", "allowed"),
    [
        (True, None, ONE + SEVERAL + WORDS + BESIDE + BEHIND_BLANKS),
        (False, None, ONE + WORDS + BESIDE + BEHIND_BLANKS),
        (True, ANSWER, ONE + SEVERAL + JSON),
        (False, ANSWER, ONE + JSON),
    ],
)
def test_an_answer_is_as_many_valid_calls_as_it_may_have_or_has_none(several, answer, allowed):
    grammar = grammar_of_calls(TOOLS, several=several, answer=answer)
    for text in ONE + SEVERAL + WORDS + BESIDE + BEHIND_BLANKS + JSON + NEVER:
        assert follows(text, grammar) == (text in allowed), text


EMPTY = {"type": "object", "title": "Nothing", "properties": {}, "required": []}
NAMES_ONE = {"type": "object", "required": ["city"]}
OPEN = {"type": "object", "properties": {}, "additionalProperties": True}


@pytest.mark.parametrize(
    ("parameters", "takes_some"),
    [(None, False), ({}, False), (EMPTY, False), (NAMES_ONE, True), (OPEN, True)],
    ids=["none", "an empty schema", "no properties", "a name that is required", "any others"],
)
def test_a_tool_without_parameters_takes_no_arguments(parameters, takes_some):
    tools = [{"type": "function", "function": {"name": "f", "parameters": parameters}}]
    grammar = grammar_of_calls(tools, several=False, answer=ANSWER)
    required = grammar_of(schema_of_one(tools))
    nothing = '{"name": "f", "arguments": {}}'
    for text, is_valid in ((call(), takes_some), (nothing, parameters is not NAMES_ONE)):
        assert follows(text, grammar) == is_valid
        matcher = LLMatcher(BYTES, LLMatcher.grammar_from_json_schema(required.source))
        ids = BYTES.tokenize_str(text)
        is_followed = matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting()
        assert is_followed == is_valid


CHOICE = {"oneOf": [CITY, NOTHING]}


@pytest.mark.parametrize(
    ("parameters", "answer", "is_wider"),
    [(CITY, ANSWER, False), (CHOICE, None, True), (CITY, CHOICE, True)],
    ids=["none", "of a tool", "of the answer"],
)
def test_a_one_of_in_any_of_its_schemas_makes_a_grammar_of_calls_wider(
    parameters, answer, is_wider
):
    grammar = grammar_of_calls([tool("f", parameters)], several=True, answer=answer)
    assert grammar.is_wider == is_wider
    assert with_tokens(grammar, {MARKS[1]: 7}).is_wider == is_wider


def test_parameters_and_formats_are_checked_as_schemas_are():
    with pytest.raises(BadSchema):
        grammar_of_calls([tool("f", {"not": {}})], several=True, answer=None)
    with pytest.raises(BadSchema):
        grammar_of_calls(TOOLS, several=True, answer={"not": {}})
