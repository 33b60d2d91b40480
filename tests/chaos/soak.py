"""Mixed clients of two gateways, for minutes, beside a process that keeps a core busy.

    python -m tests.chaos.soak --seconds 600

With `--redis-fails` Redis hangs or restarts every 1.5 s.

The gateways share a Redis, a generation and a similarity worker. What is wanted: nobody is refused
who is within their limits, no request fails, and at the end Redis counts no request as under way,
the answers are those of the beginning, and files and memory are what they were.
"""

import argparse
import asyncio
import itertools
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from app.http.openai.requests import ALIAS
from tests.chaos.cocoa_process import cocoa, cocoa_serve, until
from tests.chaos.redis_server import running_redis
from tests.conftest import GENERATE
from tests.made_keys import bearer, keys_in

EMBEDDED = {"COCOA_GENERATION__ENGINE": "transformers", "COCOA_SIMILARITY__NAME": "cross_encoder"}
MANY = 1_000_000
# The clients of `wide` and `leaving` are too few to reach these limits, also where each has one
# request of before that its gateway does not yet know to be over.
KEYS = {
    "wide": {"max_concurrent": 60, "requests_per_minute": MANY, "tokens_per_minute": MANY},
    "leaving": {"max_concurrent": 40, "requests_per_minute": MANY, "tokens_per_minute": MANY},
    "narrow": {"max_concurrent": 2},
    "slow": {"requests_per_minute": 60},
}
CHAT = [{"role": "user", "content": "What is the capital of France?"}]
SAMPLES = [{"text": "Lyon"}, {"text": "Paris."}]
# What a client does: how many do so, by which key, and the statuses that are right.
CLIENTS = {
    "asks": (6, "wide", {200}),
    "chats": (4, "wide", {200}),
    "scores": (3, "wide", {200}),
    "reads": (4, "wide", {200}),
    "babbles": (1, "wide", {422}),
    "leaves": (6, "leaving", {200, 499}),
    "crowds": (4, "narrow", {200, 429}),
    "hurries": (2, "slow", {200, 429}),
    "trespasses": (2, None, {401}),
}
PAUSE_S = 0.05  # of who was refused
SETTLE_S = 2.0  # from the last answer to the last release, and less than a lease lasts
LIMIT_S = 120
START_S = 300  # the machine has other things to do
FAILS_EVERY_S = 1.5


@dataclass
class Figures:
    """What a soak has shown.

    Attributes:
        outcomes: how often each client got each status.
        wrong: how often one that is not right.
        leases: requests that Redis counts as under way, after the last one has ended.
        same: whether a gateway answers at the end as at the beginning.
        files: open files of each gateway, before and after.
        memory_mb: resident memory of each gateway, at all times.
    """

    outcomes: Counter = field(default_factory=Counter)
    wrong: Counter = field(default_factory=Counter)
    leases: int = 0
    same: bool = False
    files: list[tuple[int, int]] = field(default_factory=list)
    memory_mb: list[list[float]] = field(default_factory=list)

    def __str__(self):
        lines = [f"{sum(self.outcomes.values())} requests, {sum(self.wrong.values())} wrong"]
        for (client, status), count in sorted(self.outcomes.items(), key=str):
            lines.append(f"  {client}: {status} {count} times")
        lines.append(f"leases left in Redis: {self.leases}; same answers: {self.same}")
        lines.append(f"open files of each gateway, before and after: {self.files}")
        for sizes in self.memory_mb:
            shown = sizes[:: max(1, len(sizes) // 12)]
            lines.append("MB over time: " + " ".join(f"{size:.0f}" for size in [*shown, sizes[-1]]))
        return "\n".join(lines)


def soak(seconds, folder, environment, *, redis_fails=False):
    """The `Figures` of so many seconds with models of this environment."""
    figures = Figures()
    with services(folder, environment) as (gateways, redis):
        before = answers(gateways)
        files = [open_files(one) for one in gateways]
        with busy_core(), failing(redis) if redis_fails else nullcontext():
            asyncio.run(_clients(gateways, seconds, figures))
        for one in gateways:
            one.wait_admitted(0)
        time.sleep(SETTLE_S)
        figures.leases = leases_in(redis)
        figures.same = answers(gateways) == before
        figures.files = list(zip(files, map(open_files, gateways), strict=True))
    return figures


@contextmanager
def services(folder, environment):
    """Two gateways with the same keys, workers and Redis, ready; and that Redis."""
    models = environment | {"COCOA_NLI__MODEL": "", "COCOA_TEST_GATE": str(folder / "never")}
    with ExitStack() as stack:
        redis = stack.enter_context(running_redis(folder))
        keys = keys_in(folder, **KEYS)
        places = {}
        for role in ("generation", "similarity"):
            worker = stack.enter_context(cocoa("worker", role, **models))
            worker.wait_ready(START_S)
            places[f"COCOA_{role.upper()}__URL"] = worker.url
        shared = {"COCOA_CACHE__URL": redis.url, "COCOA_KEYS__FILE": keys.file}
        named = {"COCOA_SIMILARITY__NAME": environment["COCOA_SIMILARITY__NAME"]}
        gateways = []
        for _ in range(2):
            gateway = stack.enter_context(cocoa_serve(**places, **shared, **named))
            gateway.wait_ready(START_S)
            gateway.wait_metric("cocoa_key_limits_breaker_open", 0)
            gateways.append(gateway)
        yield gateways, redis


@contextmanager
def busy_core():
    """A process that computes without end."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as hog:
        try:
            yield
        finally:
            hog.kill()


@contextmanager
def failing(redis):
    """Have Redis hang for up to 0.2 s time and again, and each seventh time lose all it holds."""
    over = threading.Event()

    def fail():
        for number in itertools.count(1):
            if over.wait(FAILS_EVERY_S):
                return
            if number % 7 == 0:
                redis.restart()
            else:
                redis.stop()
                time.sleep(0.05 * (number % 4 + 1))
                redis.cont()

    thread = threading.Thread(target=fail)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


async def _clients(gateways, seconds, figures):
    """All clients for so many seconds; each ends what it has begun."""
    until_s = time.monotonic() + seconds
    figures.memory_mb = [[] for _ in gateways]
    limits = httpx.Limits(max_connections=None)
    async with (
        httpx.AsyncClient(timeout=LIMIT_S, limits=limits) as connections,
        asyncio.TaskGroup() as tasks,
    ):
        number = itertools.count()
        for name, (count, key, right) in CLIENTS.items():
            for _ in range(count):
                chance = random.Random(next(number))
                act = _ACTS[name](connections, gateways, bearer(key) if key else {}, chance)
                tasks.create_task(_client(name, right, act, until_s, figures))
        while time.monotonic() < until_s:
            for gateway, sizes in zip(gateways, figures.memory_mb, strict=True):
                sizes.append(resident_mb(gateway))
            await asyncio.sleep(1)


async def _client(name, right, act, until_s, figures):
    while time.monotonic() < until_s:
        try:
            status = await act()
        except httpx.TransportError as error:
            status = type(error).__name__
        figures.outcomes[name, status] += 1
        if status not in right:
            figures.wrong[name, status] += 1
        if status != 200:
            await asyncio.sleep(PAUSE_S)


def _posts(path, body_of):
    """A client that posts bodies, to a gateway by chance."""

    def make(connections, gateways, headers, chance):
        async def act():
            url = chance.choice(gateways).url + path
            response = await connections.post(url, json=body_of(chance), headers=headers)
            return response.status_code

        return act

    return make


def _reads(connections, gateways, headers, chance):
    """A client that reads streams to their ends."""

    async def act():
        url = chance.choice(gateways).url + GENERATE
        body = _asked(chance) | {"stream": True}
        response = await connections.post(url, json=body, headers=headers)
        if response.status_code == 200 and "event: result" not in response.text:
            [code] = re.findall(r'"code":"(\w+)"', response.text) or ["no result"]
            return code
        return response.status_code

    return act


def _leaves(connections, gateways, headers, chance):
    """A client that leaves in the middle of a stream, which counts as 499."""

    async def act():
        url = chance.choice(gateways).url + GENERATE
        body = {"prompt": f"wait {chance.randrange(MANY)}", "stream": True, "max_new_tokens": 128}
        try:
            async with asyncio.timeout(chance.uniform(0.01, 0.5)):
                response = await connections.post(url, json=body, headers=headers)
        except TimeoutError:
            return 499
        return response.status_code

    return act


def _asked(chance):
    """One of some questions that were asked before, or a new one."""
    prompt = f"What is {chance.choice([chance.randrange(20), chance.randrange(MANY)])}?"
    return {"prompt": prompt, "seed": 1, "max_new_tokens": 16, "num_samples": 4}


def _chat(chance):
    return {"model": ALIAS, "messages": CHAT, "max_tokens": 8, "seed": chance.randrange(9)}


_ACTS = {
    "asks": _posts(GENERATE, _asked),
    "chats": _posts("/v1/chat/completions", _chat),
    "scores": _posts("/score", lambda chance: {"answer": "Paris", "samples": SAMPLES}),
    "reads": _reads,
    "babbles": _posts(GENERATE, lambda chance: {"prompt": [chance.random()] * 1000}),
    "leaves": _leaves,
    "crowds": _posts(GENERATE, _asked),
    "hurries": _posts(GENERATE, _asked),
    "trespasses": _posts(GENERATE, _asked),
}


def answers(gateways):
    """What each gateway answers to one question, apart from id and times."""
    told = []
    for one in gateways:
        body = one.generate("What is it?", bearer("wide"), seed=7, cache=False).json()
        told.append({name: body[name] for name in ("text", "uncertainty", "scores", "usage")})
    return told


def leases_in(redis):
    """Requests that Redis counts as under way."""
    with redis.client() as client:
        names = client.keys("*:limits:*:running")
        return sum(int(told.split()[0]) for name in names for told in client.hvals(name))


def open_files(process):
    """Open files of a process, once connections of before are closed."""
    seen = []

    def settled():
        seen.append(len(os.listdir(f"/proc/{process.popen.pid}/fd")))
        time.sleep(0.2)
        return len(seen) >= 5 and len(set(seen[-5:])) == 1

    until(settled)
    return seen[-1]


def resident_mb(process):
    status = Path(f"/proc/{process.popen.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--redis-fails", action="store_true")
    asked = parser.parse_args()
    with TemporaryDirectory() as made:
        print(soak(asked.seconds, Path(made), EMBEDDED, redis_fails=asked.redis_fails))
