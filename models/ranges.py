"""Pure: where the numbers of statistics lie, and such numbers from JSON that nobody vouches for."""

from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from pydantic import ConfigDict, GetJsonSchemaHandler, PlainValidator, Strict
from pydantic_core import CoreSchema

# Least and greatest, both finite: NaN and the infinities lie in none.
Range = tuple[float, float]

# Nats that float32 may lose where a sum over the vocabulary is taken from a logit.
_ROUNDING = 1e-3
# The greatest that float32 can say; sums of it stay finite in float64.
_GREATEST = float(np.finfo(np.float32).max)
LOGPROBS: Range = (-_GREATEST, _ROUNDING)
ENTROPIES: Range = (-_ROUNDING, _GREATEST)
PROBABILITIES: Range = (0.0, 1.0)
PERCENTILES: Range = (0.0, 100.0)
COUNTS: Range = (0.0, _GREATEST)
# Longer than any request may take; sums of such numbers stay finite.
_MAX_S = 1e6


class Exact:
    """A record that is read from JSON: each field as it is declared, and no others."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        strict=True, extra="forbid", allow_inf_nan=False
    )


class Described:
    """A record whose fields are described by the strings below them, in the API's document too."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(use_attribute_docstrings=True)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        for field in handler.resolve_ref_schema(schema).get("properties", {}).values():
            if "description" in field:
                field["description"] = " ".join(field["description"].split())
        return schema


# Types of fields of records: integers count as numbers there, flags and words do not.
Logprob = Annotated[float, Strict(), Ge(LOGPROBS[0]), Le(LOGPROBS[1])]
Entropy = Annotated[float, Strict(), Ge(ENTROPIES[0]), Le(ENTROPIES[1])]
Probability = Annotated[float, Strict(), Ge(PROBABILITIES[0]), Le(PROBABILITIES[1])]
Percentile = Annotated[float, Strict(), Ge(PERCENTILES[0]), Le(PERCENTILES[1])]
Count = Annotated[int, Ge(0)]
Seconds = Annotated[float, Ge(0), Le(_MAX_S)]


def number(value: Any, within: Range) -> float:
    """The value itself, where it is a float in its range.

    Raises:
        ValueError: it is anything else.
    """
    low, high = within
    if type(value) is not float or not low <= value <= high:
        raise ValueError(f"no number from {low} to {high}")
    return value


def numbers(value: Any, shape: tuple[int, ...], within: Range) -> NDArray[np.floating[Any]]:
    """Lists of floats in their range as a float64 array of this shape.

    Raises:
        ValueError: they are anything else, or of another shape.
    """
    array = np.array(value)  # a dtype would make numbers of words, and NaN of null
    if array.dtype != np.float64 or array.shape != shape:
        raise ValueError(f"no floats of shape {shape}")
    # Among floats numpy makes numbers of flags, 0 and 1.
    if ((array == 0) | (array == 1)).any() and bool in map(type, np.array(value, object).flat):
        raise ValueError("no floats, but flags")
    low, high = within
    if not ((array >= low) & (array <= high)).all():
        raise ValueError(f"no numbers from {low} to {high}")
    return array


def floats(within: Range) -> PlainValidator:
    """The type of a field that has floats in this range, one a token."""
    return PlainValidator(lambda value: numbers(value, (len(value),), within))


def states() -> PlainValidator:
    """The type of a field that has hidden states, in float32."""
    within = -_GREATEST, _GREATEST
    return PlainValidator(lambda value: numbers(value, np.shape(value), within).astype(np.float32))
