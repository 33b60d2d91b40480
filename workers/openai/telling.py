"""Tokens of a streamed sequence, told as they come."""

from collections.abc import Mapping
from typing import Any

from models.records import GenerationRequest, Token
from workers.client import Unreachable
from workers.openai.replies import ENTROPY_COLUMN, Choice, read_choices, sentinel
from workers.streaming import Listener


class Teller:
    """Hears the events of a stream, and tells the tokens of one of its choices.

    Args:
        request: says what is wanted of each token.
        index: of the choice.
        listener: told each of its tokens.
    """

    def __init__(self, request: GenerationRequest, index: int, listener: Listener) -> None:
        self._index = index
        self._listener = listener
        role = "answer" if request.streamed == 0 else "sample"
        self._wants_logprobs = f"{role}_token_logprobs" in request.statistics
        self._wants_entropies = f"{role}_token_entropies" in request.statistics

    def hear(self, event: Mapping[str, Any]) -> None:
        """Tell the tokens of an event.

        Raises:
            Unreachable: it makes no sense.
        """
        try:
            pieces = [
                one for one in event.get("choices") or () if one.get("index", 0) == self._index
            ]
        except AttributeError:
            raise Unreachable("its answer makes no sense") from None
        for piece in pieces:
            self._tell(piece)

    def _tell(self, piece: Mapping[str, Any]) -> None:
        whole = {**piece, "finish_reason": piece.get("finish_reason") or "length"}
        if "delta" in piece:
            whole["message"] = piece["delta"]
        [choice] = read_choices({"choices": [whole]}, 1)
        num_tokens = choice.num_tokens
        if num_tokens is None:
            num_tokens = 1 if choice.text else 0
        for i in range(num_tokens):
            # What becomes certain with several tokens at once comes with the first of them.
            self._tell_one(choice.text if i == 0 else "", choice, i)

    def _tell_one(self, text: str, choice: Choice, i: int) -> None:
        logprob = entropy = None
        if self._wants_logprobs and choice.logprobs is not None:
            logprob = float(choice.logprobs[i])
        if self._wants_entropies and choice.tops is not None:
            column = choice.tops[i].get(sentinel(ENTROPY_COLUMN))
            entropy = None if column is None else max(column, 0.0)
        self._listener.tell(Token(text, logprob, entropy))
