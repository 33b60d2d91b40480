"""`cocoa serve` as a process, with engines and pair models that misbehave.

Tests watch how the process behaves.
"""

import os
import re
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import httpx

from tests.conftest import GENERATE

PROGRAM = (sys.executable, "-m", "tests.chaos.cocoa_with_bad_engines")
WITHIN_S = 60
# No connection is kept: each request shows whether the process still accepts one.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=0)


class Process:
    """A running `cocoa serve`, its log, and a client of it."""

    def __init__(self, popen):
        self.popen = popen
        self.log = []
        self.urls = []
        self._client = httpx.Client(timeout=WITHIN_S, limits=_LIMITS, verify=False)
        self._listening = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.popen.stderr:
            self.log.append(line)
            if found := re.search(r"running on (https?://\S+)", line):
                self.urls.append(found[1])
                self._listening.set()

    @property
    def url(self):
        return self.urls[0]

    @property
    def port(self):
        return int(self.url.rpartition(":")[2])

    def wait_listening(self, within_s=WITHIN_S):
        assert self._listening.wait(within_s), self.log

    def wait_ready(self, within_s=WITHIN_S):
        self.wait_listening(within_s)
        until(lambda: self.get("/readyz").status_code == 200, within_s)

    def get(self, path, url=None, headers=None):
        return self._client.get((url or self.url) + path, headers=headers)

    def generate(self, prompt, headers=None, **body):
        body = {"prompt": prompt, "max_new_tokens": 8} | body
        return self._client.post(self.url + GENERATE, json=body, headers=headers)

    def wait_metric(self, name, value):
        """Until /metrics has the line "name value"; the name includes its labels."""
        until(lambda: f"\n{name} {value:.1f}\n" in self.get("/metrics").text)

    def wait_admitted(self, count=1):
        self.wait_metric("cocoa_admitted_requests", count)

    def wait_deaf(self):
        """Until it accepts no connection any more."""

        def refused():
            try:
                self.get("/livez")
            except httpx.TransportError:
                return True
            return False

        until(refused)

    def exit_code(self):
        code = self.popen.wait(WITHIN_S)
        self._reader.join()
        return code


def until(condition, within_s=WITHIN_S):
    give_up_at = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def outcome(response):
    """Status and error code, which is None of a success."""
    return response.status_code, response.json().get("error", {}).get("code")


def environment_of(**given):
    """Variables of a process over a fake pair model, without those of whoever runs the tests."""
    kept = dict(os.environ)
    for name in os.environ:
        if name.upper().startswith("COCOA_"):
            del kept[name]
    return kept | {"COCOA_SIMILARITY__NAME": "fake", "HF_HUB_OFFLINE": "1"} | given


def cocoa_serve(**environment):
    return cocoa("serve", **environment)


@contextmanager
def cocoa(*command, port=0, **environment):
    with subprocess.Popen(
        [*PROGRAM, *command, "--port", str(port)],
        env=environment_of(**environment),
        stderr=subprocess.PIPE,
        text=True,
    ) as popen:
        process = Process(popen)
        try:
            yield process
        finally:
            popen.kill()
            process.exit_code()
