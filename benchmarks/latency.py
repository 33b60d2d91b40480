"""Latency and throughput of the service beside Hugging Face's greedy `generate`, on the same cores.

The service runs in a process of its own and receives requests over HTTP, on one connection.
`generate` runs in this process with a thread for every core while the service is idle. The two
sides of a ratio are measured in turn, request by request or round by round, so that other load on
the machine affects both alike.

- Without cross-request batching: the same service with `max_rows` = 11, the rows of one request at
  M = 10, so that a step has no more rows than one request, and `max_batch_pairs` = 20, the pairs of
  one request in both orders. Rows of a request still join as soon as rows of the previous one
  leave, which makes this faster than strictly one request after another.
- Light mode is measured where the model has a probe, as the embedded one does.
- Beside a long request: the embedded model ends its answers after a few tokens, so this measurement
  uses a model of the same shape with random weights and no EOS. Its long request decodes 256 tokens
  in each of 11 rows.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated, Any

import httpx
import torch
import typer
from report import Figure, Spread, figure_records, figures_table, machine, publish, spread
from rich.table import Table
from service import connect, post, requests_per_second, running_service
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from models.checkpoints import embedded_or
from models.embedded import LANGUAGE_MODELS, TESTBED_DIR
from models.locations import public_name

M = 10
NUM_CLIENTS = 16
LONG_TOKENS, SHORT_TOKENS = 256, 8
STAGES = ("queue", "generate", "similarity", "score", "total")
UNBATCHED = {"GENERATION__MAX_ROWS": M + 1, "SIMILARITY__MAX_BATCH_PAIRS": 2 * M}
# Long enough for the other process's OpenMP threads to stop spinning.
_PAUSE_S = 0.02
_RESULTS = Path(__file__).parent / "results" / "latency.json"
_PROMPTS = (
    "What is the capital of France?",
    "3 + 4 =",
    "How do you say twelve in Spanish?",
    "Hello",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    num_prompts: int  # for latency
    num_requests: int  # of each client in a round, for rates
    num_rounds: int  # for rates
    num_long: int  # long requests


FULL = Plan(num_prompts=120, num_requests=10, num_rounds=6, num_long=4)
QUICK = Plan(num_prompts=25, num_requests=5, num_rounds=3, num_long=2)


@dataclass(slots=True)
class Samples:
    """Measured values by name: milliseconds, and requests per second."""

    ms: dict[str, list[float]] = field(default_factory=dict)
    rates: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float) -> None:
        self.ms.setdefault(name, []).append(value)


def main(
    model: Annotated[str, typer.Option(help="Language model: id, path, or embedded.")] = "embedded",
    similarity_model: Annotated[
        str, typer.Option(help="Cross-encoder: id, path, or embedded.")
    ] = "embedded",
    cores: Annotated[
        int, typer.Option(min=1, help="Cores for everything, service and clients together.")
    ] = 2,
    max_new_tokens: Annotated[int, typer.Option(min=1)] = 64,
    testbed: Annotated[
        Path, typer.Option(help="Folder of JSONL files with a `prompt` in each line.")
    ] = TESTBED_DIR,
    quick: Annotated[bool, typer.Option("--quick", help="A minute instead of several.")] = False,
    json_path: Annotated[Path, typer.Option("--json", help="Where the report goes.")] = _RESULTS,
) -> None:
    """Measure, print a table, write JSON; the exit code is 0 whatever the figures."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    torch.set_num_threads(cores)
    plan, samples = QUICK if quick else FULL, Samples()
    prompts = testbed_prompts(testbed, plan.num_prompts)
    bodies = [_body(prompt, max_new_tokens) for prompt in prompts]
    path = embedded_or(model, LANGUAGE_MODELS)
    with ExitStack() as stack:
        url = stack.enter_context(running_service(model, similarity_model))
        unbatched = stack.enter_context(running_service(model, similarity_model, **UNBATCHED))
        generate = greedy_generate(path, max_new_tokens)
        measure_latency(url, generate, prompts, max_new_tokens, samples)
        measure_rates(url, unbatched, bodies, plan, samples)
    with tempfile.TemporaryDirectory() as folder:
        save_endless_model(path, folder)
        with running_service(folder, similarity_model) as url:
            measure_beside_long(url, prompts, plan.num_long, samples)
        with running_service(model, similarity_model) as url:
            measure_beside_items(url, bodies, plan.num_long, samples)
    spreads = {name: spread(values) for name, values in (samples.ms | samples.rates).items()}
    figures = _figures(samples, spreads)
    report = {
        "machine": machine(cores),
        "models": [public_name(model), public_name(similarity_model)],
        "max_new_tokens": max_new_tokens,
        "plan": asdict(plan),
        "figures": figure_records(figures),
        "measurements": {name: asdict(value) for name, value in spreads.items()},
    }
    figures_title = f"{cores} cores of {machine(cores)['cpu']}"
    publish([_spread_table(spreads), figures_table(figures_title, figures)], report, json_path)


def testbed_prompts(testbed: Path, count: int) -> list[str]:
    """Prompts drawn from all of a testbed, or a few fixed ones, repeated, where there is none."""
    lines: list[str] = []
    for file in sorted(testbed.glob("*.jsonl")):
        lines += file.read_text("utf-8").splitlines()
    prompts = [json.loads(line)["prompt"] for line in lines] or list(_PROMPTS)
    prompts *= -(-count // len(prompts))
    return Random(0).sample(prompts, count)


def greedy_generate(path: str, max_new_tokens: int) -> Callable[[str], float]:
    """A function that measures Hugging Face's greedy `generate` in fp32 on a prompt, in ms.

    Tokenising and decoding do not count.
    """
    tokenizer = AutoTokenizer.from_pretrained(path)
    model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()

    def measure(prompt: str) -> float:
        inputs = tokenizer(prompt, return_tensors="pt", return_token_type_ids=False)
        started_at = time.perf_counter()
        model.generate(
            **inputs,
            do_sample=False,
            max_new_tokens=max_new_tokens,
            pad_token_id=tokenizer.pad_token_id or 0,
        )
        return (time.perf_counter() - started_at) * 1000

    return measure


def measure_latency(
    url: str,
    generate: Callable[[str], float],
    prompts: Sequence[str],
    max_new_tokens: int,
    samples: Samples,
) -> None:
    """For each prompt in turn: M = 10 over HTTP, `generate` here, M = 20 over HTTP.

    Where the model has a probe, light mode over HTTP follows.
    """
    with connect(url) as client:
        has_probe = "predicted_dissimilarity" in client.get("/version").json()["probes"]
        for prompt in prompts[:5]:  # warm up
            post(client, _body(prompt, max_new_tokens))
            generate(prompt)
            if has_probe:
                post(client, _body(prompt, max_new_tokens, mode="light"))
        for prompt in prompts:
            time.sleep(_PAUSE_S)
            reply = post(client, _body(prompt, max_new_tokens))
            samples.add("request, M = 10", reply.elapsed_ms)
            samples.add("outside the pipeline", reply.elapsed_ms - reply.body["timing_ms"]["total"])
            for stage in STAGES:
                samples.add(f"timing_ms.{stage}", reply.body["timing_ms"][stage])
            time.sleep(_PAUSE_S)
            samples.add("greedy generate", generate(prompt))
            time.sleep(_PAUSE_S)
            doubled = post(client, _body(prompt, max_new_tokens, 2 * M))
            samples.add("request, M = 20", doubled.elapsed_ms)
            if has_probe:
                time.sleep(_PAUSE_S)
                light = post(client, _body(prompt, max_new_tokens, mode="light"))
                samples.add("light request", light.elapsed_ms)


def measure_rates(
    url: str, unbatched: str, bodies: Sequence[dict[str, Any]], plan: Plan, samples: Samples
) -> None:
    """Requests per second of one client, of 16, and of 16 without cross-request batching."""
    cases = {
        "1 client": (url, 1),
        "16 clients": (url, NUM_CLIENTS),
        "16 clients, unbatched": (unbatched, NUM_CLIENTS),
    }
    endless = _forever(bodies)
    for number in range(plan.num_rounds + 1):
        for name, (target, num_clients) in cases.items():
            count = plan.num_requests * max(4, num_clients)
            rate = requests_per_second(target, [next(endless) for _ in range(count)], num_clients)
            if number:  # the first round warms up
                samples.rates.setdefault(name, []).append(rate)


def measure_beside_long(
    url: str, prompts: Sequence[str], num_rounds: int, samples: Samples
) -> None:
    """Short requests one after another: alone, then for as long as a long request runs."""
    short = _forever([_body(prompt, SHORT_TOKENS) for prompt in prompts])
    with connect(url) as client, connect(url) as other, ThreadPoolExecutor(1) as thread:
        for _ in range(5):  # warm up
            post(client, next(short))
        for number in range(num_rounds):
            for _ in range(20):
                samples.add("short request alone", post(client, next(short)).elapsed_ms)
            long = thread.submit(post, other, _body(prompts[number], LONG_TOKENS))
            time.sleep(0.05)
            while True:
                reply = post(client, next(short))
                if long.done():  # this short request may have run alone in part
                    break
                samples.add("short request beside a long one", reply.elapsed_ms)
            usage = long.result().body["usage"]
            if usage["completion_tokens"] + usage["sample_tokens"] != (M + 1) * LONG_TOKENS:
                raise RuntimeError(f"the long request ended early: {usage}")
            samples.add("long request", long.result().elapsed_ms)


def measure_beside_items(
    url: str, bodies: Sequence[dict[str, Any]], num_rounds: int, samples: Samples
) -> None:
    """Single requests one after another: alone, then for as long as a call of 64 items runs."""
    single, endless = _forever(bodies), _forever(bodies)
    with connect(url) as client, connect(url) as other, ThreadPoolExecutor(1) as thread:
        for _ in range(5):  # warm up
            post(client, next(single))
        for number in range(num_rounds):
            for _ in range(20):
                samples.add("single request alone", post(client, next(single)).elapsed_ms)
            items = []
            for offset in range(64):
                item = next(endless) | {"answer": " Paris", "seed": 64 * number + offset}
                del item["mode"]
                items.append(item)
            call = thread.submit(_score, other, items)
            while True:
                reply = post(client, next(single))
                if call.done():  # this request may have run alone in part
                    break
                samples.add("single request beside 64 items", reply.elapsed_ms)
            samples.add("call of 64 items", call.result())


def save_endless_model(path: str, folder: str) -> None:
    """Write a model shaped as that at `path`, with random weights; nothing ends its sequences."""
    config = AutoConfig.from_pretrained(path)
    config.eos_token_id = None
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config)
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(path)
    tokenizer.eos_token = None
    tokenizer.save_pretrained(folder)


def _figures(samples: Samples, spreads: dict[str, Spread]) -> list[Figure]:
    def ratio(name: str, other: str) -> float:
        return spreads[name].median / spreads[other].median

    outside_ms = spreads["outside the pipeline"].median
    light_ratio = None
    if "light request" in spreads:
        light_ratio = ratio("light request", "greedy generate")
    full_ratio = ratio("request, M = 10", "greedy generate")
    doubled_ratio = ratio("request, M = 20", "request, M = 10")
    clients_ratio = ratio("16 clients", "1 client")
    batched_ratio = ratio("16 clients", "16 clients, unbatched")
    beside_ratio = ratio("short request beside a long one", "short request alone")
    items_ratio = ratio("single request beside 64 items", "single request alone")
    rates = "requests per second, 16 clients"
    figures = [
        Figure("request, M = 10, over HTTP / greedy generate", full_ratio, "x", 3.0),
        Figure("M = 20 / M = 10", doubled_ratio, "x", 1.35),
        Figure("outside the pipeline", outside_ms, "ms", 3.0),
        Figure(f"{rates} / 1", clients_ratio, "x", 1.7, at_least=True),
        Figure(f"{rates}, batched / unbatched", batched_ratio, "x", 1.5, at_least=True),
        Figure("short request beside a 256-token one / alone", beside_ratio, "x", 3.0),
        Figure("single request beside a call of 64 items / alone", items_ratio, "x", 3.0),
    ]
    if light_ratio is None:
        return figures
    return [Figure("light, over HTTP / greedy generate", light_ratio, "x", 0.95), *figures]


def _spread_table(spreads: dict[str, Spread]) -> Table:
    table = Table(title="Medians (ms; requests per second for clients)", title_justify="left")
    for column in ("measured", "median", "quartiles", "count"):
        table.add_column(column, justify="left" if column == "measured" else "right")
    for name, value in spreads.items():
        quartiles = f"{value.quartile_1:.1f} to {value.quartile_3:.1f}"
        table.add_row(name, f"{value.median:.1f}", quartiles, str(value.count))
    return table


def _body(
    prompt: str, max_new_tokens: int, num_samples: int = M, mode: str = "full"
) -> dict[str, Any]:
    body = {
        "prompt": prompt,
        "num_samples": num_samples,
        "max_new_tokens": max_new_tokens,
        "seed": len(prompt),
    }
    return body | {"mode": mode, "cache": False}


def _score(client: httpx.Client, items: Sequence[dict[str, Any]]) -> float:
    """Milliseconds that a call of these items took."""
    began_at = time.perf_counter()
    reply = client.post("/score", json={"items": items})
    reply.raise_for_status()
    if any(outcome["error"] for outcome in reply.json()["results"]):
        raise RuntimeError("an item failed")
    return 1000 * (time.perf_counter() - began_at)


def _forever(items: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    while True:
        yield from items


if __name__ == "__main__":
    typer.run(main)
