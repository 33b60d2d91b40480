"""A streamed answer in pieces, as every format of OpenAI's streams needs them."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from app.http.openai.responses import BLANK, Choice, Known, Wanted, known_of, without_blank
from app.http.responses import parted
from app.scoring.result import Result
from models.records import Token
from models.units.tool_calls import Call, CallStream


class Piece(NamedTuple):
    """A part that later tokens no longer change: text of answer or reasoning, or a call.

    The known tokens are those that no piece before it has; a call is a `ToolCallInfo`.
    """

    text: str = ""
    known: Sequence[Known] = ()
    is_thought: bool = False
    call: dict[str, Any] | None = None


class Pieces:
    """Makes pieces of tokens; those of a message begin without the answer's leading blank."""

    def __init__(self, wanted: Wanted, *, is_message: bool) -> None:
        self._with_logprobs = wanted.logprobs
        self._is_message = is_message
        self._calls = CallStream(wanted.tools) if wanted.tools else None
        # Tokens of text that may yet become a call.
        self._held: list[Known] = []
        self._has_begun = self._has_text = False
        # Whether a log-prob is not known before the first piece, so that the result has the answer.
        self._comes_whole = False

    def add(self, tokens: Sequence[Token]) -> Iterator[Piece]:
        """The pieces that these tokens settle, the reasoning first."""
        if thoughts := "".join(token.reasoning or "" for token in tokens):
            yield Piece(thoughts, is_thought=True)
        known = known_of([token for token in tokens if token.reasoning is None])
        # An answer that was not written for this request alone comes without log-probs. The result
        # has them.
        if known and self._with_logprobs and not self._has_begun:
            self._comes_whole |= any(token.logprob is None for token in known)
        if known and not self._comes_whole:
            yield from self._of_answer("".join(token.text for token in known), known)

    def finish(self, result: Result, answer: Choice) -> Iterator[Piece]:
        if not self._has_begun:
            yield from self._of_answer(result.text or "", answer.known)
        if self._calls is not None:
            yield from self._parted(self._calls.finish())
            if self._with_logprobs and self._held:
                yield Piece(known=self._held)

    def _of_answer(self, text: str, known: Sequence[Known]) -> Iterator[Piece]:
        self._has_begun = True
        if self._is_message and not self._has_text:
            self._has_text = text != ""
            known = without_blank(known)
            text = text.removeprefix(BLANK)
        if self._calls is None:
            yield Piece(text, known)
            return
        self._held += known
        yield from self._parted(self._calls.add(text))

    def _parted(self, parts: Sequence[str | Call]) -> Iterator[Piece]:
        for part in parts:
            known, self._held = self._held, []
            if isinstance(part, str):
                yield Piece(part, known)
            else:
                _, [call] = parted([part])
                yield Piece(known=known, call=call)
