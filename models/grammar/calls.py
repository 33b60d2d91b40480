"""Pure: the grammar of answers that may call tools, in the dialect of llguidance.

Which template a model has is not known here, so that the formats that `models.units.tool_calls`
reads stand beside each other, and the model writes its own. A text must not be read as a call that
no schema holds: it has no `<tool_call>`, and begins as no bare call does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from models.grammar.grammars import grammar_of
from models.records import Grammar
from models.units.tool_calls import schema_of_one

# Marks that Mistral's models write in front of calls, and those of Qwen around one.
MARKS = MARK, OPEN, CLOSE = "[TOOL_CALLS]", "<tool_call>", "</tool_call>"

# The rules that read a mark as text, and as one token.
_MARK_RULES = {
    MARK: ('mark: "[TOOL_CALLS]"', "mark: <[{id}]>"),
    OPEN: (
        r"""first[lazy]: /\s*([^\s\{\[](.|\n)*)?<tool_call>/
next[lazy]: /(.|\n)*<tool_call>/
alone[lazy]: /\s{0,4}<tool_call>/""",
        r"""first: WORDS? <[{id}]>
next: BEHIND? <[{id}]>
alone: /\s{1,4}/? <[{id}]>""",
    ),
    CLOSE: ('close: "</tool_call>"', "close: <[{id}]>"),
}
_CALLS = r"""
bare: objects | mark? " "? "[" call (", " call)* "]"
objects: object ((";" " "? | "\n") object)*
object: call | other
block: "\n"? call "\n"? close
BEHIND: /(.|\n)*/ & ~/(.|\n)*<tool_call>(.|\n)*/
WORDS: /\s*([^\s\{\[](.|\n)*)?/ & BEHIND & ~/\s*<\|(python_tag|tool_call)\|>(.|\n)*/
"""
# By whether it may call several, and whether an answer without calls is JSON.
_STARTS = {
    (True, False): "WORDS | first block (next block)* BEHIND | bare",
    (False, False): "WORDS | first block BEHIND | one",
    (True, True): "answer | (alone block)+ | bare",
    (False, True): "answer | alone block | one",
}


def grammar_of_calls(
    tools: Sequence[Mapping[str, Any]], *, several: bool, answer: Mapping[str, Any] | None
) -> Grammar:
    """The grammar of answers that call tools, with arguments that are valid, or do not.

    Args:
        tools: as OpenAI's clients send them.
        several: whether one answer may call several times.
        answer: schema of an answer without calls; None for any text.
    """
    rules = [by_text for by_text, _ in _MARK_RULES.values()]
    rules += [_CALLS.strip(), f"start: {_STARTS[several, answer is not None]}"]
    rules.append('one: object | mark? " "? "[" call "]"')
    held = {}
    for name, arguments in (("call", "arguments"), ("other", "parameters")):
        held[name] = grammar_of(schema_of_one(tools, arguments))
    if answer is not None:
        held["answer"] = grammar_of(answer)
    rules += [f"{name}: %json {grammar.source}" for name, grammar in held.items()]
    is_wider = any(grammar.is_wider for grammar in held.values())
    return Grammar("lark", "\n".join(rules), is_wider)


def with_tokens(grammar: Grammar, ids: Mapping[str, int]) -> Grammar:
    """The same for a tokenizer that has some of `MARKS` as tokens, which no text of a grammar has.

    ids: their tokens.
    """
    source = grammar.source
    for mark, token_id in ids.items():
        by_text, by_token = _MARK_RULES[mark]
        source = source.replace(by_text, by_token.replace("{id}", str(token_id)), 1)
    return replace(grammar, source=source)
