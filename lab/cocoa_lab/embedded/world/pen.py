"""How texts vary: what is drawn, and which of several wordings is the more frequent."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Pen:
    """Draws wordings for one document.

    Args:
        seed: of everything that is drawn.
        backwards: whether the last wording of a list is the most frequent one, not the first, so
            that two models with the same lists write differently.
    """

    def __init__(self, seed: str, *, backwards: bool = False) -> None:
        self.rng = random.Random(seed)  # noqa: S311, a corpus is no secret
        self._backwards = backwards

    def choose(self, wordings: Sequence[T]) -> T:
        """One of several, each less frequent than the one before, the last a third as the first."""
        count = len(wordings)
        weights = [3 * count - 2 * i for i in range(count)]
        if self._backwards:
            weights.reverse()
        return self.rng.choices(wordings, weights)[0]

    def chance(self, share: float) -> bool:
        return self.rng.random() < share
