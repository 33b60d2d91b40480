"""The base of all shapes: fields with descriptions, some of which may be absent."""

from typing import Any

from pydantic import MISSING, BaseModel

from models import ranges

# The default of a field that a response may leave out: pydantic writes nothing for it. The field's
# type is that of its values, and has null only for a requested value that cannot be had.
ABSENT: Any = MISSING


class Described(ranges.Described, BaseModel):
    """A shape whose fields are described by the strings below them, in the document too."""

    model_config = ranges.Described.__pydantic_config__
