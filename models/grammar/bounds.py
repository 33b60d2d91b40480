"""Pure: bounds and constants of a schema, as the library that follows it can represent them.

llguidance keeps a bound as a double. One beyond the integers that each have a double of their own
is moved inward, to the last of these: what is written is within all the same. So is the end next to
0 that is whole and excluded, which llguidance may write all the same. Where nothing is left, and
for a constant that it would write otherwise, a schema is refused.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

# Up to this each integer has a double of its own.
_EXACT = 2**53
_MAX_COUNT = 2**31 - 1
# An automaton of as many states matches multiples.
_MAX_STEP = 10**6
# Control characters, but for those with a short escape.
_UNWRITTEN = frozenset(["\x7f", *map(chr, range(32))]) - frozenset("\b\t\n\f\r")

# The lower end of an interval, and whether it is open: of equal ones the open one is narrower. An
# upper end is the lower one of the negated interval.
_End = tuple[float, bool]


class Unheld(ValueError):
    """A keyword has a value that no text can follow; names both, with the reason."""


def lowered_numbers(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of a schema's numbers, as they can be followed.

    Raises:
        Unheld: no number lies between them, or none that can be followed.
    """
    lowered: dict[str, Any] = {}
    if "multipleOf" in schema:
        lowered["multipleOf"] = _step(schema["multipleOf"])
    low, high, kind = _end(schema, "minimum", 1), _end(schema, "maximum", -1), "number"
    types = schema.get("type", ())
    if "integer" in ([types] if isinstance(types, str) else types) and "number" not in types:
        kind, low, high = "integer", low and _whole(low), high and _whole(high)
    else:
        low, high = low and _moved(low), high and _moved(high)
    if low and high and (low[0] > -high[0] or (low[0] == -high[0] and (low[1] or high[1]))):
        raise Unheld(f"no {kind} lies between its bounds")
    ends = [end and max(end, (-_EXACT, False)) for end in (low, high)]
    if any(end and end > (_EXACT, False) for end in ends):
        raise Unheld("its bounds leave nothing between -2^53 and 2^53")
    low, high = ends
    if low:
        lowered["exclusiveMinimum" if low[1] else "minimum"] = low[0]
    if high:
        lowered["exclusiveMaximum" if high[1] else "maximum"] = -high[0]
    return lowered


def checked_counts(schema: Mapping[str, Any]) -> dict[str, int]:
    """The keywords of a schema's lengths, as they can be followed.

    Raises:
        Unheld: a least one is too large, or larger than the greatest.
    """
    counts: dict[str, int] = {}
    for least in ("minItems", "minLength", "minProperties"):
        most = f"max{least[3:]}"
        for keyword in schema.keys() & {least, most}:
            if keyword == least and schema[keyword] > _MAX_COUNT:
                raise Unheld(f"{keyword} must be at most {_MAX_COUNT}")
            counts[keyword] = min(schema[keyword], _MAX_COUNT)
        if counts.get(least, 0) > counts.get(most, _MAX_COUNT):
            raise Unheld(f"{least} is more than {most}")
    return counts


def check_constants(values: list[Any]) -> None:
    """Refuse values that could not be written as they are.

    Raises:
        Unheld: a number is not finite, or beyond what can be represented; a string has a control
            character without a short escape.
    """
    for value in _scalars(values):
        if isinstance(value, str):
            if not _UNWRITTEN.isdisjoint(value):
                raise Unheld("a control character in it cannot be written")
        elif isinstance(value, int | float) and not abs(value) <= _EXACT:  # NaN
            raise Unheld("a number in it is beyond 2^53, up to which each integer is exact")


def check_steps(schemas: Sequence[Mapping[str, Any]]) -> None:
    """Refuse multiples of which a common one may be wanted, and is too large.

    Raises:
        Unheld: names the keyword.
    """
    steps = {Fraction(str(schema["multipleOf"])) for schema in schemas if "multipleOf" in schema}
    if len(steps) < 2:
        return
    scale = math.lcm(*(step.denominator for step in steps))
    if math.lcm(*(int(step * scale) for step in steps)) > 10 * _MAX_STEP:
        raise Unheld("several values of multipleOf in one schema have too large a common multiple")


def _check_finite(keyword: str, number: float) -> None:
    if not abs(number) < math.inf:
        raise Unheld(f"{keyword} must be a finite number")


def _end(schema: Mapping[str, Any], closed: str, sign: int) -> _End | None:
    """The narrower of the ends that a keyword and its exclusive one set."""
    ends = []
    for keyword, is_open in ((closed, False), (f"exclusive{closed.title()}", True)):
        if keyword in schema:
            _check_finite(keyword, schema[keyword])
            ends.append((sign * schema[keyword], is_open))
    return max(ends, default=None)


def _whole(end: _End) -> _End:
    """The same end of the integers within, which is closed."""
    value, is_open = end
    return (math.floor(value) + 1 if is_open else math.ceil(value)), False


def _moved(end: _End) -> _End:
    """The same end, moved from 0 where it is a whole number that is excluded: in its 14th digit.

    An end on the far side of its numbers holds as it is. Beyond 2^52 doubles have no fractions, and
    llguidance takes no number for the end.
    """
    value, is_open = end
    if not is_open or value % 1 or not 0 <= value < 2**52:
        return end
    return value + min(0.5, 10.0 ** (len(str(int(value))) - 14)), True


def _step(step: float) -> float:
    """The value of multipleOf, which must be a decimal of few digits."""
    _check_finite("multipleOf", step)
    digits = step
    while digits % 1:
        digits *= 10  # as llguidance does: it knows no decimals
    if digits > _MAX_STEP:
        raise Unheld(f"multipleOf must have few digits: at most {_MAX_STEP} without its point")
    return step


def _scalars(value: Any) -> Iterator[Any]:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += item.values()
        elif isinstance(item, list):
            pending += item
        else:
            yield item
