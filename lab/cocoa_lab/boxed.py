"""The child in which `cocoa_lab.programs` runs a program; it knows the standard library alone.

    python -P -s -S boxed.py <<< '{"program": …, "function": …, "arguments": […]}'

It writes what the function returns to each list of arguments, and gives up its own rights before
the program begins; as root it becomes nobody. The limits hold against any program. Removing files
and sending signals need no open file, so that only an audit hook keeps a program from it: that
holds what models write by mistake, and not what attacks the interpreter.
"""

import ctypes
import json
import os
import resource
import sys
from importlib import import_module
from typing import Any

# What programs import is imported before, since no file can be opened then.
_MODULES = (
    *("bisect", "collections", "collections.abc", "copy", "dataclasses", "datetime", "decimal"),
    *("enum", "fractions", "functools", "heapq", "itertools", "math", "operator", "random", "re"),
    *("statistics", "string", "textwrap", "typing"),
)
MEMORY = 512 << 20  # bytes, the interpreter among them
SECONDS = 2  # of processor time
_LIMITS = {
    resource.RLIMIT_AS: MEMORY,
    resource.RLIMIT_CPU: SECONDS,
    resource.RLIMIT_CORE: 0,
    resource.RLIMIT_FSIZE: 0,
    resource.RLIMIT_NOFILE: 0,  # no file, no socket and no pipe is opened
    resource.RLIMIT_NPROC: 0,  # of an ordinary user
}
_NOBODY = 65534
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # of linux/sched.h
# Events of the interpreter's own work; those of files, sockets, processes and signals are not here.
_ALLOWED = ("builtins.", "code.", "compile", "exec", "import", "object.", "sys._getframe")


def _give_up() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    if sys.platform == "linux":
        # Where it isn't permitted, no socket is opened all the same.
        ctypes.CDLL(None).unshare(_NEW_USER | _NEW_NETWORK)
    for limit, value in _LIMITS.items():
        resource.setrlimit(limit, (value, value))
    sys.addaudithook(_audit)


def _audit(event: str, _: object) -> None:
    if not event.startswith(_ALLOWED):
        raise PermissionError(event)


def _main() -> None:
    job = json.load(sys.stdin)
    out, sys.stdout = sys.stdout, sys.stderr
    for name in _MODULES:
        import_module(name)
    _give_up()
    scope: dict[str, Any] = {"__name__": "answer"}
    exec(job["program"], scope)  # noqa: S102 - it is what this child is for
    function = scope[job["function"]]
    found = []
    for arguments in job["arguments"]:
        found.append(function(*arguments))
    json.dump(found, out)


if __name__ == "__main__":
    _main()
