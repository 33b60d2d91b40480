"""Matchers of llguidance for grammars, and its refusals in words of ours.

Imported by the process that serves and by those that try grammars out (`models.grammar.trial`),
which is why nothing here imports torch, transformers or numpy.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from models.grammar.rules import rule_of

# States to which the lexer of a grammar may grow (1 to 2 kB each), and its symbols.
MAX_LEXER_STATES, MAX_SYMBOLS = 20_000, 100_000
_NUM_WALKED = 4  # tokens


# Around the id of a special token, in place of its text.
_NOT_WRITTEN = "\uffff"


class NotFollowed(Exception):
    """No text can follow a grammar; gives the reason in words of ours."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """All that llguidance reads of a tokenizer."""

    tokenizer: str
    size: int
    eos_ids: tuple[int, ...]

    def read(self) -> LLTokenizer:
        """The same as llguidance's tokenizer; takes up to a second."""
        return LLTokenizer(self.tokenizer, n_vocab=self.size, eos_token=list(self.eos_ids))


def with_plain_tokens(tokenizer: str, eos_ids: Collection[int]) -> str:
    """A tokenizer's JSON from which llguidance reads text as text.

    By itself it takes every added token like `<tool_call>` for a special one, and lets no text
    have it, though models write their calls so. And where a text that has to come spells out a
    special token ("<|im_end|>"), it lets that token alone come, and then refuses it.
    """
    # The rest, which is large, need not be read.
    added, start, end = _named("added_tokens", tokenizer, 0)
    vocabulary, opened, closed = _named("vocab", tokenizer, tokenizer.index('"model":', end))
    if not isinstance(vocabulary, dict):
        return tokenizer
    kept = []
    for token in added:
        text, token_id = token["content"], token["id"]
        looks_special = text[:1] == "<" and text[-1:] == ">"
        if not token["special"] and token_id not in eos_ids:
            if looks_special and text.isascii() and " " not in text:  # spelt so in any vocabulary
                vocabulary[text] = token_id
                continue
        else:
            vocabulary.pop(text, None)
            token["content"] = f"{_NOT_WRITTEN}{token_id}{_NOT_WRITTEN}"
            vocabulary[token["content"]] = token_id
        kept.append(token)
    between, behind = tokenizer[end:opened], tokenizer[closed:]
    return f"{tokenizer[:start]}{json.dumps(kept)}{between}{json.dumps(vocabulary)}{behind}"


def _named(name: str, text: str, start: int) -> tuple[Any, int, int]:
    """The first value of this name in compact JSON, and where it begins and ends."""
    begins = text.index(f'"{name}":', start) + len(name) + 3
    value, ends = json.JSONDecoder().raw_decode(text, begins)
    return value, begins, ends


def source_of(kind: str, source: str) -> str:
    """A grammar as llguidance names its kind."""
    if kind == "json_schema":
        return LLMatcher.grammar_from_json_schema(source)
    return LLMatcher.grammar_from_lark(source)


def matcher_of(tokenizer: LLTokenizer, source: str, max_lexer_states: int) -> LLMatcher:
    """The matcher of a grammar, at its beginning.

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
