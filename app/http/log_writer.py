"""Lines of the log on their way out: whoever logs never waits for whoever reads."""

import logging
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TextIO

_MAX_LINES = 4096
_FLUSH_S = 1.0


class LogWriter(logging.Handler):
    """Writes lines on a thread of its own.

    A pipe that nobody reads would otherwise hold up the event loop, and the end of the process.

    Attributes:
        on_lost: called for each line that is not written, since too many wait already or writing
            failed. Once one can be written again, a line of its own says how many.

    Args:
        stream: None loses every line.
        max_lines: that wait.
    """

    def __init__(self, stream: TextIO | None, max_lines: int = _MAX_LINES) -> None:
        super().__init__()
        self.on_lost: Callable[[], object] = lambda: None
        self._num_lost = self._num_told = 0
        self._stream = stream
        self._max_lines = max_lines
        # Unlike `Queue` it may be put into by a signal handler that interrupts a `put`.
        self._lines: SimpleQueue[str | threading.Event] = SimpleQueue()
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Hand one line in, or count it as lost."""
        if self._lines.qsize() >= self._max_lines:
            self._lose()
            return
        try:
            self._lines.put(self.format(record))
        except Exception:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Count a record that is no line; its text, and what was wrong with it, may be a prompt."""
        self._lose()

    def flush(self) -> None:
        """Wait until all that was handed in is written, for at most a second."""
        written = threading.Event()
        self._lines.put(written)
        written.wait(_FLUSH_S)

    def _run(self) -> None:
        while True:
            line = self._lines.get()
            if isinstance(line, threading.Event):
                line.set()
            elif self._write(line):
                self._tell_losses()
            else:
                self._lose()

    def _lose(self) -> None:
        self._num_lost += 1
        self.on_lost()

    def _tell_losses(self) -> None:
        num_lost = self._num_lost
        if num_lost == self._num_told:
            return
        message = f"{num_lost - self._num_told} lines of the log could not be written"
        record = logging.LogRecord(__name__, logging.WARNING, "", 0, message, None, None)
        if self._write(self.format(record)):
            self._num_told = num_lost

    def _write(self, line: str) -> bool:
        """Whether the line was written; it waits for whoever reads."""
        if self._stream is None:
            return False
        try:
            self._stream.write(f"{line}\n")
            self._stream.flush()
        except (OSError, ValueError):  # nobody reads any more; closed here
            return False
        return True


class LoggedStream:
    """Stands for `sys.stderr` where whatever is printed there has to be a line of the log."""

    encoding = "utf-8"

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._rest = ""

    def write(self, text: str) -> int:
        """Log each line that is complete."""
        *lines, self._rest = (self._rest + text).replace("\r", "\n").split("\n")
        for line in lines:
            if line.strip():
                self._logger.warning("%s", line)
        return len(text)

    def flush(self) -> None:
        """An incomplete line waits for its rest."""

    def isatty(self) -> bool:
        """No."""
        return False

    def fileno(self) -> int:
        """That of the process, for those who write around Python.

        Raises:
            OSError: it has none.
        """
        if sys.__stderr__ is None:
            raise OSError("the process has no stderr")
        return sys.__stderr__.fileno()
