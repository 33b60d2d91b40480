"""What a process would write to stderr, while a test runs in it."""

import io
import logging
import sys
import threading
from contextlib import contextmanager
from unittest.mock import patch

from app.http.logs import set_up_logging


@contextmanager
def logged(level="info", log_format="json", stream=None):
    """Set logging up as `cocoa serve` does: a function that returns the lines so far.

    All is put back afterwards.

    Clients of the same process log too; their lines are not the service's.
    """
    root, stderr = logging.getLogger(), stream or io.StringIO()
    before, handlers, made = root.level, root.handlers[:], logging.getLoggerClass()
    root.handlers.clear()  # else those of pytest would be closed

    def lines():
        writer.flush()
        return stderr.getvalue().splitlines()

    try:
        with (
            patch.object(sys, "stderr", stderr),
            patch.object(sys, "excepthook"),
            patch.object(sys, "unraisablehook"),
            patch.object(threading, "excepthook"),
        ):
            writer = set_up_logging(level, log_format)
            writer.addFilter(lambda record: not record.name.startswith(("httpx", "httpcore")))
            yield lines
            writer.flush()
    finally:
        logging.setLoggerClass(made)
        logging.captureWarnings(False)
        root.handlers[:] = handlers
        root.setLevel(before)
