"""Lines of the log on their way out: whoever logs never waits for whoever reads."""

import logging
import sys
import threading
from collections.abc import Callable
from logging.handlers import QueueHandler, QueueListener
from queue import SimpleQueue
from typing import TextIO

_MAX_LINES = 4096
_FLUSH_S = 1.0


class LogWriter(QueueHandler):
    """Formats lines where they are logged, and has a thread of its own write them.

    A pipe that nobody reads would otherwise hold up the event loop, and the end of the process.

    Attributes:
        on_lost: called for each line that is not written, because too many wait already or writing
            failed. Once a line can be written again, another one says how many were lost.
        num_lost: lines so far.

    Args:
        stream: None loses every line.
        max_lines: that wait.
    """

    def __init__(self, stream: TextIO | None, max_lines: int = _MAX_LINES) -> None:
        # A signal handler that interrupts a `put` may log: only `SimpleQueue` allows that.
        self._waiting: SimpleQueue[logging.LogRecord | threading.Event] = SimpleQueue()
        super().__init__(self._waiting)
        self.on_lost: Callable[[], object] = lambda: None
        self.num_lost = 0
        self._max_lines = max_lines
        _Listener(self, stream).start()

    def enqueue(self, record: logging.LogRecord) -> None:
        if self._waiting.qsize() < self._max_lines:
            self._waiting.put(record)
        else:
            self.lose()

    def handleError(self, record: logging.LogRecord) -> None:
        """Lose a record that cannot be formatted: to tell what is wrong with it may quote it."""
        self.lose()

    def flush(self) -> None:
        """Wait until all that was logged is written, for at most a second."""
        written = threading.Event()
        self._waiting.put(written)
        written.wait(_FLUSH_S)

    def lose(self) -> None:
        self.num_lost += 1
        self.on_lost()


class _Listener(QueueListener):
    """Writes what waits: formatted records, and events of those who wait for that."""

    def __init__(self, writer: LogWriter, stream: TextIO | None) -> None:
        super().__init__(writer.queue)
        self._writer = writer
        self._stream = stream
        self._num_told = 0

    def handle(self, record: logging.LogRecord | threading.Event) -> None:
        if isinstance(record, threading.Event):
            record.set()
        elif not self._write(record.getMessage()):
            self._writer.lose()
        elif (num_lost := self._writer.num_lost) > self._num_told:
            message = f"{num_lost - self._num_told} lines of the log could not be written"
            told = logging.LogRecord(__name__, logging.WARNING, "", 0, message, None, None)
            if self._write(self._writer.format(told)):
                self._num_told = num_lost

    def _write(self, line: str) -> bool:
        if self._stream is None:
            return False
        try:
            self._stream.write(f"{line}\n")
            self._stream.flush()
        except (OSError, ValueError):  # nobody reads any more; closed here
            return False
        return True


class LoggedStream:
    """Takes the place of `sys.stderr`, and logs each line that is printed there."""

    encoding = "utf-8"

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).replace("\r", "\n").split("\n")
        for line in lines:
            if line.strip():
                self._logger.warning("%s", line)
        return len(text)

    def flush(self) -> None:
        """Do nothing: an incomplete line waits for its rest."""

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        """That of the process, for libraries that write to the file itself.

        Raises:
            OSError: it has none.
        """
        if sys.__stderr__ is None:
            raise OSError("the process has no stderr")
        return sys.__stderr__.fileno()
