"""Tokens of a streamed sequence, told as they come."""

from collections.abc import Mapping
from typing import Any

from models.records import GenerationRequest, Token
from models.statistics import Source
from workers.calling import Listener
from workers.client import Unreachable
from workers.openai.replies import ENTROPY_COLUMN, fields_of, read_choices, sentinel


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
        source: Source = "samples" if request.streamed else "answer"
        self._wanted = fields_of(request.statistics, source)

    def hear(self, event: Mapping[str, Any]) -> None:
        """Tell the tokens of an event.

        Raises:
            Unreachable: it makes no sense.
        """
        try:
            for piece in event.get("choices") or ():
                if piece.get("index", 0) == self._index:
                    self._tell(piece)
        except AttributeError:
            raise Unreachable("its answer makes no sense") from None

    def _tell(self, piece: Mapping[str, Any]) -> None:
        whole = {**piece, "finish_reason": piece.get("finish_reason") or "length"}
        if "delta" in piece:
            whole["message"] = piece["delta"]
        [choice] = read_choices({"choices": [whole]}, 1)
        text, logprobs = choice.text, choice.logprobs
        num_tokens = choice.num_tokens
        if num_tokens is None:
            num_tokens = min(len(text), 1)
        for i in range(num_tokens):
            logprob = entropy = None
            if logprobs is not None and "token_logprobs" in self._wanted:
                logprob = float(logprobs[i])
            if choice.tops is not None and "token_entropies" in self._wanted:
                entropy = choice.tops[i].get(sentinel(ENTROPY_COLUMN))
            if entropy is not None:
                entropy = max(entropy, 0.0)
            # What becomes certain with several tokens at once comes with the first of them.
            self._listener.tell(Token(text, logprob, entropy))
            text = ""
