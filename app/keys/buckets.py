"""Pure: buckets that hold a minute's worth and fill up evenly.

What is taken may exceed what is there, and is paid back before anything else passes, so that over
minutes no more is used than flows in.
"""

from typing import Literal

from app.keys.records import Key

LimitName = Literal["requests_per_minute", "tokens_per_minute", "max_concurrent"]
LIMITS: tuple[LimitName, ...] = ("requests_per_minute", "tokens_per_minute", "max_concurrent")


def level_after(level: float, seconds: float, per_minute: int) -> float:
    """What a bucket holds some time later.

    >>> level_after(-30, 60, 60)
    30.0
    """
    return min(float(per_minute), level + max(seconds, 0.0) * per_minute / 60)


def wait_s(level: float, wanted: float, per_minute: int) -> float:
    """Seconds until a bucket holds what is wanted; 0 where it does.

    >>> wait_s(0, 1, 30)
    2.0
    """
    return max(0.0, (wanted - level) * 60 / per_minute)


def limit_of(key: Key, name: LimitName) -> int | None:
    """The value of a limit; None where the key has none."""
    values = {
        "requests_per_minute": key.requests_per_minute,
        "tokens_per_minute": key.tokens_per_minute,
        "max_concurrent": key.max_concurrent,
    }
    return values[name]
