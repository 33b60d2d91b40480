"""Objects that live as long as the process, and memory that is freed: kept, or given back."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Names and numbers of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
# Bytes: a larger piece is mapped by itself (glibc goes up to this on its own, too), and so much may
# lie free at the end of a heap.
_MMAPPED_FROM, _KEPT_FREE = 32 << 20, 256 << 20


@contextmanager
def lasting() -> Iterator[None]:
    """Nothing looks for garbage within, nor later for garbage in what is there by then.

    Importing the service, torch and transformers makes a million objects that stay. To look through
    them again and again takes a sixth of the start. What is dropped later is freed, but for
    what stands in cycles: some 3 MB of an embedded language model. Afterwards garbage is looked
    for less often: to read a server's reply makes some thousand objects, hardly any in cycles.

    Memory that was freed within goes back to the system: weights that are laid out anew leave gaps
    of their own size between those that follow, which glibc would keep.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.set_threshold(10_000)  # new objects
        library = ctypes.CDLL(None)
        if hasattr(library, "malloc_trim"):
            library.malloc_trim(0)
        if was_enabled:
            gc.enable()


def keep_freed_memory() -> None:
    """Have glibc keep memory that is freed, where it is the C library.

    A decoding step of many rows takes and frees megabytes by the dozen. To give them back to the
    system and take them again is a tenth of its time: each page is filled with zeros.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_MMAP_THRESHOLD, _MMAPPED_FROM)
        library.mallopt(_M_TRIM_THRESHOLD, _KEPT_FREE)
