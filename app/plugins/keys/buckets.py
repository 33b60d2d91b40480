"""Pure: buckets that hold a minute's worth and fill up evenly.

An amount taken may exceed the level, and is paid back before anything else passes, so that over
minutes no more is used than flows in.
"""

from dataclasses import dataclass
from typing import Literal

LimitName = Literal["requests_per_minute", "tokens_per_minute", "max_concurrent"]
LIMITS: tuple[LimitName, ...] = ("requests_per_minute", "tokens_per_minute", "max_concurrent")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A limit that is reached, and the seconds until it no longer is, 0 where they are unknown."""

    limit: LimitName
    wait_s: float


def level_after(level: float, seconds: float, per_minute: int) -> float:
    """The level of a bucket after some seconds.

    >>> level_after(-30, 60, 60)
    30.0
    """
    return min(float(per_minute), level + max(seconds, 0.0) * per_minute / 60)


def wait_s(level: float, wanted: float, per_minute: int) -> float:
    """Seconds until a bucket holds the wanted amount; 0 where it does.

    >>> wait_s(0, 1, 30)
    2.0
    """
    return max(0.0, (wanted - level) * 60 / per_minute)
