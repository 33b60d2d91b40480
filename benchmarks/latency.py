"""Latency and throughput of the service beside Hugging Face's greedy `generate`, on the same cores.

Each side has a process: the service, asked over HTTP on one connection, `generate`, and the engine
in a tight loop. While one is measured the others sleep.

- Blocks: a rest, three requests that warm up, then as many as a block has; all sides in turn, four
  rounds. These are the warm figures. The ratio of two sides is that of their medians in one round,
  and the median over the rounds.
- Cold: each request after a second of idleness.
- Interleaved: request by request in turn with a short pause. Every side then pays for threads that
  have gone to sleep, `generate` most, which flatters the service.
- Without cross-request batching: the same service with `max_rows` = 11, the rows of one request at
  M = 10, so that a step has no more rows than one request, and `max_batch_pairs` = 20, the pairs of
  one request in both orders. Rows of a request still join as soon as rows of the previous one
  leave, which makes this faster than strictly one request after another.
- Light mode is measured where the model has a probe, as the embedded one does.
- The similarity stage of a long answer: a model of the shape of `embedded-long`, with random
  weights and no EOS, writes an answer and M = 5 samples of 150 tokens; the pair models read
  paragraphs of eight sentences and as many tokens. Processor time of one thread each, in turn.
- Beside a long request: the embedded model ends its answers after a few tokens, so this measurement
  uses a model of the same shape with random weights and no EOS. Its long request decodes 256 tokens
  in each of 11 rows.
- `--profile` adds where the time of a request goes.
"""

import json
import os
import statistics
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
from alone import (
    engine_alone,
    greedy_generate,
    in_own_process,
    sentences_alone,
    steps_by_part,
)
from evaluating import prompts_per_second
from larger import measure_larger
from report import Figure, Spread, figure_records, figures_table, machine, publish, spread
from rich.table import Table
from service import cached_per_second, connect, post, requests_per_second, running_service
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from models.checkpoints import embedded_or
from models.embedded import LANGUAGE_MODELS, TESTBED_DIR
from models.locations import public_name

M = 10
NUM_CLIENTS = 16
LONG_TOKENS, SHORT_TOKENS = 256, 8
_SENTENCES_TOKENS = 150
STAGES = ("queue", "generate", "similarity", "score", "total")
UNBATCHED = {"GENERATION__MAX_ROWS": M + 1, "SIMILARITY__MAX_BATCH_PAIRS": 2 * M}
GREEDY, LIGHT, FULL_REQUEST = "greedy generate", "light request", "request, M = 10"
DOUBLED, ENGINE_LIGHT, ENGINE_FULL = (
    "request, M = 20",
    "engine alone, light",
    "engine alone, M = 10",
)
# Long enough for every other process's threads to stop spinning, and for what the last block left.
_REST_S = 1.0
_NUM_WARM_UP = 3
_PAUSE_S = 0.02
_RESULTS = Path(__file__).parent / "results" / "latency.json"
_PROMPTS = (
    "What is the capital of France?",
    "3 + 4 =",
    "How do you say twelve in Spanish?",
    "Hello",
)

# Milliseconds of each prompt of a block, one after another.
Side = Callable[[Sequence[str]], list[float]]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    num_blocks: int  # of each side
    block_size: int  # requests
    num_cold: int  # requests after a second of idleness
    num_interleaved: int
    num_requests: int  # of each client in a round, for rates
    num_rounds: int  # for rates
    num_long: int  # long requests
    num_evaluated: int  # prompts of an evaluation


FULL = Plan(4, 60, 15, 60, num_requests=10, num_rounds=6, num_long=4, num_evaluated=300)
QUICK = Plan(2, 20, 4, 15, num_requests=5, num_rounds=3, num_long=2, num_evaluated=60)


@dataclass(slots=True)
class Samples:
    """Measured values by name: milliseconds, requests per second, and ratios of rounds."""

    ms: dict[str, list[float]] = field(default_factory=dict)
    rates: dict[str, list[float]] = field(default_factory=dict)
    ratios: dict[str, list[float]] = field(default_factory=dict)
    keeps_stages: bool = True

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
    quick: Annotated[bool, typer.Option("--quick", help="Few minutes instead of many.")] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Say where the time of a request goes.")
    ] = False,
    only_blocks: Annotated[
        bool, typer.Option("--only-blocks", help="Leave out all but blocks and --profile.")
    ] = False,
    json_path: Annotated[Path, typer.Option("--json", help="Where the report goes.")] = _RESULTS,
) -> None:
    """Measure, print a table, write JSON; the exit code is 0 whatever the figures."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    torch.set_num_threads(cores)
    plan, samples = QUICK if quick else FULL, Samples()
    prompts = testbed_prompts(testbed, max(plan.block_size, plan.num_interleaved))
    bodies = [_body(prompt, max_new_tokens) for prompt in prompts]
    path = embedded_or(model, LANGUAGE_MODELS)
    measure_blocks(model, similarity_model, prompts, max_new_tokens, cores, plan, samples)
    figures = _block_figures(samples)
    figures += processor_times(model, prompts[: plan.block_size], max_new_tokens)
    figures += similarity_shares()
    if not only_blocks:
        figures += _figures_beside(model, similarity_model, path, prompts, bodies, plan, samples)
        figures += measure_larger(cores, 1 if quick else 3)
    spreads = {name: spread(values) for name, values in (samples.ms | samples.rates).items()}
    tables = [_spread_table(spreads)]
    if profile:
        tables.append(
            _profile_table(model, prompts[: plan.block_size], max_new_tokens, cores, spreads)
        )
    report = {
        "machine": machine(cores),
        "models": [public_name(model), public_name(similarity_model)],
        "max_new_tokens": max_new_tokens,
        "plan": asdict(plan),
        "figures": figure_records(figures),
        "measurements": {name: asdict(value) for name, value in spreads.items()},
        "ratios of rounds": samples.ratios,
    }
    figures_title = f"{cores} cores of {machine(cores)['cpu']}"
    publish([*tables, figures_table(figures_title, figures)], report, json_path)


def testbed_prompts(testbed: Path, count: int) -> list[str]:
    """Prompts drawn from all of a testbed, or a few fixed ones, repeated, where there is none."""
    lines: list[str] = []
    for file in sorted(testbed.glob("*.jsonl")):
        lines += file.read_text("utf-8").splitlines()
    prompts = [json.loads(line)["prompt"] for line in lines] or list(_PROMPTS)
    prompts *= -(-count // len(prompts))
    return Random(0).sample(prompts, count)


def measure_blocks(
    model: str,
    similarity_model: str,
    prompts: Sequence[str],
    max_new_tokens: int,
    cores: int,
    plan: Plan,
    samples: Samples,
) -> None:
    """Blocks of each side in turn, then single requests after idleness, then all interleaved."""
    path = embedded_or(model, LANGUAGE_MODELS)
    with ExitStack() as stack:
        url = stack.enter_context(running_service(model, similarity_model))
        client = stack.enter_context(connect(url))

        def alone(make: Callable[..., Any], *arguments: Any) -> Side:
            return stack.enter_context(in_own_process(make, *arguments))

        def over_http(name: str, num_samples: int = M, mode: str = "full") -> Side:
            def block(asked: Sequence[str]) -> list[float]:
                bodies = [_body(prompt, max_new_tokens, num_samples, mode) for prompt in asked]
                return [_request(client, body, name, samples) for body in bodies]

            return block

        sides = {
            GREEDY: alone(greedy_generate, path, max_new_tokens, cores),
            ENGINE_LIGHT: alone(engine_alone, model, max_new_tokens, cores, 0),
            LIGHT: over_http(LIGHT, mode="light"),
            ENGINE_FULL: alone(engine_alone, model, max_new_tokens, cores, M),
            FULL_REQUEST: over_http(FULL_REQUEST),
            DOUBLED: over_http(DOUBLED, 2 * M),
        }
        if "predicted_dissimilarity" not in client.get("/version").json()["probes"]:
            del sides[LIGHT]
        for _ in range(plan.num_blocks):
            medians = {}
            for name, side in sides.items():
                time.sleep(_REST_S)
                side(prompts[:_NUM_WARM_UP])
                block = side(prompts[: plan.block_size])
                medians[name] = statistics.median(block)
                for value in block:
                    samples.add(name, value)
            _add_ratios(medians, samples)
        samples.keeps_stages = False
        shown = [name for name in (GREEDY, LIGHT, FULL_REQUEST) if name in sides]
        for number in range(plan.num_cold):
            for name in shown:
                time.sleep(_REST_S)
                samples.add(f"cold: {name}", *sides[name]([prompts[number]]))
        for prompt in prompts[: plan.num_interleaved]:
            for name in shown:
                time.sleep(_PAUSE_S)
                samples.add(f"interleaved: {name}", *sides[name]([prompt]))


def processor_times(model: str, prompts: Sequence[str], max_new_tokens: int) -> list[Figure]:
    """Of one thread, engine / `generate`: what other work on the machine disturbs least."""
    path, common = embedded_or(model, LANGUAGE_MODELS), (max_new_tokens, 1)
    with (
        in_own_process(greedy_generate, path, *common, 0, time.thread_time) as greedy,
        in_own_process(engine_alone, model, *common, 0, time.thread_time) as light,
        in_own_process(engine_alone, model, *common, M, time.thread_time) as full,
    ):
        sides = {GREEDY: greedy, ENGINE_LIGHT: light, ENGINE_FULL: full}
        times: dict[str, list[float]] = {name: [] for name in sides}
        for side in sides.values():
            side(prompts[:_NUM_WARM_UP])
        for prompt in prompts:
            for name, side in sides.items():
                times[name] += side([prompt])
    figures = []
    for name in (ENGINE_LIGHT, ENGINE_FULL):
        ratio = statistics.median(times[name]) / statistics.median(times[GREEDY])
        figures.append(Figure(f"processor time: {name} / {GREEDY}", ratio, "x"))
    return figures


def similarity_shares(num_rounds: int = 15) -> list[Figure]:
    """Of a request for the sentences of a long answer: similarity / generation and similarity."""
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        save_endless_model(embedded_or("embedded-long", LANGUAGE_MODELS), folder)
        for num_samples, limit in ((M // 2, 0.35), (M, None)):
            common = num_samples, time.thread_time
            with (
                in_own_process(engine_alone, folder, _SENTENCES_TOKENS, 1, *common) as engine,
                in_own_process(sentences_alone, *common) as pairs,
            ):
                shares = []
                for number in range(num_rounds):
                    [written], [compared] = engine(["Tell me about Lima."]), pairs([str(number)])
                    shares.append(compared / (written + compared))
            name = f"processor time: similarity of 8 sentences, M = {num_samples} / request"
            figures.append(Figure(name, statistics.median(shares[1:]), "", limit))
    return figures


def _add_ratios(medians: dict[str, float], samples: Samples) -> None:
    """Ratios of one round's medians, which were taken within a minute."""
    pairs = [(name, GREEDY) for name in medians if name not in (GREEDY, DOUBLED)]
    for name, other in [*pairs, (DOUBLED, FULL_REQUEST)]:
        ratios = samples.ratios.setdefault(f"{name} / {other}", [])
        ratios.append(medians[name] / medians[other])


def _request(client: httpx.Client, body: dict[str, Any], name: str, samples: Samples) -> float:
    """Milliseconds of a request; what the service says of its stages is kept, too, of warm ones."""
    reply = post(client, body)
    if not samples.keeps_stages:
        return reply.elapsed_ms
    timing_ms = reply.body["timing_ms"]
    if name == FULL_REQUEST:
        samples.add("outside the pipeline", reply.elapsed_ms - timing_ms["total"])
    if name in (FULL_REQUEST, LIGHT):
        for stage in STAGES:
            samples.add(f"{name}: {stage}", timing_ms[stage])
    return reply.elapsed_ms


def _profile_table(
    model: str,
    prompts: Sequence[str],
    max_new_tokens: int,
    cores: int,
    spreads: dict[str, Spread],
) -> Table:
    """Median milliseconds by who takes them: the engine's parts by itself, then the rest.

    The engine runs on as many threads as in the service.
    """
    table = Table(title="Where the time of a request goes (ms)", title_justify="left")
    for column in ("part", "light", "M = 10"):
        table.add_column(column, justify="left" if column == "part" else "right")
    columns = []
    for name, num_samples in ((LIGHT, 0), (FULL_REQUEST, M)):
        threads = max(1, cores // 2)
        with in_own_process(steps_by_part, model, max_new_tokens, threads, num_samples) as block:
            block(prompts[:_NUM_WARM_UP])
            measured = block(prompts)
        parts = {part: statistics.median(one[part] for one in measured) for part in measured[0]}
        stage = {of: spreads[f"{name}: {of}"].median for of in STAGES if f"{name}: {of}" in spreads}
        columns.append(
            {
                "forward passes": parts["forward"],
                "sampling and statistics": parts["sampling"],
                "bookkeeping, texts": parts["engine"] - parts["forward"] - parts["sampling"],
                "thread change and event loop": parts["worker"] - parts["engine"],
                "generation in the service beyond that": stage["generate"] - parts["worker"],
                "similarity": stage["similarity"],
                "queue, scores": stage["total"] - stage["generate"] - stage["similarity"],
                "HTTP": spreads[name].median - stage["total"],
                "request": spreads[name].median,
            }
            if stage
            else {}
        )
    for part in columns[-1]:
        table.add_row(part, *(f"{column[part]:.2f}" if column else "" for column in columns))
    return table


def _figures_beside(
    model: str,
    similarity_model: str,
    path: str,
    prompts: Sequence[str],
    bodies: list[dict[str, Any]],
    plan: Plan,
    samples: Samples,
) -> list[Figure]:
    """Rates, what runs beside other work, cached answers, an evaluation."""
    with ExitStack() as stack:
        url = stack.enter_context(running_service(model, similarity_model))
        unbatched = stack.enter_context(running_service(model, similarity_model, **UNBATCHED))
        measure_rates(url, unbatched, bodies, plan, samples)
    with tempfile.TemporaryDirectory() as folder:
        save_endless_model(path, folder)
        with running_service(folder, similarity_model) as url:
            measure_beside_long(url, prompts, plan.num_long, samples)
        with running_service(model, similarity_model) as url:
            measure_beside_items(url, bodies, plan.num_long, samples)
    cached = cached_per_second(model, similarity_model, bodies)
    evaluated = prompts_per_second(model, similarity_model, plan.num_evaluated)
    spreads = {name: spread(values) for name, values in (samples.ms | samples.rates).items()}

    def ratio(name: str, other: str) -> float:
        return spreads[name].median / spreads[other].median

    clients_ratio = ratio("16 clients", "1 client")
    batched_ratio = ratio("16 clients", "16 clients, unbatched")
    beside_ratio = ratio("short request beside a long one", "short request alone")
    items_ratio = ratio("single request beside 64 items", "single request alone")
    rates = "requests per second, 16 clients"
    return [
        Figure(f"{rates} / 1", clients_ratio, "x", 2.4, at_least=True),
        Figure(f"{rates}, batched / unbatched", batched_ratio, "x", 1.5, at_least=True),
        Figure("short request beside a 256-token one / alone", beside_ratio, "x", 2.5),
        Figure("single request beside a call of 64 items / alone", items_ratio, "x", 3.0),
        Figure("cached answers per second, one core", cached, "1/s", 1500.0, at_least=True),
        Figure("evaluated prompts per second", evaluated, "1/s", 30.0, at_least=True),
    ]


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


def _block_figures(samples: Samples) -> list[Figure]:
    """The warm figures, then the cold and interleaved ones."""
    limits = {
        f"{LIGHT} / {GREEDY}": 1.10,
        f"{FULL_REQUEST} / {GREEDY}": 3.2,
        f"{DOUBLED} / {FULL_REQUEST}": 1.25,
    }
    figures = []
    for name, ratios in samples.ratios.items():
        figures.append(Figure(name, statistics.median(ratios), "x", limits.get(name)))
    outside_ms = statistics.median(samples.ms["outside the pipeline"])
    figures.append(Figure("outside the pipeline", outside_ms, "ms", 2.0))
    for way in ("cold", "interleaved"):
        for name in (LIGHT, FULL_REQUEST):
            if ours := samples.ms.get(f"{way}: {name}"):
                theirs = samples.ms[f"{way}: {GREEDY}"]
                value = statistics.median(ours) / statistics.median(theirs)
                figures.append(Figure(f"{way}: {name} / {GREEDY}", value, "x"))
    return figures


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
    body = {"prompt": prompt, "max_new_tokens": max_new_tokens, "seed": len(prompt)}
    if mode == "full":
        body["num_samples"] = num_samples
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
