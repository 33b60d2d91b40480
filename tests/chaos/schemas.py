"""Generated schemas of strangers against a live service: most can be followed, some are hostile.

    python -m tests.chaos.schemas --count 3000

What is wanted: each request ends in a 200 or a 422 in time, an answer that is finished is valid by
another implementation, /livez answers quickly beside them, the process lives, memory returns.
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field

import httpx
import jsonschema_rs

from tests.chaos.cocoa_process import cocoa_serve
from tests.chaos.soak import EMBEDDED, LIMIT_S, START_S, resident_mb
from tests.conftest import GENERATE

CLIENTS = 8
TIMEOUT_S = 20
# What llguidance was seen to crash or hang on is not among them: what guards against that is tried
# with a compiler that stands in (`tests/unit/workers/test_trials.py`).
EXTREMES = [0, 1, -1, 255, 2**31, 2**53, 2**53 + 1, -(2**53), -(2**53) - 1, 0.1, 1e-9, 1e15]
COUNTS = [0, 1, 2, 3, 5, 10, 1000, 10**6, 2**31, 2**64, -1]
PATTERNS = ["^a$", "^k$", "^a.*b$", "^[ab]*a[ab]$", "x+y", "^a{0,200}$", "["]
PATTERNS += [r"\d{1,500}", r"^\w+@\w+(\.\w{2,})+$", "^.{50}$", "^$"]
PATTERNS += ["(a?){30}", "a$b", r"\bfoo\b", "^((a|b)(c|d)){10}$", "[[:alpha:]]", r"\Aa\z"]
STRINGS = ["", "a", "k", 'q"\\', "é\n", "\x00", "\x7f", "😀", "a" * 500]
NAMES = ["a", "b", "k", "é", '"', "", "x" * 50, "a0b0"]
FORMATS = ["date", "email", "uri", "ipv6", "uuid", "hostname", "password", "int64"]
STEPS = [1, 5, 0.01, 0.5, 65537, 65539, 10**6, 2**32 - 1]


class Strangers:
    """Draws schemas."""

    def __init__(self, seed):
        self.chance = random.Random(seed)

    def number(self):
        if self.chance.random() < 0.8:
            return self.chance.randrange(-9, 99)
        return self.chance.choice(EXTREMES)

    def count(self):
        if self.chance.random() < 0.8:
            return self.chance.randrange(6)
        return self.chance.choice(COUNTS)

    def value(self, depth=2):
        kind = self.chance.randrange(6 if depth else 4)
        if kind < 2:
            return self.number()
        if kind == 2:
            return self.chance.choice([True, False, None])
        if kind == 3:
            return self.chance.choice(STRINGS)
        inner = [self.value(depth - 1) for _ in range(self.chance.randrange(3))]
        return inner if kind == 4 else dict(zip(NAMES, inner, strict=False))

    def some(self, **keywords):
        """Each keyword with an even chance."""
        return {name: draw() for name, draw in keywords.items() if self.chance.random() < 0.4}

    def leaf(self):
        choice = self.chance.choice
        bounds = {"minimum": self.number, "maximum": self.number}
        bounds |= {"exclusiveMinimum": self.number, "multipleOf": lambda: choice(STEPS)}
        lengths = {"minLength": self.count, "maxLength": self.count}
        return choice(
            [
                lambda: {"const": self.value()},
                lambda: {"enum": [self.value() for _ in range(choice([1, 2, 3, 40]))]},
                lambda: (
                    {"type": choice(["integer", "number", ["integer", "null"]])}
                    | self.some(**bounds)
                ),
                lambda: {"type": "string", "pattern": choice(PATTERNS)} | self.some(**lengths),
                lambda: {"type": "string", "format": choice(FORMATS)} | self.some(**lengths),
                lambda: {"type": "string"} | self.some(**lengths),
                lambda: choice([{}, True, {"type": "object"}, {"type": "array"}]),
                lambda: {"type": "boolean"},
                lambda: {"$ref": choice(["#", "#/$defs/a", "#/$defs/b"])},
            ]
        )()

    def schema(self, depth):
        choice, inner = self.chance.choice, lambda: self.schema(depth - 1)
        if not depth or self.chance.random() < 0.2:
            return self.leaf()
        several = [lambda: [inner() for _ in range(choice([1, 2, 3, 9]))]] * 3
        return choice(
            [
                lambda: self.object(inner),
                lambda: self.object(inner),
                lambda: (
                    {"type": "array"}
                    | self.some(items=inner, prefixItems=several[0])
                    | self.some(minItems=self.count, maxItems=self.count)
                ),
                lambda: {choice(["anyOf", "oneOf", "allOf"]): several[0]()},
                lambda: self.many_patterns(choice([2, 10, 32, 60])),
                lambda: (
                    {"type": "object"}
                    | {"properties": {f"p{i}": self.leaf() for i in range(choice([9, 60, 200]))}}
                ),
            ]
        )()

    def object(self, inner):
        names = self.chance.sample(NAMES, self.chance.randrange(5))
        schema = {"type": "object", "properties": {name: inner() for name in names}}
        schema["required"] = [name for name in names if self.chance.random() < 0.6]
        return (
            schema
            | self.some(additionalProperties=lambda: self.chance.choice([False, False, inner()]))
            | self.some(patternProperties=lambda: {self.chance.choice(PATTERNS): inner()})
            | (self.some(maxProperties=self.count) if self.chance.random() < 0.3 else {})
        )

    def many_patterns(self, number):
        form = self.chance.choice(["^a{0}b$", "^a{0}_.", "^x{0}y*$"])
        names = {form.format(i): self.leaf() for i in range(1, number)}
        return {"type": "object", "patternProperties": names, "additionalProperties": False}

    def whole(self):
        schema = self.schema(self.chance.randrange(5))
        if not isinstance(schema, dict):
            schema = {"anyOf": [schema]}
        return schema | {"$defs": {"a": self.schema(2), "b": self.schema(1)}}


@dataclass
class Figures:
    """What the schemas have shown.

    Attributes:
        outcomes: how often each status came.
        wrong: what should not be: another status, an answer that is not valid, or one too late.
        slowest_s: of all requests.
        livez_ms: of each call of /livez beside them.
        memory_mb: before, after, and at most.
    """

    outcomes: Counter = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    livez_ms: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)

    def __str__(self):
        livez = statistics.quantiles(self.livez_ms, n=100)
        times = f"{len(self.livez_ms)} times, median {livez[49]:.1f} ms, p99 {livez[98]:.1f} ms"
        memory = f"{self.memory_mb[0]:.0f}, {self.memory_mb[-1]:.0f}, {max(self.memory_mb):.0f}"
        return (
            f"{dict(self.outcomes)}; {len(self.wrong)} wrong; slowest {self.slowest_s:.2f} s\n"
            f"/livez {times}\n"
            f"MB before, after, at most: {memory}"
        )


def soak(count, seed=0, clients=CLIENTS):
    """The `Figures` of so many schemas against a service on the embedded model."""
    figures = Figures()
    with cocoa_serve(**EMBEDDED, COCOA_NLI__MODEL="") as process:
        process.wait_ready(START_S)
        asyncio.run(_ask_all(process, Strangers(seed), count, clients, figures))
        assert process.popen.poll() is None
        process.wait_admitted(0)
        figures.memory_mb.append(resident_mb(process))
    return figures


async def _ask_all(process, strangers, count, clients, figures):
    schemas = iter([strangers.whole() for _ in range(count)])
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=LIMIT_S, limits=limits, base_url=process.url) as calls:
        await _ask(calls, {"type": "boolean"}, figures)
        figures.memory_mb.append(resident_mb(process))
        watching = asyncio.create_task(_watch(calls, process, figures))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(clients):
                tasks.create_task(_client(calls, schemas, figures))
        watching.cancel()


async def _client(calls, schemas, figures):
    for schema in schemas:
        await _ask(calls, schema, figures)


async def _ask(calls, schema, figures):
    named = {"type": "json_schema", "json_schema": {"name": "one", "schema": schema}}
    body = {"prompt": "What is it?", "num_samples": 2, "max_new_tokens": 24, "seed": 1}
    body |= {"response_format": named, "units": "answer", "cache": False, "timeout_s": TIMEOUT_S}
    began = time.monotonic()
    response = await calls.post(GENERATE, content=json.dumps(body))
    took_s = time.monotonic() - began
    figures.slowest_s = max(figures.slowest_s, took_s)
    figures.outcomes[response.status_code] += 1
    told = response.json()
    is_wrong = response.status_code not in (200, 422) or took_s > TIMEOUT_S + 1
    if response.status_code == 200 and told["finish_reason"] == "stop":
        is_wrong |= not _is_valid(schema, told["text"])
    if is_wrong:
        figures.wrong.append(json.dumps([response.status_code, took_s, told, schema])[:2000])


def _is_valid(schema, text):
    value, held = json.loads(text), json.loads(json.dumps(schema).replace('"oneOf"', '"anyOf"'))
    try:
        return jsonschema_rs.is_valid(held, value)
    except jsonschema_rs.ValidationError:
        return True  # it takes the schema for none, say for a pattern that it does not know


async def _watch(calls, process, figures):
    while True:
        began = time.monotonic()
        await calls.get("/livez")
        figures.livez_ms.append((time.monotonic() - began) * 1000)
        figures.memory_mb.append(resident_mb(process))
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    found = soak(asked.count, asked.seed)
    print(found, *found.wrong, sep="\n")
