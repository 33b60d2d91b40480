"""Sends bodies of every shape that ask for units to a service, and says how it bore them.

    python -m tests.chaos.units_soak http://127.0.0.1:8000 2000

Not a test: it takes minutes. Meanwhile `/livez` is asked all the time.
"""

import asyncio
import multiprocessing
import sys
import time
from collections import Counter
from random import Random

import httpx

from tests.api.units_bodies import body

NUM_CLIENTS = 8
TIMEOUT_S = 5.0  # of each body


async def main(url, num_bodies):
    statuses, took = Counter(), []
    numbers = iter(range(num_bodies))
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:

        async def ask():
            for number in numbers:
                began_at = time.monotonic()
                response = await client.post("/score", json=body(Random(number)))
                took.append(time.monotonic() - began_at)
                statuses[response.status_code] += 1
                if response.status_code >= 500:
                    print(number, response.status_code, response.text[:200])

        await asyncio.gather(*(ask() for _ in range(NUM_CLIENTS)))
    print("statuses", dict(statuses), "longest", f"{max(took):.2f} s of {TIMEOUT_S:g}")


def live(url, has_ended):
    """Ask all the time whether the service lives, from a process that makes no bodies."""
    took = []
    with httpx.Client(base_url=url, timeout=60) as client:
        while not has_ended.wait(0.02):
            began_at = time.monotonic()
            assert client.get("/livez").status_code == 200
            took.append(time.monotonic() - began_at)
    took.sort()
    print(f"/livez p99 {1000 * took[int(0.99 * len(took))]:.0f} ms of {len(took)} calls")


if __name__ == "__main__":
    url, num_bodies = sys.argv[1], int(sys.argv[2])
    has_ended = multiprocessing.Event()
    living = multiprocessing.Process(target=live, args=(url, has_ended))
    living.start()
    asyncio.run(main(url, num_bodies))
    has_ended.set()
    living.join()
