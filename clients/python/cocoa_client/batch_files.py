"""The files of a batch, in OpenAI's format: lines of requests, and a line of answer for each."""

import codecs
import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

PATHS = ["/generate-with-uncertainty", "/score"]
PATHS += ["/v1/chat/completions", "/v1/completions", "/v1/responses"]
_ID = "batch_req_"  # and the number of the line
# Far more than a service takes by default; a file that is no batch may be one line of gigabytes.
_MAX_LINE_BYTES = 16 << 20


class BadFile(ValueError):
    """A file that is no output of this input, or that another run is writing."""


class Unwritten(Exception):
    """An answer that could not be written, as to a disk that is full."""


class BadLine(ValueError):
    """A line that is no request to the service."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Line:
    """One line with a request; its body as it is sent."""

    number: int
    custom_id: str | None = None
    path: str = ""
    body: bytes = b""
    fault: BadLine | None = None


def count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for content in _contents(file) if content.strip())


def read_lines(file: BinaryIO) -> Iterator[Line]:
    """The lines of a file, one after another: a file of gigabytes is never held."""
    known: set[str | None] = set()
    for number, content in enumerate(_contents(file), 1):
        if not content.strip():
            continue
        line = _line_of(number, content)
        if line.fault is None and line.custom_id in known:
            fault = BadLine("duplicate_custom_id", "an earlier line has this custom_id")
            line = Line(number, line.custom_id, fault=fault)
        if line.fault is None:
            known.add(line.custom_id)
        yield line


def _contents(file: BinaryIO) -> Iterator[bytes]:
    """Lines, cut one byte above the limit; a byte-order mark is not part of the first."""
    if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
        file.seek(0)
    while content := file.readline(_MAX_LINE_BYTES + 1):
        rest = content
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(_MAX_LINE_BYTES)
        yield content


def _line_of(number: int, content: bytes) -> Line:
    custom_id: str | None = None
    try:
        if len(content) > _MAX_LINE_BYTES:
            raise BadLine("invalid_line", f"the line should have {_MAX_LINE_BYTES} bytes at most")
        given = _object_of(content)
        custom_id = _text_of(given, "custom_id")
        path = _text_of(given, "url")
        if path not in PATHS:
            raise BadLine("invalid_line", f"url should be one of {', '.join(PATHS)}")
        if given.get("method", "POST") != "POST":
            raise BadLine("invalid_line", "method should be POST")
        body = given.get("body")
        if not isinstance(body, dict):
            raise BadLine("invalid_line", "body should be an object")
        if body.get("stream"):
            raise BadLine("invalid_line", "body.stream should be left out: answers come whole")
    except BadLine as fault:
        return Line(number, custom_id, fault=fault)
    return Line(number, custom_id, path, json.dumps(body).encode())


def _object_of(content: bytes) -> dict[str, Any]:
    try:
        given = json.loads(content.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise BadLine("invalid_line", "the line should be JSON") from None
    if not isinstance(given, dict):
        raise BadLine("invalid_line", "the line should be a JSON object")
    return given


def _no_constant(name: str) -> None:
    raise ValueError(name)  # NaN and infinities are no JSON


def _text_of(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise BadLine("invalid_line", f"{name} should be a text")
    return value


class Answers:
    """Lines that answer, in a file that an earlier run may have begun.

    Each is written by one call of the system, so that a killed process leaves whole lines, and at
    most one torn line, whose request is sent again. The file is locked while it is open.

    Attributes:
        num_known: lines that were answered before this run.
        num_failed: lines, those of before among them, that have an error in place of an answer.

    Raises:
        BadFile: it is no output of this command, or another run is writing it.
        OSError: it cannot be opened.
        Unwritten: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self.num_failed = 0
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._known = self._read(path)
        except BlockingIOError:
            os.close(self._file)
            raise BadFile(f"another run is writing {self._name}") from None
        except BadFile:
            os.close(self._file)
            raise
        self.num_known = len(self._known)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            with self._writing():
                os.fsync(self._file)
        finally:
            os.close(self._file)

    def has(self, line: Line) -> bool:
        """True where a line was answered before.

        Raises:
            BadFile: the line was another then.
        """
        if line.number not in self._known:
            return False
        if self._known[line.number] != line.custom_id:
            reason = f"line {line.number} was another one when {self._name} was begun"
            raise BadFile(f"{reason}: choose another output file")
        return True

    def write(
        self, line: Line, *, response: Mapping[str, Any] | None = None, error: BadLine | None = None
    ) -> None:
        """Write the outcome of a line: the response of the service, or why there is none.

        Raises:
            Unwritten: there is no room for it.
        """
        fault = None
        if error is not None:
            fault = {"code": error.code, "message": str(error)}
        answer = {
            "id": f"{_ID}{line.number}",
            "custom_id": line.custom_id,
            "response": response,
            "error": fault,
        }
        text = json.dumps(answer, ensure_ascii=False, separators=(",", ":")) + "\n"
        left = text.encode(errors="backslashreplace")  # which of half a pair makes JSON's escape
        with self._writing():
            while left:  # a call may write less than it was given
                left = left[os.write(self._file, left) :]
        self.num_failed += _has_failed(answer)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Unwritten(f"{self._name} cannot be written: {error.strerror}") from None

    def _read(self, path: Path) -> dict[int, str | None]:
        """Number and custom_id of the lines that are answered; a torn last line is cut off."""
        known: dict[int, str | None] = {}
        end = 0
        with path.open("rb") as file:
            for content in file:
                if not content.endswith(b"\n"):
                    break
                end += len(content)
                known |= [self._answered(content)]
        os.ftruncate(self._file, end)
        return known

    def _answered(self, content: bytes) -> tuple[int, str | None]:
        try:
            answer = json.loads(content)
            self.num_failed += _has_failed(answer)
            return int(answer["id"].removeprefix(_ID)), answer["custom_id"]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise BadFile(f"{self._name} is no output of this command") from None


def _has_failed(answer: Mapping[str, Any]) -> bool:
    response = answer["response"]
    return response is None or not 200 <= response["status_code"] < 300
