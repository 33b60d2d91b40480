"""What a process would write to stderr, while a test runs in it."""

import io
import logging
import sys
from contextlib import contextmanager
from unittest.mock import patch

from app.http.logs import set_up_logging


@contextmanager
def logged(level="info", log_format="json"):
    """Set logging up as `cocoa serve` does: a function that returns the lines so far.

    All is put back afterwards.

    Clients of the same process log too; their lines are not the service's.
    """
    root, stderr = logging.getLogger(), io.StringIO()
    before, handlers = root.level, root.handlers[:]
    root.handlers.clear()  # else those of pytest would be closed
    try:
        with patch.object(sys, "stderr", stderr):
            set_up_logging(level, log_format)
        root.handlers[0].addFilter(lambda record: not record.name.startswith(("httpx", "httpcore")))
        yield lambda: stderr.getvalue().splitlines()
    finally:
        logging.captureWarnings(False)
        root.handlers[:] = handlers
        root.setLevel(before)
