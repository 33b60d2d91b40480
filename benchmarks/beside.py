"""The service under more than one request: rates of many clients, and what runs beside other work.

Unbatched is the same service with room for the rows and the pairs of one request. Rows still join
as those of the request before leave, so it is faster than strictly one request after another.
"""

import json
import os
import statistics
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import httpx
from alone import save_endless_model
from report import Figure, Report, Round, Values, figure, in_turn, ratio
from service import (
    NUM_CLIENTS,
    body_of,
    connect,
    post,
    requests_per_second,
    running_service,
    testbed_prompts,
)

from models.embedded import LANGUAGE_MODELS

M = 10
LONG_TOKENS, SHORT_TOKENS, NUM_ITEMS = 256, 8, 64
UNBATCHED = {"GENERATION__MAX_ROWS": M + 1, "SIMILARITY__MAX_BATCH_PAIRS": 2 * M}
_ONE, _MANY, _UNBATCHED = "1 client", f"{NUM_CLIENTS} clients", f"{NUM_CLIENTS} clients, unbatched"
_NUM_REQUESTS = 10  # of each client in a round
_NUM_ALONE = 20
_NUM_WARM_UP = 5
# Nothing that asks the NLI model, whose pairs would be a second matrix.
_ESTIMATORS = "cocoa_sp,cocoa_ppl,cocoa_mte,rb_cocoa_sp,sp,ppl,mte,inconsistency"


def measure_beside(
    report: Report, model: str, similarity_model: str, num_rounds: int, num_evaluated: int
) -> None:
    """Rates, what runs beside other work, an evaluation."""
    models = model, similarity_model
    report.measure("rates", num_rounds, partial(_rates, *models), _rate_figures)
    for part, start, limit in (
        ("short request beside a 256-token one", _beside_long, 2.5),
        ("single request beside a call of 64 items", _beside_items, 3.0),
    ):
        report.measure(part, num_rounds, partial(start, *models), _beside_figures(part, limit))
    start_evaluation = partial(_evaluation, *models, num_evaluated)
    report.measure("evaluation", 1, start_evaluation, _evaluation_figures)


@contextmanager
def _rates(model: str, similarity_model: str) -> Iterator[Round]:
    """Requests per second of one client, of 16, and of 16 without cross-request batching."""
    bodies = cycle([body_of(prompt, len(prompt)) for prompt in testbed_prompts(60)])
    with (
        running_service(model, similarity_model) as url,
        running_service(model, similarity_model, **UNBATCHED) as unbatched,
    ):
        cases = {_ONE: (url, 1), _MANY: (url, NUM_CLIENTS), _UNBATCHED: (unbatched, NUM_CLIENTS)}

        def rate(target: str, num_clients: int) -> float:
            asked = list(islice(bodies, _NUM_REQUESTS * max(4, num_clients)))
            return requests_per_second(target, asked, num_clients)

        sides = {name: partial(rate, *case) for name, case in cases.items()}
        in_turn(sides, 0)  # warms up
        yield partial(in_turn, sides)


def _rate_figures(rounds: Sequence[Values]) -> list[Figure]:
    name = "requests per second, 16 clients"
    return [
        ratio(rounds, _MANY, _ONE, 2.4, name=f"{name} / 1", at_least=True),
        ratio(rounds, _MANY, _UNBATCHED, 1.5, name=f"{name}, batched / unbatched", at_least=True),
        *(figure(one, [values[one] for values in rounds], "1/s") for one in (_ONE, _MANY)),
    ]


@contextmanager
def _beside_long(model: str, similarity_model: str) -> Iterator[Round]:
    prompts = testbed_prompts(60)

    def long_request(client: httpx.Client, number: int) -> None:
        body = body_of(prompts[number], number, max_new_tokens=LONG_TOKENS, num_samples=M)
        usage = post(client, body).body["usage"]
        if usage["completion_tokens"] + usage["sample_tokens"] != (M + 1) * LONG_TOKENS:
            raise RuntimeError(f"the long request ended early: {usage}")

    short = [body_of(prompt, len(prompt), max_new_tokens=SHORT_TOKENS) for prompt in prompts]
    with tempfile.TemporaryDirectory() as folder:
        save_endless_model(str(LANGUAGE_MODELS.get(model, model)), folder)
        with running_service(folder, similarity_model) as url:
            yield from _alone_and_beside(url, short, long_request)


@contextmanager
def _beside_items(model: str, similarity_model: str) -> Iterator[Round]:
    bodies = [body_of(prompt, len(prompt)) for prompt in testbed_prompts(60)]

    def call(client: httpx.Client, number: int) -> None:
        items = []
        for offset, item in enumerate(islice(cycle(bodies), NUM_ITEMS)):
            items.append(item | {"answer": " Paris", "seed": NUM_ITEMS * number + offset})
        reply = client.post("/score", json={"items": items}).raise_for_status()
        if any(outcome["error"] for outcome in reply.json()["results"]):
            raise RuntimeError("an item failed")

    with running_service(model, similarity_model) as url:
        yield from _alone_and_beside(url, bodies, call)


def _alone_and_beside(
    url: str, bodies: Sequence[dict[str, Any]], other_work: Callable[[httpx.Client, int], None]
) -> Iterator[Round]:
    """Requests one after another: alone, then for as long as the other work runs."""
    endless = cycle(bodies)
    with connect(url) as client, connect(url) as other, ThreadPoolExecutor(1) as thread:
        for _ in range(_NUM_WARM_UP):
            post(client, next(endless))

        def measure(number: int) -> Values:
            alone = [post(client, next(endless)).elapsed_ms for _ in range(_NUM_ALONE)]
            work = thread.submit(other_work, other, number)
            time.sleep(0.05)
            beside: list[float] = []
            while True:
                reply = post(client, next(endless))
                if work.done():  # this request may have run alone in part
                    break
                beside.append(reply.elapsed_ms)
            work.result()
            return {"alone": statistics.median(alone), "beside": statistics.median(beside)}

        yield measure


def _beside_figures(part: str, limit: float) -> Callable[[Sequence[Values]], list[Figure]]:
    return lambda rounds: [ratio(rounds, "beside", "alone", limit, name=f"{part} / alone")]


@contextmanager
def _evaluation(model: str, similarity_model: str, num_prompts: int) -> Iterator[Round]:
    """What `cocoa evaluate` says of itself, with one matrix of similarities each."""
    variables = {name: value for name, value in os.environ.items() if name[:6] != "COCOA_"}
    variables |= {"COCOA_GENERATION__MODEL": model, "COCOA_SIMILARITY__MODEL": similarity_model}

    def measure(number: int) -> Values:
        with tempfile.TemporaryDirectory() as folder:
            command = [str(Path(sysconfig.get_path("scripts")) / "cocoa"), "evaluate", "testbed"]
            command += ["--out", folder, "--limit", str(num_prompts), "--num-resamples", "10"]
            command += ["--estimators", _ESTIMATORS]
            subprocess.run(command, env=variables, check=True, capture_output=True)
            results = json.loads(Path(folder, "results.json").read_text("utf-8"))
        return {"prompts": results["speed"]["prompts_per_s"]}

    yield measure


def _evaluation_figures(rounds: Sequence[Values]) -> list[Figure]:
    speeds = [values["prompts"] for values in rounds]
    return [figure("evaluated prompts per second", speeds, "1/s", 30.0, at_least=True)]
