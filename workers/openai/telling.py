"""Tokens of a streamed sequence, told as they come."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from models.engines.texts import tags_in
from models.records import DEFAULT_NEW_TOKENS, GenerationRequest, Token
from models.statistics import Source
from models.units.reasoning import KNOWN_TAGS, part
from workers.calling import Listener
from workers.client import Unreachable
from workers.openai.replies import (
    ENTROPY_COLUMN,
    TOO_MANY,
    fields_of,
    read_choices,
    reasoning_in,
    sentinel,
)


class Teller:
    """Hears the events of a stream, and tells the tokens of one of its choices.

    Args:
        request: says what is wanted of each token.
        index: of the choice.
        listener: told each of its tokens.
        opened: whether the prompt ended in the tag that begins a reasoning.
    """

    def __init__(
        self, request: GenerationRequest, index: int, listener: Listener, *, opened: bool
    ) -> None:
        self._index = index
        self._listener = listener
        self._opened = opened
        # What was heard while the answer has not begun.
        self._text = ""
        self._held: list[Token] = []
        self._has_begun = False
        # What the last token of the reasoning held of the answer's text.
        self._lead = ""
        self._num_left = (request.sampling.max_new_tokens or DEFAULT_NEW_TOKENS) + 1
        source: Source = "samples" if request.streamed else "answer"
        self._wanted = fields_of(request.statistics, source)

    def hear(self, event: Mapping[str, Any]) -> None:
        """Tell the tokens of an event.

        Raises:
            Unreachable: it makes no sense, or brings more tokens than were asked for.
        """
        try:
            for piece in event.get("choices") or ():
                if piece.get("index", 0) == self._index:
                    self._tell(piece)
        except (AttributeError, TypeError):
            raise Unreachable("its answer makes no sense") from None

    def _tell(self, piece: Mapping[str, Any]) -> None:
        whole = {**piece, "finish_reason": piece.get("finish_reason") or "length"}
        if "delta" in piece:
            whole["message"] = piece["delta"]
            if thoughts := reasoning_in(piece["delta"]):
                self._count(1)
                self._listener.tell(Token("", reasoning=thoughts))
                return
        [choice] = read_choices({"choices": [whole]}, 1)
        text, logprobs = choice.text, choice.logprobs
        num_tokens = choice.num_tokens
        if num_tokens is None:
            num_tokens = min(len(text), 1)
        self._count(num_tokens)
        for i in range(num_tokens):
            logprob = entropy = None
            if logprobs is not None and "token_logprobs" in self._wanted:
                logprob = float(logprobs[i])
            if choice.tops is not None and "token_entropies" in self._wanted:
                entropy = choice.tops[i].get(sentinel(ENTROPY_COLUMN))
            if entropy is not None:
                entropy = max(entropy, 0.0)
            # What becomes certain with several tokens at once comes with the first of them.
            self._hear_token(Token(text, logprob, entropy))
            text = ""

    def _count(self, num_tokens: int) -> None:
        self._num_left -= num_tokens
        if self._num_left < 0:
            raise Unreachable(TOO_MANY)

    def _hear_token(self, token: Token) -> None:
        """Tell a token of the answer; hold those that may be of a reasoning until its end."""
        if self._has_begun:
            self._listener.tell(replace(token, text=self._lead + token.text))
            self._lead = ""
            return
        self._text += token.text
        self._held.append(token)
        tags, text = tags_in(self._text, opened=self._opened), self._text.lstrip()
        may_reason = self._opened or any(
            text.startswith(one.start) or one.start.startswith(text) for one in KNOWN_TAGS
        )
        if not may_reason:
            self._has_begun = True
            for held in self._held:
                self._listener.tell(held)
        elif tags.end in self._text:
            self._has_begun = True
            found = part([self._text], tags, opened=self._opened)
            self._listener.tell(Token("", reasoning=found.text))
            self._lead = found.answer
