"""What llguidance makes of a grammar, or why it makes nothing of it, in words of ours.

Imported by the process that serves and by those that try grammars out (`models.engines.trial`),
which is why nothing here imports torch, transformers or numpy.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from models.grammar_rules import rule_of

# States to which the lexer of a grammar may grow (1 to 2 kB each), and its symbols.
MAX_LEXER_STATES, MAX_SYMBOLS = 20_000, 100_000
_NUM_WALKED = 4  # tokens
_JSON_RULE = re.compile(r"^\w+: %json (.*)$", re.MULTILINE)


class NotFollowed(Exception):
    """No text can follow a grammar; says why in words of ours."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """All that llguidance reads of a tokenizer."""

    tokenizer: str
    size: int
    eos_ids: tuple[int, ...]

    def read(self) -> LLTokenizer:
        """As llguidance has it; takes up to a second."""
        return LLTokenizer(self.tokenizer, n_vocab=self.size, eos_token=list(self.eos_ids))


def source_of(kind: str, source: str) -> str:
    """A grammar as llguidance names its kind."""
    if kind == "json_schema":
        return LLMatcher.grammar_from_json_schema(source)
    return LLMatcher.grammar_from_lark(source)


def matcher_of(tokenizer: LLTokenizer, source: str, max_lexer_states: int) -> LLMatcher:
    """What follows a grammar, at its beginning.

    Raises:
        NotFollowed: no text can.
    """
    limits = LLParserLimits(
        max_lexer_states=max_lexer_states, max_grammar_size=MAX_SYMBOLS, verbose_errors=False
    )
    matcher = LLMatcher(tokenizer, source, log_level=0, limits=limits)
    first = matcher.deep_copy()
    if not matcher.is_error():
        first.compute_bitmask()  # some faults show by the first mask alone
    if not first.is_error():
        return matcher
    raise NotFollowed(rule_of(first.get_error()))


def walk(tokenizer: LLTokenizer, matcher: LLMatcher) -> None:
    """Take a few tokens: some faults show behind the first brace.

    Raises:
        NotFollowed: to find what may come next takes too long.
    """
    ends = sum(1 << token for token in set(tokenizer.eos_tokens))
    for _ in range(_NUM_WALKED):
        allowed = int.from_bytes(matcher.compute_bitmask(), "little") & ~ends
        if not matcher.is_error() and allowed:
            matcher.consume_token((allowed & -allowed).bit_length() - 1)
        if matcher.is_error():
            raise NotFollowed(rule_of(matcher.get_error()))


def place_of(tokenizer: LLTokenizer, source: str, rule: str) -> str:
    """JSON Pointer of the innermost schema that no text can follow by itself; "" for the whole.

    Args:
        tokenizer: of the texts.
        source: that no text can follow, as `source_of` has it.
        rule: why not; further in others may come.
    """
    schemas = [one[1] for one in _JSON_RULE.finditer(source)]
    if not schemas:
        [grammar] = json.loads(source)["grammars"]
        schemas = [json.dumps(grammar["json_schema"])]
    for schema in map(json.loads, schemas):
        if _rule_of(tokenizer, schema, schema) == rule:
            return _Search(tokenizer, schema, rule).innermost("", schema)
    return ""


class _Search:
    """Looks for what is at fault in one schema."""

    def __init__(self, tokenizer: LLTokenizer, root: dict[str, Any], rule: str) -> None:
        self._tokenizer, self._root, self._rule = tokenizer, root, rule
        self._seen: set[str] = set()

    def innermost(self, path: str, schema: dict[str, Any]) -> str:
        for inner, one in self._within(path, schema):
            if inner in self._seen or not isinstance(one, dict):
                continue
            self._seen.add(inner)
            if _rule_of(self._tokenizer, one, self._root) == self._rule:
                return self.innermost(inner, one)
        return path

    def _within(self, path: str, schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        """Schemas in a schema, and the one that it refers to, by where they came from."""
        if "$ref" in schema:
            inner = schema["$ref"].removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")
            yield inner, self._root["$defs"][inner]
        for keyword in ("items", "additionalProperties"):
            if keyword in schema:
                yield f"{path}/{keyword}", schema[keyword]
        for keyword in ("prefixItems", "allOf", "anyOf"):
            said = "oneOf" if keyword == "anyOf" and "x-oneOf" in schema else keyword
            for number, one in enumerate(schema.get(keyword, ())):
                yield f"{path}/{said}/{number}", one
        for keyword in ("properties", "patternProperties"):
            for name, one in schema.get(keyword, {}).items():
                escaped = name.replace("~", "~0").replace("/", "~1")
                yield f"{path}/{keyword}/{escaped}", one


def _rule_of(tokenizer: LLTokenizer, schema: dict[str, Any], root: dict[str, Any]) -> str:
    """Why no text can follow a schema within another one; "" where one can."""
    whole = schema | {name: root[name] for name in ("$defs", "x-guidance") if name in root}
    try:
        matcher_of(tokenizer, source_of("json_schema", json.dumps(whole)), MAX_LEXER_STATES)
    except NotFollowed as error:
        return str(error)
    return ""
