"""Records as JSON: in the cache, in recordings, between processes.

Lossless: floats come back to the last bit, `None` as `None`. What is read is checked by the fields
of its record: for type, length and range.
"""

from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError

from models.ranges import Exact

Kind = TypeVar("Kind")


def reader(kind: type[Kind]) -> Callable[[bytes], Kind]:
    """A function that reads JSON of this kind, a record or a plain type.

    It raises `ValueError` where a field is missing, unknown or of another type, an array is not of
    its sequence's length, or a number not in its range; the text quotes nothing that was read.
    """
    config = None if is_dataclass(kind) else Exact.__pydantic_config__
    adapter = TypeAdapter(kind, config=config)

    def read(content: bytes) -> Kind:
        try:
            return adapter.validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "all of it"
            raise ValueError(f"{place}: {first['msg']}") from None

    return read


def to_json(value: Any) -> bytes:
    """Records, arrays, sets and plain values as one line, without its end."""
    return orjson.dumps(value, default=sorted, option=orjson.OPT_SERIALIZE_NUMPY)
