"""Common parts of calls of workers: a deadline, concurrent work, and listeners to tokens."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from models.errors import CocoaError, DeadlineExceeded
from models.records import OnToken, Sequence, Token


@asynccontextmanager
async def in_time(
    timeout_s: float | None, began_at: float | None = None
) -> AsyncIterator[float | None]:
    """End what runs within once the time has passed; its value is the second when it has.

    Without `timeout_s` it may take any time. It began at a monotonic second; None for now.

    Raises:
        DeadlineExceeded: it has passed.
    """
    ends_at = None
    if timeout_s is not None:
        ends_at = (began_at or time.monotonic()) + timeout_s
    try:
        async with asyncio.timeout_at(ends_at) as timeout:
            yield ends_at
    except TimeoutError:
        if not timeout.expired():
            raise
        raise DeadlineExceeded(f"no result within timeout_s = {timeout_s:g} s") from None


async def gather(*work: Awaitable[Any]) -> list[Any]:
    """The results of concurrent work, in its order.

    Raises:
        Exception: that of the first that fails; the others are cancelled then, and have ended.
    """
    tasks = list(map(asyncio.ensure_future, work))
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


@contextmanager
def failing_as(kind: type[CocoaError], what: str) -> Iterator[None]:
    """Wrap any exception of the block that is no `CocoaError` in `kind`."""
    try:
        yield
    except CocoaError:
        raise
    except Exception as error:
        raise kind(f"{what} failed: {type(error).__name__}") from error


class Listener:
    """A listener to a sequence, and how much of it was reported.

    Attributes:
        on_token: called with each token; None where nobody listens.
        num_tokens: of the answer, reported so far.
        num_characters: of their texts.
        num_thoughts: characters of the reasoning before the answer, reported so far.
    """

    def __init__(self, on_token: OnToken | None) -> None:
        self.on_token = on_token
        self.num_tokens = self.num_characters = self.num_thoughts = 0

    def tell(self, token: Token) -> None:
        if self.on_token is None:
            return
        if token.reasoning is None:
            self.num_tokens += 1
            self.num_characters += len(token.text)
        else:
            self.num_thoughts += len(token.reasoning)
        self.on_token(token)

    def tell_thoughts(self, thoughts: str) -> None:
        """Report the new end of a reasoning, of which these are certain."""
        if new := thoughts[self.num_thoughts :]:
            self.tell(Token("", reasoning=new))

    def tell_rest(self, sequence: Sequence) -> None:
        """Report the rest of the sequence, which has ended."""
        if self.on_token is None:
            return
        if sequence.reasoning is not None:
            self.tell_thoughts(sequence.reasoning.text)
        for token in sequence.remaining_tokens(self.num_tokens, self.num_characters):
            self.tell(token)

    def has_heard_nothing(self) -> bool:
        """True where all may still be reported anew, by another server."""
        return self.num_tokens == self.num_thoughts == 0
