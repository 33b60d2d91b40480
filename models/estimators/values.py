"""What estimators share: when a value is undefined, and how a number is returned."""

from collections.abc import Sequence, Sized
from typing import Any, TypeVar

from models.records import Array

T = TypeVar("T", bound=Sized)


class Undefined(Exception):
    """An estimator has no value for these statistics.

    The message is the reason that the response carries.
    """


def nonempty(values: Array) -> Array:
    """The statistics (T,) of an answer's tokens.

    Raises:
        Undefined: T = 0.
    """
    if len(values) == 0:
        raise Undefined("empty answer")
    return values


def at_least(count: int, samples: T) -> T:
    """Statistics of M samples, M >= `count`.

    Raises:
        Undefined: there are fewer.
    """
    if len(samples) < count:
        raise Undefined("no samples" if len(samples) == 0 else f"fewer than {count} samples")
    return samples


def with_tokens(arrays: Sequence[Array]) -> Sequence[Array]:
    """M >= 1 arrays (T_i,), none of them empty.

    Raises:
        Undefined: no samples, or one without tokens.
    """
    if any(len(array) == 0 for array in at_least(1, arrays)):
        raise Undefined("a sample without tokens")
    return arrays


def plain(value: Any) -> float:
    """A Python float; adding 0.0 turns the -0.0 of a certain answer into 0.0."""
    return float(value) + 0.0
