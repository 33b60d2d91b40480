"""Logs as one JSON object a line, or as text for people.

Neither ever holds a prompt, an answer or a key.

Of an exception they tell type and place alone: the text of one that is not ours may quote a prompt.
"""

import logging
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from traceback import walk_tb
from types import FrameType
from typing import Any

import orjson

from app.http.log_writer import LoggedStream, LogWriter

# Whatever is logged while a request is worked on carries its id, in tasks and threads that it
# starts too.
current_request_id: ContextVar[str | None] = ContextVar("request_id", default=None)

# What a record may carry beside its message; `extra` of other libraries stays out.
_FIELDS = ("route", "status", "seconds", "code", "key")
_OUR_PACKAGES = ("app.", "workers.", "models.")


class JsonFormatter(logging.Formatter):
    """A record as a JSON object; what a record has no value of is left out."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        return orjson.dumps(_entry(record)).decode()


class TextFormatter(logging.Formatter):
    """A record as `time level logger message key=value …`."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, and one more for each exception."""
        entry = _entry(record)
        exceptions = entry.pop("exceptions", ())
        head = " ".join(entry.pop(key) for key in ("time", "level", "logger", "message"))
        line = " ".join((head, *(f"{key}={value}" for key, value in entry.items())))
        return "\n".join(
            (line, *(f"  {error['type']} at {' > '.join(error['at'])}" for error in exceptions))
        )


class _RootedLogger(logging.Logger):
    """A logger whose lines go where the root's go, and nowhere else.

    Libraries give theirs a handler of its own, which would write plain lines between ours.
    """

    def addHandler(self, hdlr: logging.Handler) -> None:
        """Nothing."""

    def callHandlers(self, record: logging.LogRecord) -> None:
        """Those of the root, whatever `propagate` says."""
        self.root.callHandlers(record)


def set_up_logging(level: str, log_format: str) -> LogWriter:
    """Send all that the process tells to stderr in one format, and never wait for its reader.

    That is every logger that a library makes from here on, warnings, exceptions that nobody caught,
    and in JSON whatever is printed to stderr.

    Args:
        level: of the root.
        log_format: `json`, `text`, or `auto`: text on a terminal, JSON otherwise.
    """
    if log_format == "auto":
        log_format = "text" if sys.stderr is not None and sys.stderr.isatty() else "json"
    writer = LogWriter(sys.stderr)
    writer.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[writer], force=True)
    logging.setLoggerClass(_RootedLogger)
    logging.captureWarnings(True)
    for name in ("sentence_transformers", "httpx"):  # what they remark on is no event here
        logging.getLogger(name).setLevel(logging.WARNING)
    sys.excepthook = lambda _, error, __: _log_uncaught(error)
    threading.excepthook = lambda args: _log_uncaught(args.exc_value)
    sys.unraisablehook = lambda args: _log_uncaught(args.exc_value)
    if log_format == "json":
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
    entry = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": message.encode(
            errors="backslashreplace"
        ).decode(),  # lone surrogates are no JSON
        "request_id": current_request_id.get(),
        **{field: getattr(record, field, None) for field in _FIELDS},
        "exceptions": _exceptions(record.exc_info[1]) if record.exc_info else None,
    }
    return {key: value for key, value in entry.items() if value is not None}


def _exceptions(error: BaseException | None) -> list[dict[str, Any]]:
    """The exception, then its causes."""
    return [{"type": type(cause).__name__, "at": places_of(cause)} for cause in _causes(error)]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _short_path(frame: FrameType) -> str:
    """A frame's file from its top package on, which hides where the project is installed."""
    path, package = frame.f_code.co_filename, frame.f_globals.get("__name__", "").partition(".")[0]
    return path[path.rfind(f"/{package}/") + 1 :]
