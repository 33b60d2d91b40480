"""Telling the tokens of a sequence to whoever listens, as they come."""

from models.engines.texts import remaining_tokens
from models.records import OnToken, Sequence, Token


class Listener:
    """Whoever listens to a sequence, and how much of it they have been told.

    Attributes:
        on_token: hears each token; None where nobody listens.
        num_tokens: told so far.
        num_characters: of their texts.
    """

    def __init__(self, on_token: OnToken | None) -> None:
        self.on_token = on_token
        self.num_tokens = self.num_characters = 0

    def tell(self, token: Token) -> None:
        """Tell one further token."""
        if self.on_token is not None:
            self.num_tokens += 1
            self.num_characters += len(token.text)
            self.on_token(token)

    def tell_rest(self, sequence: Sequence) -> None:
        """Tell what is left of the sequence, which has ended."""
        if self.on_token is None:
            return
        for token in remaining_tokens(sequence, self.num_tokens, self.num_characters):
            self.tell(token)

    def has_heard_nothing(self) -> bool:
        """Whether all may still be told anew, by another server."""
        return self.num_tokens == 0
