"""Latency and throughput of the service beside Hugging Face's greedy `generate`, on the same cores.

    python benchmarks/latency.py             # every part, ten minutes on two quiet cores
    python benchmarks/latency.py --quick     # fewer rounds

Each side has a process: the service, asked over HTTP on one connection, `generate`, and the engine
in a tight loop. While one is measured the others sleep.

Blocks, a rest before each, give the warm figures; cold is each request after a second of idleness.
The parts of `beside.py`, `cache.py` and `larger.py` follow.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import httpx
import typer
from alone import engine_alone, greedy_generate, in_own_process
from beside import measure_beside
from cache import measure_cached
from larger import measure_larger
from report import (
    REST_S,
    Figure,
    Report,
    Round,
    Values,
    check_installed,
    figure,
    in_turn,
    ratio,
    reporting,
)
from service import body_of, connect, post, running_service, testbed_prompts

from models.embedded import LANGUAGE_MODELS
from models.locations import public_name

M = 10
GREEDY, LIGHT, FULL = "greedy generate", "light request", "request, M = 10"
DOUBLED, ENGINE_LIGHT, ENGINE_FULL = (
    "request, M = 20",
    "engine alone, light",
    "engine alone, M = 10",
)
OUTSIDE = "outside the pipeline"
_NUM_WARM_UP = 3
# Packages of `cocoa evaluate` that the service does without.
_EVALUATION = ("matplotlib", "sacrebleu", "scipy", "sklearn")

# Milliseconds of each prompt of a block, one after another.
Side = Callable[[Sequence[str]], list[float]]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    num_rounds: int
    block_size: int  # requests
    num_cold: int  # requests after a second of idleness, in a round
    num_larger: int  # rounds of the larger model
    num_evaluated: int  # prompts of an evaluation


ALL = Plan(4, 60, num_cold=4, num_larger=3, num_evaluated=300)
QUICK = Plan(2, 20, num_cold=2, num_larger=1, num_evaluated=60)


def main(
    model: Annotated[str, typer.Option(help="Language model: id, path, or embedded.")] = "embedded",
    similarity_model: Annotated[
        str, typer.Option(help="Cross-encoder: id, path, or embedded.")
    ] = "embedded",
    cores: Annotated[
        int, typer.Option(min=1, help="Cores for everything, service and clients together.")
    ] = 2,
    max_new_tokens: Annotated[int, typer.Option(min=1)] = 64,
    minutes: Annotated[
        float, typer.Option(help="It ends after these; the same command goes on.")
    ] = 12.0,
    quick: Annotated[bool, typer.Option("--quick", help="Few minutes instead of many.")] = False,
    only_blocks: Annotated[
        bool, typer.Option("--only-blocks", help="Leave out all but the blocks.")
    ] = False,
) -> None:
    """Measure, print and store each part; the exit code is 0 whatever the figures."""
    plan = QUICK if quick else ALL
    if not only_blocks:  # an evaluation is among the parts
        check_installed(_EVALUATION, "pip install -e 'lab[evaluation]', or --only-blocks")
    names = public_name(model), public_name(similarity_model)
    settings = {"models": names, "max_new_tokens": max_new_tokens, "plan": asdict(plan)}
    prompts = testbed_prompts(plan.block_size)
    with reporting("latency", minutes, cores, **settings) as report:
        start = partial(_blocks, model, similarity_model, prompts, max_new_tokens, cores, plan)
        report.measure("blocks", plan.num_rounds, start, _block_figures)
        measure_processor_time(report, model, prompts, max_new_tokens, plan.num_rounds)
        if only_blocks:
            return
        measure_beside(report, model, similarity_model, plan.num_rounds, plan.num_evaluated)
        measure_cached(report, model, similarity_model)
        measure_larger(report, cores, plan.num_larger)


@contextmanager
def _blocks(
    model: str,
    similarity_model: str,
    prompts: Sequence[str],
    max_new_tokens: int,
    cores: int,
    plan: Plan,
) -> Iterator[Round]:
    path = str(LANGUAGE_MODELS.get(model, model))
    outside: list[float] = []
    with ExitStack() as stack:
        client = stack.enter_context(
            connect(stack.enter_context(running_service(model, similarity_model)))
        )

        def alone(make: Callable[..., Any], *arguments: Any) -> Side:
            return stack.enter_context(in_own_process(make, *arguments))

        def over_http(outside: list[float], **fields: object) -> Side:
            return partial(_over_http, client, {"max_new_tokens": max_new_tokens} | fields, outside)

        sides = {
            GREEDY: alone(greedy_generate, path, max_new_tokens, cores),
            ENGINE_LIGHT: alone(engine_alone, model, max_new_tokens, cores, 0),
            LIGHT: over_http([], mode="light"),
            ENGINE_FULL: alone(engine_alone, model, max_new_tokens, cores, M),
            FULL: over_http(outside, num_samples=M),
            DOUBLED: over_http([], num_samples=2 * M),
        }
        if "predicted_dissimilarity" not in client.get("/version").json()["probes"]:
            del sides[LIGHT]
        shown = [name for name in (GREEDY, LIGHT, FULL) if name in sides]

        def block(side: Side) -> float:
            side(prompts[:_NUM_WARM_UP])
            return statistics.median(side(prompts))

        def cold(number: int) -> Values:
            times: dict[str, list[float]] = {name: [] for name in shown}
            first = number * plan.num_cold % len(prompts)
            for prompt in (prompts * 2)[first : first + plan.num_cold]:
                for name in shown:
                    time.sleep(REST_S)
                    times[name] += sides[name]([prompt])
            return {f"cold: {name}": statistics.median(found) for name, found in times.items()}

        def measure(number: int) -> Values:
            outside.clear()
            blocks = {name: partial(block, side) for name, side in sides.items()}
            found: Values = in_turn(blocks, number)
            found[OUTSIDE] = statistics.median(outside)
            return found | cold(number)

        yield measure


def _over_http(
    client: httpx.Client, fields: dict[str, Any], outside: list[float], prompts: Sequence[str]
) -> list[float]:
    """Milliseconds of each request; `outside` gains what the service did not count of them."""
    elapsed = []
    for prompt in prompts:
        reply = post(client, body_of(prompt, len(prompt), **fields))
        elapsed.append(reply.elapsed_ms)
        outside.append(reply.elapsed_ms - reply.body["timing_ms"]["total"])
    return elapsed


def _block_figures(rounds: Sequence[Values]) -> list[Figure]:
    """The warm figures, then the cold ones."""
    limits = {LIGHT: 1.10, FULL: 3.2}
    names = [name for name in (LIGHT, FULL, ENGINE_LIGHT, ENGINE_FULL) if name in rounds[0]]
    figures = [ratio(rounds, name, GREEDY, limits.get(name)) for name in names]
    figures.append(ratio(rounds, DOUBLED, FULL, 1.25))
    for name in (OUTSIDE, GREEDY, *names):
        limit = 2.0 if name == OUTSIDE else None
        figures.append(figure(name, [values[name] for values in rounds], "ms", limit))
    for name in (LIGHT, FULL):
        if name in rounds[0]:
            figures.append(ratio(rounds, f"cold: {name}", f"cold: {GREEDY}"))
    return figures


def measure_processor_time(
    report: Report, model: str, prompts: Sequence[str], max_new_tokens: int, num_rounds: int
) -> None:
    """Of one thread, engine / `generate`: what other work on the machine disturbs least."""

    @contextmanager
    def start() -> Iterator[Round]:
        path, common = str(LANGUAGE_MODELS.get(model, model)), (max_new_tokens, 1)
        clock = "float32", time.thread_time
        with (
            in_own_process(greedy_generate, path, *common, 0, *clock) as greedy,
            in_own_process(engine_alone, model, *common, 0, *clock) as light,
            in_own_process(engine_alone, model, *common, M, *clock) as full,
        ):
            sides = {GREEDY: greedy, ENGINE_LIGHT: light, ENGINE_FULL: full}
            for side in sides.values():
                side(prompts[:_NUM_WARM_UP])

            def measure(number: int) -> Values:
                times: dict[str, list[float]] = {name: [] for name in sides}
                for prompt in prompts[number::num_rounds]:
                    for name, side in sides.items():
                        times[name] += side([prompt])
                return {name: statistics.median(found) for name, found in times.items()}

            yield measure

    def figures(rounds: Sequence[Values]) -> list[Figure]:
        return [ratio(rounds, name, GREEDY) for name in (ENGINE_LIGHT, ENGINE_FULL)]

    report.measure("processor time", num_rounds, start, figures)


if __name__ == "__main__":
    typer.run(main)
