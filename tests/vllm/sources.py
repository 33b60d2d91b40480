"""Python sources of vLLM's releases, read out of their wheels without fetching the rest of them."""

import ast
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import httpx

from tests.vllm.server import PYTHON

_BLOCK = 1 << 20
_PIP = [
    *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"),
    *("--no-deps", "--only-binary", ":all:", "--use-feature", "fast-deps", "--report", "-"),
]

# Of a module's full name: its syntax tree.
Sources = Callable[[str], ast.Module]


class _Ranged(io.RawIOBase):
    """A file on a server that is read by ranges."""

    def __init__(self, client: httpx.Client, url: str) -> None:
        self._client, self._url, self._at = client, url, 0
        self._size = int(client.head(url).raise_for_status().headers["content-length"])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer) -> int:
        last = min(self._size, self._at + len(buffer)) - 1
        if last < self._at:
            return 0
        reply = self._client.get(self._url, headers={"Range": f"bytes={self._at}-{last}"})
        assert reply.status_code == httpx.codes.PARTIAL_CONTENT
        buffer[: len(reply.content)] = reply.content
        self._at += len(reply.content)
        return len(reply.content)


def releases(count: int) -> Iterator[tuple[str, str]]:
    """The latest releases as pip finds them: version and the address of the wheel."""
    wanted = "vllm"
    for _ in range(count):
        report = subprocess.run([*_PIP, wanted], check=True, capture_output=True, timeout=300)
        [found] = json.loads(report.stdout)["install"]
        version = found["metadata"]["version"]
        yield version, found["download_info"]["url"]
        wanted = f"vllm<{version}"


@contextmanager
def released(url: str) -> Iterator[Sources]:
    """Sources of a wheel, while the context is open."""
    with (
        httpx.Client(follow_redirects=True, timeout=60) as client,
        zipfile.ZipFile(io.BufferedReader(_Ranged(client, url), _BLOCK)) as wheel,
    ):
        yield cache(lambda module: ast.parse(wheel.read(module.replace(".", "/") + ".py")))


def installed() -> Sources | None:
    """Sources of the vLLM that other tests here run; None without one."""
    found = next(Path(PYTHON).parent.parent.glob("lib/*/site-packages/vllm"), None)
    if found is None:
        return None
    root = found.parent
    return cache(lambda module: ast.parse((root / f"{module.replace('.', '/')}.py").read_bytes()))
