"""Pure: bounds and constants of a schema, as the library that follows it can represent them.

llguidance keeps a bound as a double, and one of integers in 64 bits, of which the lowest overflow.
A bound beyond that is moved inward, to the next one that it has: what is written is within all the
same. Where nothing is left, and for a constant that it would write otherwise, a schema is refused.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from models.units.json_schemas import COUNTS, NUMBERS

# The greatest integer of 64 bits, the greatest double below it, and the least that is followed.
_MOST, _MOST_DOUBLE = 2**63 - 1, 2**63 - 1024
_LEAST = -_MOST_DOUBLE
# An end from here on must not be open: no 64 bits hold all numbers of as many digits.
_OPEN = 10**18
# Up to this each integer has a double of its own.
_EXACT = 2**53
_MAX_COUNT = 2**31 - 1
# Multiples are found by an automaton of as many states.
_MAX_STEP = 10**6
_NOTHING_LEFT = f"its bounds leave nothing between {_LEAST} and {{}} that has a double"
# Control characters, but for those with a short escape.
_UNWRITTEN = frozenset(["\x7f", *map(chr, range(32))]) - frozenset("\b\t\n\f\r")


class Unheld(ValueError):
    """A keyword has a value that no text can be held to; says which and why."""


class _End(NamedTuple):
    """One end of an interval; an open one does not belong to it."""

    value: Fraction
    is_open: bool = False


def lowered_numbers(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a schema's numbers, as they can be followed.

    Raises:
        Unheld: no number lies between them, or none that can be followed.
    """
    for keyword in NUMBERS:
        if not _is_finite(schema.get(keyword, 0)):
            raise Unheld(f"{keyword} must be a finite number")
    own: dict[str, Any] = {}
    if "multipleOf" in schema:
        own["multipleOf"] = _step(schema["multipleOf"])
    low = _end(schema, "minimum", "exclusiveMinimum", max)
    high = _end(schema, "maximum", "exclusiveMaximum", min)
    most = _MOST_DOUBLE
    if is_integer := _is_integer(schema):
        most, low, high = _MOST, _whole(low, 1), _whole(high, -1)
    _check_order(low, high, "integer" if is_integer else "number")
    if (low and low.value > most) or (high and high.value < _LEAST):
        raise Unheld(_NOTHING_LEFT.format(most))
    if low is not None:
        low = _rounded(max(low, _End(Fraction(_LEAST))), math.inf)
        high = high or (_End(Fraction(most)) if low.value >= _OPEN else None)
    if high is not None:
        high = _rounded(min(high, _End(Fraction(most))), -math.inf)
        if low is None and high.value <= -_OPEN:
            low = _End(Fraction(_LEAST))
    if low and high and low.value > high.value:
        raise Unheld(_NOTHING_LEFT.format(most))
    for end, names in (
        (low, ("minimum", "exclusiveMinimum")),
        (high, ("maximum", "exclusiveMaximum")),
    ):
        if end is not None:
            own[names[end.is_open]] = _number(end.value)
    return own


def checked_counts(schema: Mapping[str, Any]) -> dict[str, int]:
    """The keywords of a schema's lengths, as they can be followed.

    Raises:
        Unheld: one is negative, a least one too large, or larger than the greatest.
    """
    own: dict[str, int] = {}
    for keyword in COUNTS:
        if keyword not in schema:
            continue
        if schema[keyword] < 0:
            raise Unheld(f"{keyword} must not be negative")
        if keyword.startswith("min") and schema[keyword] > _MAX_COUNT:
            raise Unheld(f"{keyword} must be at most {_MAX_COUNT}")
        own[keyword] = min(schema[keyword], _MAX_COUNT)
    for least in ("minItems", "minLength", "minProperties"):
        most = f"max{least[3:]}"
        if own.get(least, 0) > own.get(most, _MAX_COUNT):
            raise Unheld(f"{least} is more than {most}")
    return own


def check_constants(values: list[Any]) -> None:
    """Refuse values that could not be written as they are.

    Raises:
        Unheld: a number is not finite, or beyond what can be represented; a string has a control
            character without a short escape.
    """
    for one in _scalars(values):
        if isinstance(one, str):
            if not _UNWRITTEN.isdisjoint(one):
                raise Unheld("a control character in it cannot be written")
        elif isinstance(one, int | float) and not isinstance(one, bool) and not _is_held(one):
            raise Unheld(
                f"a number in it is not followed: integers are exact up to {_EXACT}, beyond it "
                f"where a double is, and nothing is beyond {_MOST_DOUBLE}"
            )


def check_steps(schemas: Sequence[Mapping[str, Any]]) -> None:
    """Refuse multiples of which a common one may be wanted, and is too large.

    Raises:
        Unheld: names the keyword.
    """
    steps = {Fraction(str(one["multipleOf"])) for one in schemas if "multipleOf" in one}
    if len(steps) < 2:
        return
    scale = math.lcm(*(step.denominator for step in steps))
    if math.lcm(*(int(step * scale) for step in steps)) > 10 * _MAX_STEP:
        raise Unheld("several values of multipleOf in one schema have too large a common multiple")


def _is_finite(number: float) -> bool:
    return isinstance(number, int) or math.isfinite(number)


def _is_held(number: float) -> bool:
    if not _is_finite(number) or abs(number) > _MOST_DOUBLE:
        return False
    return isinstance(number, float) or int(float(number)) == number


def _is_integer(schema: Mapping[str, Any]) -> bool:
    types = schema.get("type", ())
    return "integer" in ([types] if isinstance(types, str) else types) and "number" not in types


def _end(schema: Mapping[str, Any], closed: str, opened: str, narrowest: Any) -> _End | None:
    """The narrower of two ends; of equal ones the open one."""
    ends = [_End(Fraction(schema[closed]))] if closed in schema else []
    if opened in schema:
        ends.append(_End(Fraction(schema[opened]), is_open=True))
    if len(ends) == 2 and ends[0].value == ends[1].value:
        return ends[1]
    found: _End | None = narrowest(ends, default=None)
    return found


def _whole(end: _End | None, inward: int) -> _End | None:
    """The same end of the integers within, which is closed."""
    if end is None:
        return None
    nearest = math.ceil(end.value) if inward > 0 else math.floor(end.value)
    if end.is_open and nearest == end.value:
        nearest += inward
    return _End(Fraction(nearest))


def _check_order(low: _End | None, high: _End | None, kind: str) -> None:
    if low is None or high is None:
        return
    is_empty = low.value == high.value and (low.is_open or high.is_open)
    if low.value > high.value or is_empty:
        raise Unheld(f"no {kind} lies between its bounds")


def _rounded(end: _End, inward: float) -> _End:
    """The nearest double that lies no further out; beyond `_EXACT` a closed end."""
    if abs(end.value) <= _EXACT or end.value == _MOST:
        return end
    near = float(end.value)
    is_out = Fraction(near) < end.value if inward > 0 else Fraction(near) > end.value
    if is_out or (end.is_open and near == end.value):
        near = math.nextafter(near, inward)
    return _End(Fraction(near))


def _number(value: Fraction) -> float:
    if value.denominator == 1:
        return int(value)
    return float(value)


def _step(step: float) -> float:
    """The value of multipleOf, which must be a decimal of few digits."""
    if step <= 0:
        raise Unheld("multipleOf must be more than 0")
    digits = step
    while digits % 1:
        digits *= 10  # as llguidance does: it knows no decimals
    if digits > _MAX_STEP:
        raise Unheld(f"multipleOf must have few digits: at most {_MAX_STEP} without its point")
    return step


def _scalars(value: Any) -> Iterator[Any]:
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            pending += one.values()
        elif isinstance(one, list):
            pending += one
        else:
            yield one
