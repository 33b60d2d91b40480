"""Tokens of a streamed sequence, told as they come."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from models.engines.texts import num_stable, tags_in
from models.records import DEFAULT_NEW_TOKENS, GenerationRequest, Token
from models.statistics import Source
from models.units.reasoning import KNOWN_TAGS, part
from workers.calling import Listener
from workers.client import Unreachable
from workers.openai.capabilities import TagIds
from workers.openai.reasoning import hidden_tags
from workers.openai.replies import (
    ENTROPY_COLUMN,
    TOO_MANY,
    fields_of,
    likeliest,
    read_choices,
    reasoning_in,
    sentinel,
)

_ENDS = tuple(tags.end for tags in KNOWN_TAGS)
_LONGEST_END = max(map(len, _ENDS))


class Teller:
    """Hears the events of a stream, and tells the tokens of one of its choices.

    Args:
        request: says what is wanted of each token.
        index: of the choice.
        listener: told each of its tokens.
        opened: whether the prompt ended in the tag that begins a reasoning.
        tag_ids: of reasonings, as far as the server's tokenizer has tokens for them.
    """

    def __init__(
        self,
        request: GenerationRequest,
        index: int,
        listener: Listener,
        *,
        opened: bool,
        tag_ids: Sequence[TagIds] = (),
    ) -> None:
        self._index = index
        self._listener = listener
        self._opened = opened
        self._tag_ids = tag_ids
        self._has_stop = bool(request.sampling.stop)
        # What was heard while the answer has not begun: its text, its tokens, and what is known of
        # each of these.
        self._text = ""
        self._held: list[Token] = []
        self._ids: list[int] = []
        self._shown: list[str] = []
        self._has_begun = False
        # Whether the server tells a reasoning apart from its answer.
        self._is_apart = False
        # Whether all is told at the end, as nobody knows yet which tokens are the answer's.
        self._is_silent = False
        # What the tokens of the reasoning held of the answer's text.
        self._lead = ""
        self._num_left = (request.sampling.max_new_tokens or DEFAULT_NEW_TOKENS) + 1
        source: Source = "samples" if request.streamed else "answer"
        self._num_tops = request.num_tops_of(request.streamed)
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
        thoughts = None
        if "delta" in piece:
            delta = {**piece["delta"], "tool_calls": None}  # calls are told when they are whole
            whole["message"], thoughts = delta, reasoning_in(delta)
        [choice] = read_choices({"choices": [whole]}, 1)
        text, logprobs = choice.text, choice.logprobs
        num_tokens = choice.num_tokens
        if num_tokens is None:
            num_tokens = min(len(text), 1)
        self._num_left -= num_tokens
        if self._num_left < 0:
            raise Unreachable(TOO_MANY)
        if not self._has_begun:
            self._ids += choice.token_ids or ()
            if "delta" in piece:
                self._shown += choice.tokens or ()
        if thoughts:
            self._is_apart = True
            self._listener.tell(Token("", reasoning=thoughts))
        tops, is_sound = None, not choice.unsound
        if self._num_tops and is_sound:
            tops = likeliest(choice, self._num_tops)
        for i in range(num_tokens):
            logprob = entropy = None
            if logprobs is not None and is_sound and "token_logprobs" in self._wanted:
                logprob = float(logprobs[i])
            if choice.tops is not None and "token_entropies" in self._wanted:
                entropy = choice.tops[i].get(sentinel(ENTROPY_COLUMN))
            if entropy is not None:
                entropy = max(entropy, 0.0)
            # What becomes certain with several tokens at once comes with the first of them.
            self._hear_token(Token(text, logprob, entropy, tops=tops[i] if tops else ()))
            text = ""
        if not (self._has_begun or self._is_silent):
            self._look_for_answer(num_tokens)

    def _hear_token(self, token: Token) -> None:
        """Tell a token of the answer; hold those that may be of a reasoning until its end."""
        if self._has_begun:
            self._listener.tell(replace(token, text=self._lead + token.text))
            self._lead = ""
        elif not self._is_silent:
            self._text += token.text
            self._held.append(token)

    def _look_for_answer(self, num_tokens: int) -> None:
        """Tell what is held once it is certain what it is; `num_tokens` were just heard."""
        tags, text = tags_in(self._text, opened=self._opened), self._text.lstrip()
        hidden = hidden_tags(self._tag_ids, self._ids, opened=self._opened)
        if self._is_apart:
            self._tell_behind(self._first(), self._text)
        elif hidden is not None:
            # Text may lag behind its tokens, and then nobody knows where in it the tag stands.
            self._is_silent = self._has_stop or num_tokens > 1 or len(hidden.end) > 1
            if not self._is_silent:
                self._tell_thoughts(self._text.strip())
                if hidden.first_behind(self._ids) is not None:
                    self._tell_behind(len(self._held), "")
        elif tags.end in self._text and (self._opened or text.startswith(tags.start)):
            first = self._first()
            if first is None:
                self._is_silent, first = self._has_stop, len(self._held)
            if not self._is_silent:
                found = part([self._text], tags, opened=self._opened)
                self._tell_thoughts(found.text or "")
                self._tell_behind(first, found.answer)
        elif self._opened or text.startswith(tags.start):
            if not any(tags.inner):
                self._tell_thoughts(_certain(part([text], tags, opened=self._opened).text or ""))
        elif text and not self._may_reason(text):
            self._has_begun = True
            for token in self._held:
                self._listener.tell(token)

    def _may_reason(self, text: str) -> bool:
        if self._opened:
            return True
        return any(text.startswith(one.start) or one.start.startswith(text) for one in KNOWN_TAGS)

    def _tell_thoughts(self, thoughts: str) -> None:
        """Tell what is new of a reasoning, of which this much is certain."""
        if new := thoughts[self._listener.num_thoughts :]:
            self._listener.tell(Token("", reasoning=new))

    def _tell_behind(self, first: int | None, text: str) -> None:
        """Tell the tokens held from the answer's first one on, which has their text."""
        if first is None:
            return
        self._has_begun, self._lead = True, text
        for token in self._held[first:]:
            self._hear_token(replace(token, text=""))

    def _first(self) -> int | None:
        """Index of the answer's first token; None where it has not come, or nobody knows it."""
        for known in self._tag_ids:
            if (first := known.first_behind(self._ids)) is not None:
                return first
        found = part(self._shown, tags_in("".join(self._shown), opened=True), opened=True)
        if found.state == "finished":
            return found.num_tokens
        # Of tokens without texts, a chat that tells them apart has held the answer's alone.
        return None if self._shown or not self._is_apart or not self._held else 0


def _certain(thoughts: str) -> str:
    """The thoughts that no later token can change: their end may be the beginning of an end tag."""
    end = thoughts[-_LONGEST_END:]
    return thoughts[: len(thoughts) - len(end) + num_stable(end, _ENDS)].rstrip()
