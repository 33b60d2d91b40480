"""Requests of several clients, while something happens to who answers them."""

import itertools
import threading
from collections import Counter
from contextlib import contextmanager

import httpx

GENERATE = "/generate-with-uncertainty"
_CAPITALS = ("France", "Italy", "Spain", "Norway", "Japan", "Peru", "Kenya", "Chile")
_numbers = itertools.count()


def prompts():
    """A prompt that nobody asked before, so that no cache answers it."""
    number = next(_numbers)
    return f"What is the capital of {_CAPITALS[number % 8]}? ({number})"


def ask(url, prompt=None, timeout_s=90, **fields):
    """The response to one request, on a connection of its own."""
    body = {"prompt": prompt or prompts(), "num_samples": 4, "max_new_tokens": 16, **fields}
    return httpx.post(url + GENERATE, json=body, timeout=timeout_s)


class Load:
    """What clients saw: statuses, codes of errors, and connections that ended without a response.

    Each request has a connection of its own, as those behind a load balancer have.
    """

    def __init__(self, **fields):
        self.fields = fields
        self.seen = Counter()
        self.untyped = []

    def one(self, url):
        """One request; whether it was answered."""
        try:
            response = ask(url, **self.fields)
        except httpx.HTTPError as error:
            self.seen[type(error).__name__] += 1
            return False
        if response.status_code == 200:
            self.seen["answered"] += 1
            return True
        try:
            self.seen[response.json()["error"]["code"]] += 1
        except (ValueError, KeyError, TypeError):
            self.untyped.append(response.text[:200])
        return False

    @property
    def num_failed(self):
        return self.seen.total() - self.seen["answered"] + len(self.untyped)


@contextmanager
def load(url, num_clients=3, **fields):
    """Clients that ask one question after another while the context is open."""
    found, ended = Load(**fields), threading.Event()

    def client():
        while not ended.is_set():
            if not found.one(url):
                ended.wait(0.5)  # a client that is refused waits a little

    threads = [threading.Thread(target=client) for _ in range(num_clients)]
    for thread in threads:
        thread.start()
    try:
        yield found
    finally:
        ended.set()
        for thread in threads:
            thread.join()
