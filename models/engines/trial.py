"""The process that tries grammars out: a crash, a loop or a hunger for memory ends a fork of it.

    python -m models.engines.trial DESCRIPTOR

Through the socket come the vocabulary, then trials; back goes the verdict of each. Every message is
a line of JSON. This process has no threads, so that it can fork: a trial is a child that ends with
its verdict, or with what became of it.
"""

import gc
import json
import os
import resource
import selectors
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from models.engines.matchers import MAX_LEXER_STATES, NotFollowed, Vocabulary, matcher_of, walk
from models.grammar_rules import BROKEN, TOO_LARGE, TOO_LONG

# The rule that a trial ended by a signal shows; None where somebody else ended it, or it had no
# processor.
_ENDED_BY = {
    signal.SIGPROF: TOO_LONG,
    signal.SIGABRT: TOO_LARGE,
    signal.SIGKILL: None,
    signal.SIGALRM: None,
}
# Bytes that a trial may take: beside the vocabulary, and of stack. A thread of the process that
# compiles the grammar later has more of both.
_MEMORY, _STACK = 256 << 20, 1 << 20
# Wall seconds in any case, and for each second of a processor, which others want, too.
_LEAST_WALL_S, _PATIENCE = 5, 10
_STATM = Path("/proc/self/statm")


@dataclass(slots=True)
class _Child:
    """A fork that tries a grammar, with the part of its verdict that has arrived."""

    number: int
    pid: int
    verdict: bytes = b""


class Trials:
    """Trials that come through a socket.

    Args:
        connection: to the process that requests them.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._selector = selectors.DefaultSelector()
        self._tokenizer: Any = None
        self._unread = b""

    def run(self) -> None:
        """Until the other side closes the connection."""
        self._selector.register(self._connection, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.data is not None:
                    self._hear(key.fd, key.data)
                elif not self._receive():
                    return

    def _receive(self) -> bool:
        received = self._connection.recv(1 << 20)
        *lines, self._unread = (self._unread + received).split(b"\n")
        for message in map(json.loads, lines):
            if self._tokenizer is None:
                self._tokenizer = Vocabulary(**message).read()
                gc.freeze()  # or a collection in a child would copy all that it looks at
            else:
                self._begin(**message)
        return bool(received)

    def _begin(self, number: int, source: str, seconds: float) -> None:
        hears, speaks = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(hears)
            self._connection.close()
            self._try(speaks, source, seconds)
        os.close(speaks)
        self._selector.register(hears, selectors.EVENT_READ, _Child(number, pid))

    def _try(self, speaks: int, source: str, seconds: float) -> NoReturn:
        """In the child."""
        status = 1
        try:
            _limit(seconds)
            rule = ""
            try:
                walk(self._tokenizer, matcher_of(self._tokenizer, source, MAX_LEXER_STATES))
            except NotFollowed as error:
                rule = str(error)
            os.write(speaks, rule.encode() or b"\n")
            status = 0
        finally:
            os._exit(status)

    def _hear(self, hears: int, child: _Child) -> None:
        if content := os.read(hears, 1 << 16):
            child.verdict += content
            return
        self._selector.unregister(hears)
        os.close(hears)
        _, status = os.waitpid(child.pid, 0)
        rule: str | None = BROKEN
        if child.verdict:
            rule = child.verdict.decode().strip()
        elif os.WIFSIGNALED(status):
            rule = _ENDED_BY.get(signal.Signals(os.WTERMSIG(status)), BROKEN)
        message = {"number": child.number, "rule": rule}
        self._connection.sendall(json.dumps(message).encode() + b"\n")


def _limit(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, _LEAST_WALL_S + seconds * _PATIENCE)
    resource.setrlimit(
        resource.RLIMIT_STACK, (_STACK, resource.getrlimit(resource.RLIMIT_STACK)[1])
    )
    if _STATM.exists():
        size = int(_STATM.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + _MEMORY, size + _MEMORY))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    Trials(socket.socket(fileno=int(sys.argv[1]))).run()
