"""Grammars are tried out in a process of their own before this one compiles them.

A stranger's schema may crash its compiler, or keep it for minutes, which cannot be known
before. So a process that can be spared compiles it first (`models.grammar.trial`).
"""

import asyncio
import hashlib
import itertools
import json
import logging
import socket
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from models.errors import EngineError, NotReady
from workers.admission import Turns

logger = logging.getLogger(__name__)

# Seconds of a processor that a trial may take: at first, and where that was not enough, once more.
# Nearly all schemas take a few thousandths, and none of them waits for one that takes long.
_QUICK_S, _LONG_S = 0.02, 0.5
# Seconds without a verdict after which the process hangs: its own limits are shorter.
_HANGS_AFTER_S = 30.0
_MAX_KNOWN = 4096
_COMMAND = (sys.executable, "-P", "-m", "models.grammar.trial")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a trial."""

    refusal: str = ""  # the reason why no text can follow the grammar; "" where one can
    is_quick: bool = True  # whether it compiles at once


class _Lost(Exception):
    """The process ended, or somebody ended the child that tried the grammar."""


class _Process:
    """The process that tries grammars, until it `has_ended`."""

    def __init__(self) -> None:
        self._connection, other_end = socket.socketpair()
        with other_end:
            number = other_end.fileno()
            self.popen = subprocess.Popen(  # noqa: S603 - this program
                [*_COMMAND, str(number)],
                pass_fds=(number,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # it could quote a schema
            )
        self.has_ended = False
        self._is_ready = asyncio.Event()
        self._numbers = itertools.count()
        self._verdicts: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._writer: asyncio.StreamWriter | None = None

    async def serve(self, vocabulary: Callable[[], str]) -> None:
        """Send it the vocabulary, and read its verdicts until it ends."""
        send = self._connection.sendall
        with suppress(OSError):  # the connection breaks
            await asyncio.to_thread(lambda: send(vocabulary().encode() + b"\n"))
            self._connection.setblocking(False)
            reader, self._writer = await asyncio.open_unix_connection(sock=self._connection)
            self._is_ready.set()
            while line := await reader.readline():
                reply = json.loads(line)
                verdict = self._verdicts.pop(reply["number"], None)
                if verdict is not None and not verdict.done():
                    verdict.set_result(reply)
        self._lose()

    async def ask(self, source: str, seconds: float) -> dict[str, Any]:
        """The verdict on a grammar; raises `_Lost` where there is none."""
        try:
            async with asyncio.timeout(_HANGS_AFTER_S):
                await self._is_ready.wait()
                if self._writer is None or self._writer.is_closing():
                    self._lose()  # `serve` may not know yet
                    raise _Lost
                number = next(self._numbers)
                verdict = self._verdicts[number] = asyncio.get_running_loop().create_future()
                trial = {"number": number, "source": source, "seconds": seconds}
                self._writer.write(json.dumps(trial).encode() + b"\n")
                reply: dict[str, Any] = await verdict
        except TimeoutError:
            self._lose()
            raise _Lost from None
        if reply["refusal"] is None:
            raise _Lost
        return reply

    def _lose(self) -> None:
        if not self.has_ended:
            self.end()
            logger.warning("the process that tries grammars ended with %s", self.popen.returncode)

    def end(self) -> None:
        """Kill it."""
        self.has_ended = True
        self._is_ready.set()
        self.popen.kill()
        self.popen.wait()
        for verdict in self._verdicts.values():
            if not verdict.done():
                verdict.set_exception(_Lost())
        if self._writer is not None:
            self._writer.close()
        self._connection.close()


@dataclass(slots=True)
class _Lane:
    """Trials of one length, which run one at a time; callers take turns."""

    seconds: float
    turns: Turns = field(default_factory=lambda: Turns(1, 1))
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Trials:
    """Verdicts on grammars; each is made once while it is remembered.

    A thread makes the vocabulary, as the process reads it.
    """

    def __init__(self, vocabulary: Callable[[], str], caller: Callable[[], str]) -> None:
        self._vocabulary, self._caller = vocabulary, caller
        self._lanes = _Lane(_QUICK_S), _Lane(_LONG_S)
        self._known: OrderedDict[bytes, Verdict] = OrderedDict()
        self._under_way: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()
        self._process: _Process | None = None
        self._serving: asyncio.Task[None] | None = None
        self._closed = False

    def start(self) -> _Process:
        """Have the process there before the first grammar comes.

        Raises:
            NotReady: it was closed.
        """
        if self._closed:
            raise NotReady("the language model has stopped")
        if self._process is None or self._process.has_ended:
            self._process = _Process()
            self._serving = asyncio.create_task(self._process.serve(self._vocabulary))
        return self._process

    def close(self) -> None:
        """End the process; waiters for a verdict get an error."""
        self._closed = True
        if self._process is not None and not self._process.has_ended:
            self._process.end()

    async def check(self, source: str) -> Verdict:
        """The verdict on a grammar, whose source `Engine.grammar_source` makes.

        Raises:
            EngineError: the process ended time and again.
        """
        key = hashlib.blake2b(source.encode(), digest_size=16).digest()
        lock = self._under_way.setdefault(key, asyncio.Lock())
        async with lock:  # requests of the same meanwhile wait for its verdict
            if (known := self._known.get(key)) is not None:
                self._known.move_to_end(key)
                return known
            return await self._tried(key, source)

    async def _tried(self, key: bytes, source: str) -> Verdict:
        verdict = Verdict()
        for lane in self._lanes:
            async with lane.turns.turn(self._caller(), 1), lane.lock:
                reply = await _to_its_end(self._reply_to(source, lane.seconds))
            verdict = Verdict(reply["refusal"], is_quick=lane is self._lanes[0])
            if not reply["is_cut_short"]:
                break
        self._known[key] = verdict
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)
        return verdict

    async def _reply_to(self, source: str, seconds: float) -> dict[str, Any]:
        """The reply of the process; where it is lost, another one is tried, once."""
        for _ in range(2):
            with suppress(_Lost):
                return await self.start().ask(source, seconds)
        raise EngineError("the process that tries grammars ended; another one is there soon")


async def _to_its_end(work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """The result of work; cancelled, it ends first all the same, so no other runs beside it."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
