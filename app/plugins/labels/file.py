"""Labels in a file of one gateway: a line each, the last line of an answer counts."""

import asyncio
import fcntl
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.cache.lane import Lane
from app.lines import end_of_last_line
from app.plugins.labels.protocol import Answer, FeedbackConfig, Label, StoreFailed
from models.codec import to_json
from models.errors import InvalidRequest

# Each label that differs from the last is a further line; beyond this they are refused.
MAX_LABELS = 10


@dataclass(slots=True, eq=False)
class _Served:
    """An answer, its latest label, and how many lines its labels have."""

    answer: Answer
    label: tuple[object, ...] | None = None
    written: "asyncio.Future[None] | None" = None
    num_labels: int = 0

    def take_back(self, written: "asyncio.Future[None]") -> None:
        """A line that could not be written does not count; its label is written when repeated."""
        if written.exception() is not None:
            self.num_labels -= 1
            if self.written is written:
                self.written = None


class FileStore:
    """A `FeedbackStore`: answers in this process, labels in a file that only it writes to.

    `on_lost` is called for each answer that makes room for another.
    """

    def __init__(self, config: FeedbackConfig, on_lost: Callable[[], None]) -> None:
        self._config = config
        self._on_lost = on_lost
        self._answers: OrderedDict[str, _Served] = OrderedDict()
        self._labels: Lane[bytes, None] = Lane(self._write)
        self._thread = ThreadPoolExecutor(1, "labels")
        self._file: int | None = None
        self._num_bytes = 0
        self._is_whole = True

    async def start(self) -> None:
        """Open the file and take it; a half-written last line, never acknowledged, goes."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._open)

    async def close(self) -> None:
        """Close the file; a write under way ends first, unless the disk hangs."""
        await self._labels.close()
        if self._file is not None:
            closing = asyncio.get_running_loop().run_in_executor(self._thread, os.close, self._file)
            self._file = None
            with suppress(TimeoutError):
                await asyncio.wait_for(closing, self._config.timeout_s)
        self._thread.shutdown(wait=False)

    def remember(self, answer: Answer) -> None:
        """The answer is lost with this process."""
        self._answers.pop(answer.name, None)
        self._answers[answer.name] = _Served(answer)
        self._forget_old()
        if len(self._answers) > self._config.max_answers:
            self._answers.popitem(last=False)
            self._on_lost()

    async def find(self, name: str) -> Answer | None:
        self._forget_old()
        served = self._answers.get(name)
        if served is None:
            return None
        return served.answer

    async def put(self, label: Label) -> None:
        """Return after fsync, one for all labels that wait; a repeated label is no further line."""
        served = self._answers.get(label.answer.name) or _Served(label.answer)
        values, written = (label.quality, label.task, label.parts), served.written
        if written is None or values != served.label:
            if served.num_labels == MAX_LABELS:
                message = f"an answer can be labelled {MAX_LABELS} times, and this one has been"
                raise InvalidRequest(message, field="id")
            written = self._labels.send(to_json(label) + b"\n")
            served.label, served.written = values, written
            served.num_labels += 1
            written.add_done_callback(served.take_back)
        await asyncio.wait((written,))  # unlike an await, this cancels it for nobody else
        written.result()

    def _forget_old(self) -> None:
        oldest = time.time() - self._config.ttl_s
        while self._answers and next(iter(self._answers.values())).answer.served_at <= oldest:
            self._answers.popitem(last=False)

    async def _write(self, lines: Sequence[bytes]) -> Sequence[None]:
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._append, b"".join(lines))
        except OSError as error:
            raise StoreFailed(f"the file cannot be written: {error.strerror}") from None
        return [None] * len(lines)

    def _open(self) -> None:
        path = Path(self._config.path)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                message = f"{path} belongs to another gateway that runs: use a file each, or Redis"
                raise OSError(message) from None
            self._num_bytes = end_of_last_line(path)
            os.ftruncate(file, self._num_bytes)
            os.fsync(file)
            _sync_directory(path.parent)
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def _append(self, content: bytes) -> None:
        """Write and wait for the disk; a write that fails leaves no half line before the next."""
        if self._file is None:
            raise OSError(0, "it is not open")
        if not self._is_whole:
            os.ftruncate(self._file, self._num_bytes)
        self._is_whole = False
        left = memoryview(content)
        while left:
            left = left[os.write(self._file, left) :]
        os.fsync(self._file)
        self._num_bytes += len(content)
        self._is_whole = True


def _sync_directory(path: Path) -> None:
    """A new file's name is durable when its folder is."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
