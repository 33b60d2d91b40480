"""Fields of an `Ask` in errors, called as the bodies of a door call them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy

from models.errors import CocoaError


@contextmanager
def named(names: Mapping[str, str]) -> Iterator[None]:
    """Rename these fields in errors.

    Raises:
        CocoaError: a copy of what the block raised, since the error itself may be another request's
            too, where both share the work.
    """
    try:
        yield
    except CocoaError as error:
        if error.field is None or error.field not in names:
            raise
        renamed = copy(error)
        renamed.field = names[error.field]
        raise renamed from error
