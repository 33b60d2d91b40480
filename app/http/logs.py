"""Logs as one JSON object a line, or as text for people.

Neither ever holds a prompt, an answer or a key: of an exception only type and place are logged,
since the text of one that is not ours may quote a prompt.
"""

import logging
import sys
import threading
from contextvars import ContextVar
from datetime import UTC, datetime
from traceback import walk_tb
from types import FrameType
from typing import Any

import orjson

from app.http.log_writer import LoggedStream, LogWriter

# Whatever is logged during a request carries its id, also in tasks and threads that it starts.
current_request_id: ContextVar[str | None] = ContextVar("request_id", default=None)

# What a record may carry beside its message; other fields that libraries pass stay out.
_FIELDS = ("route", "status", "seconds", "code", "key", "trace_id")
_OUR_PACKAGES = ("app.", "workers.", "models.")


class JsonFormatter(logging.Formatter):
    """A record as a JSON object; what a record has no value of is left out."""

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
        for error in exceptions:
            lines.append(f"  {error['type']} at {' > '.join(error['at'])}")
        return "\n".join(lines)


class _RootedLogger(logging.Logger):
    """A logger whose lines go to the root's handlers only.

    Some libraries give their loggers handlers, which would write plain lines between ours.
    """

    def addHandler(self, hdlr: logging.Handler) -> None:
        """Do nothing."""

    def callHandlers(self, record: logging.LogRecord) -> None:
        """Call the root's, whatever `propagate` says."""
        self.root.callHandlers(record)


def set_up_logging(level: str, log_format: str) -> LogWriter:
    """Send all that the process says to stderr in one format, and never wait for its reader.

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


def places_of(error: BaseException) -> list[str]:
    """`path:line` of our frames that an exception passed; last comes the innermost of all."""
    frames = list(walk_tb(error.__traceback__))
    places = []
    for number, (frame, line) in enumerate(frames, start=1):
        is_ours = frame.f_globals.get("__name__", "").startswith(_OUR_PACKAGES)
        if is_ours or number == len(frames):
            places.append(f"{_short_path(frame)}:{line}")
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
    told = []
    while error is not None:
        told.append({"type": type(error).__name__, "at": places_of(error)})
        cause = error.__cause__
        if cause is None and not error.__suppress_context__:
            cause = error.__context__
        error = cause
    return told


def _short_path(frame: FrameType) -> str:
    """A frame's file from its top package on, which hides where the project is installed."""
    path, package = frame.f_code.co_filename, frame.f_globals.get("__name__", "").partition(".")[0]
    return path[path.rfind(f"/{package}/") + 1 :]
