"""Logs as one JSON object a line, or as text for people.

Neither ever holds a prompt, an answer or a key: of an exception only type and place are logged,
since the text of a library's may quote a prompt. A caller that logs never waits for a reader.
"""

import logging
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from queue import SimpleQueue
from traceback import walk_tb
from typing import Any, TextIO

import orjson

# Lines logged during a request carry its id, also in tasks and threads that it starts.
current_request_id: ContextVar[str | None] = ContextVar("request_id", default=None)

# Fields of records that are logged beside the message; others, which libraries pass, are not.
_FIELDS = ("route", "status", "seconds", "code", "key", "trace_id")
_OUR_PACKAGES = ("app.", "workers.", "models.")
_MAX_LINES = 4096
_FLUSH_S = 1.0


class JsonFormatter(logging.Formatter):
    """A record as a JSON object, without fields that the record lacks."""

    def format(self, record: logging.LogRecord) -> str:
        return orjson.dumps(_entry(record)).decode()


class TextFormatter(logging.Formatter):
    """A record as `time level logger message key=value …`."""

    def format(self, record: logging.LogRecord) -> str:
        entry = _entry(record)
        exceptions = entry.pop("exceptions", ())
        words = [entry.pop(key) for key in ("time", "level", "logger", "message")]
        words += [f"{key}={value}" for key, value in entry.items()]
        lines = [" ".join(words)]
        lines += [f"  {error['type']} at {' > '.join(error['at'])}" for error in exceptions]
        return "\n".join(lines)


class LogWriter(QueueHandler):
    """Formats lines in the caller's thread, and writes them in another.

    A pipe that nobody reads would otherwise hold up the event loop, and the end of the process.

    Attributes:
        on_lost: called for each line that is not written, because too many wait already or writing
            failed. Once a line can be written again, another line says how many were lost.
        num_lost: lines so far; without a stream it is every line.
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
        """Lose a record that cannot be formatted: a message about it might quote it."""
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
    """Writes queued records, and sets queued events, for which `flush` waits."""

    def __init__(self, writer: LogWriter, stream: TextIO | None) -> None:
        super().__init__(writer.queue)
        self._writer = writer
        self._stream = stream
        self._num_reported = 0

    def handle(self, record: logging.LogRecord | threading.Event) -> None:
        if isinstance(record, threading.Event):
            record.set()
        elif not self._write(record.getMessage()):
            self._writer.lose()
        elif (num_lost := self._writer.num_lost) > self._num_reported:
            message = f"{num_lost - self._num_reported} lines of the log could not be written"
            report = logging.LogRecord(__name__, logging.WARNING, "", 0, message, None, None)
            if self._write(self._writer.format(report)):
                self._num_reported = num_lost

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
        """The descriptor of the process's stderr, for libraries that write to the file itself."""
        if sys.__stderr__ is None:
            raise OSError("the process has no stderr")
        return sys.__stderr__.fileno()


class _RootedLogger(logging.Logger):
    """A logger whose lines go to the root's handlers only.

    Some libraries give their loggers handlers, which would write plain lines between ours.
    """

    def addHandler(self, hdlr: logging.Handler) -> None:
        """Do nothing."""

    def callHandlers(self, record: logging.LogRecord) -> None:
        """Call the root's handlers, whatever `propagate` is."""
        self.root.callHandlers(record)


def set_up_logging(level: str, log_format: str) -> LogWriter:
    """Send all output of the process to stderr in one format, and never wait for its reader.

    That includes every logger that a library makes from here on, warnings, uncaught exceptions, and
    in JSON whatever is printed to stderr.
    """
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    is_text = log_format == "text" or (log_format == "auto" and is_terminal)
    writer = LogWriter(sys.stderr)
    writer.setFormatter(TextFormatter() if is_text else JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[writer], force=True)
    logging.setLoggerClass(_RootedLogger)
    logging.captureWarnings(True)
    for name in ("sentence_transformers", "httpx"):  # their remarks are no events here
        logging.getLogger(name).setLevel(logging.WARNING)
    sys.excepthook = lambda _, error, __: _log_uncaught(error)
    threading.excepthook = lambda args: _log_uncaught(args.exc_value)
    sys.unraisablehook = lambda args: _log_uncaught(args.exc_value)
    if not is_text:
        sys.stderr = LoggedStream(logging.getLogger("stderr"))
    return writer


def described(error: BaseException) -> str:
    """Type and places of an exception, without its text, which may quote a prompt."""
    places = " > ".join(_places_of(error)) or "an unknown place"
    return f"{type(error).__name__} at {places}"


def _places_of(error: BaseException) -> list[str]:
    """`path:line` of our frames that an exception passed; last comes the innermost of all."""
    frames = list(walk_tb(error.__traceback__))
    places = []
    for number, (frame, line) in enumerate(frames, start=1):
        is_ours = frame.f_globals.get("__name__", "").startswith(_OUR_PACKAGES)
        if is_ours or number == len(frames):
            # From the top package on, which hides where the project is installed.
            package = f"/{frame.f_globals.get('__name__', '').partition('.')[0]}/"
            path = frame.f_code.co_filename
            places.append(f"{path[path.rfind(package) + 1 :]}:{line}")
    return places


def _log_uncaught(error: BaseException | None) -> None:
    logging.getLogger("uncaught").error("nobody caught an exception", exc_info=error)


def _entry(record: logging.LogRecord) -> dict[str, Any]:
    message = record.getMessage().strip()
    if record.name == "asyncio":
        message = message.partition("\n")[0]  # the lines below quote the exception of a task
    entry: dict[str, Any] = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        # Lone surrogates are no JSON.
        "message": message.encode(errors="backslashreplace").decode(),
    }
    if (request_id := current_request_id.get()) is not None:
        entry["request_id"] = request_id
    for field in _FIELDS:
        if (value := getattr(record, field, None)) is not None:
            entry[field] = value
    if record.exc_info:
        entry["exceptions"] = _exceptions(record.exc_info[1])
    return entry


def _exceptions(error: BaseException | None) -> list[dict[str, Any]]:
    causes = []
    while error is not None:
        causes.append({"type": type(error).__name__, "at": _places_of(error)})
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return causes
