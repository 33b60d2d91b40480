"""The process that tries grammars out: a crash, a loop or a hunger for memory ends a fork of it.

    python -m models.grammar.trial DESCRIPTOR

Through the socket come the vocabulary, then trials; back goes the verdict of each. Every message is
a line of JSON. This process has no threads, so that it can fork: a trial is a child that ends with
its verdict, or with what became of it.
"""

import gc
import json
import os
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import NoReturn

from llguidance import LLTokenizer

from models.grammar.matchers import MAX_LEXER_STATES, NotFollowed, Vocabulary, matcher_of, walk
from models.grammar.rules import BROKEN, TOO_LARGE, TOO_LONG, refusal

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


class Trials:
    """Trials that come through a socket.

    Args:
        connection: to the process that requests them.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._numbers: dict[int, int] = {}  # of trials, by the pid of the child

    def run(self) -> None:
        """Until the other side closes the connection."""
        signal.signal(signal.SIGCHLD, lambda *_: self._bury())
        lines = self._connection.makefile("rb")
        tokenizer = Vocabulary(**json.loads(next(lines))).read()
        gc.freeze()  # or a collection in a child would copy all that it looks at
        for line in lines:
            trial = json.loads(line)
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            if not (pid := os.fork()):
                self._try(tokenizer, **trial)
            self._numbers[pid] = trial["number"]
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})

    def _try(self, tokenizer: LLTokenizer, number: int, source: str, seconds: float) -> NoReturn:
        """In the child."""
        status = 1
        try:
            _limit(seconds)
            rule = ""
            try:
                walk(tokenizer, matcher_of(tokenizer, source, MAX_LEXER_STATES))
            except NotFollowed as error:
                rule = str(error)
            self._tell(number, rule)
            status = 0
        finally:
            os._exit(status)

    def _bury(self) -> None:
        """Tell what became of children that ended, where they could not tell it themselves."""
        while self._numbers and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            number = self._numbers.pop(pid)
            rule: str | None = BROKEN
            if os.WIFSIGNALED(status):
                rule = _ENDED_BY.get(signal.Signals(os.WTERMSIG(status)), BROKEN)
            if status:
                self._tell(number, rule)

    def _tell(self, number: int, rule: str | None) -> None:
        """Of a trial, the refusal, "" for none and None where it is not known, and its time."""
        verdict = {"refusal": rule and refusal(rule), "is_cut_short": rule == TOO_LONG}
        self._connection.sendall(json.dumps({"number": number, **verdict}).encode() + b"\n")


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
