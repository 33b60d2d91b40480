"""What a process makes once and keeps, such as modules and models."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting() -> Iterator[None]:
    """Nothing looks for garbage within, nor later for garbage in what is there by then.

    Importing the service, torch and transformers makes a million objects that stay. To look through
    them again and again takes a sixth of the start.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
