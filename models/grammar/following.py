"""Grammars that texts follow: what may come next in each, as a mask over the vocabulary."""

import functools
import json
import math
from collections.abc import Sequence
from copy import copy
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from models.errors import InvalidRequest
from models.grammar.calls import MARKS, with_tokens
from models.grammar.matchers import (
    MAX_LEXER_STATES,
    NotFollowed,
    Vocabulary,
    matcher_of,
    source_of,
    with_plain_tokens,
)
from models.grammar.rules import refusal
from models.pretrained import PreTrainedTokenizerBase
from models.records import Grammar, Stage

_MAX_COMPILED = 32  # that are kept


class Grammars:
    """The grammars of one tokenizer, each compiled once while it is in use.

    Args:
        tokenizer: of the model.
        eos_ids: all ids that end a sequence; a grammar allows them where a text may end.
        num_logits: V.
        start_ids: tokens of the tag that begins a reasoning, behind which grammars begin; none for
            a model that does not reason.

    Attributes:
        unavailable: the reason why no grammar can be followed; "" where it can.
        all_but_end: mask (W,) of all tokens that end no text.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        eos_ids: frozenset[int],
        num_logits: int,
        start_ids: Sequence[int] = (),
    ) -> None:
        self._tokenizer = tokenizer
        self._eos_ids = sorted(eos_ids)
        self._size = max(num_logits, len(tokenizer))
        self.start_ids = start_ids
        num_bits = math.ceil(self._size / 32) * 32
        ends = np.isin(np.arange(num_bits), self._eos_ids)  # some are in no vocabulary
        self.all_but_end = np.packbits(~ends, bitorder="little").view(np.int32)
        self._matcher = functools.lru_cache(_MAX_COMPILED)(self._compiled)
        self.unavailable = ""
        if not tokenizer.is_fast:
            self.unavailable = "the model's tokenizer has no fast implementation"
        elif not eos_ids:
            self.unavailable = "the model has no token that ends an answer"

    def vocabulary(self) -> str:
        """The part of the tokenizer that `models.grammar.trial` reads, as JSON."""
        return json.dumps(asdict(self._vocabulary))

    def source(self, grammar: Grammar) -> str:
        """A grammar as llguidance reads it."""
        if grammar.kind == "lark":
            grammar = with_tokens(grammar, self._marks)
        return source_of(grammar.kind, grammar.source)

    def compile(self, grammar: Grammar) -> None:
        """Have a grammar ready for `begin`; on any thread.

        Raises:
            InvalidRequest: no text can follow it; says why.
        """
        self._matcher(grammar)

    def begin(self, grammar: Grammar, *, in_thoughts: bool) -> "Following":
        """The progress of a row without tokens. Raises as `compile` does.

        in_thoughts: whether its prompt has opened a reasoning.
        """
        stage: Stage = "answer"
        if in_thoughts:
            stage = "thoughts"
        elif self.start_ids:
            stage = "undecided"
        return Following(self, self._matcher(grammar).deep_copy(), stage)

    def ids(self, text: str) -> list[int]:
        ids: list[int] = self._library_tokenizer.tokenize_str(text)
        return ids

    @functools.cached_property
    def _vocabulary(self) -> Vocabulary:
        tokenizer: Any = self._tokenizer
        backend = copy(tokenizer.backend_tokenizer)
        backend.no_padding()
        backend.no_truncation()
        plain = with_plain_tokens(backend.to_str(), self._eos_ids)
        return Vocabulary(plain, self._size, tuple(self._eos_ids))

    @functools.cached_property
    def _library_tokenizer(self) -> Any:
        """Made when the first grammar comes, which takes up to a second."""
        return self._vocabulary.read()

    @functools.cached_property
    def _marks(self) -> dict[str, int]:
        """Tokens of the marks of calls."""
        added = self._tokenizer.added_tokens_encoder
        return {mark: added[mark] for mark in MARKS if mark in added}

    def _compiled(self, grammar: Grammar) -> Any:
        try:
            return matcher_of(self._library_tokenizer, self.source(grammar), MAX_LEXER_STATES)
        except NotFollowed as error:
            raise InvalidRequest(refusal(str(error)), field="grammar") from None


class Following:
    """The progress of rows with the same tokens in a grammar."""

    # Why rows end for which to find what may come next takes too long.
    TOO_COMPLEX: ClassVar = refusal()

    def __init__(self, grammars: Grammars, matcher: Any, stage: Stage, num_read: int = 0) -> None:
        self._grammars = grammars
        self._matcher = matcher
        self._stage = stage
        self._num_read = num_read  # tokens of the start tag

    def copy(self) -> "Following":
        """The same for rows that go on otherwise."""
        return Following(self._grammars, self._matcher.deep_copy(), self._stage, self._num_read)

    def allowed(self) -> NDArray[np.int32] | None:
        """Mask (W,) of what may come next; None where that takes too long, or nothing may.

        Within a reasoning that is anything but the end of the whole text.
        """
        if self._stage == "thoughts":
            return self._grammars.all_but_end
        start_ids, words = self._grammars.start_ids, np.zeros_like(self._grammars.all_but_end)
        if self._num_read == 0:
            self._matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        if self._stage == "undecided":
            word, bit = divmod(start_ids[self._num_read], 32)
            words.view(np.uint32)[word] |= np.uint32(1 << bit)
        return words if words.any() and not self._matcher.is_error() else None

    def take(self, token: int, lead: str | None = None) -> bool:
        """Follow the next token of rows that go on; False where that takes too long.

        Args:
            token: of theirs.
            lead: the text of the answer behind the tag, where a reasoning ended with it.
        """
        start_ids = self._grammars.start_ids
        if self._stage == "answer":
            return self._read([token])
        if self._stage == "undecided":
            if token != start_ids[self._num_read]:
                self._stage = "answer"
                return self._read([token])
            self._num_read += 1
            if self._num_read == len(start_ids):
                self._stage, self._num_read = "thoughts", 0
        if lead is not None:
            self._stage, self._num_read = "answer", 0
            return not lead.strip() or self._read(self._grammars.ids(lead))
        return True

    def _read(self, tokens: Sequence[int]) -> bool:
        """Follow tokens of the answer; False where that takes too long."""
        return bool(self._matcher.consume_tokens(list(tokens)))
