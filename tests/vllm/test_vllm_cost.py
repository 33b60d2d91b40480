"""What the plugin costs: prompts per second with it and without it, in one run."""

import asyncio
import random
import time
from functools import partial

import numpy as np
import pytest

from tests.vllm.agreement import at_once
from tests.vllm.server import serving

pytestmark = pytest.mark.anyio
BLOCKS, SIZE, WARM_UP, CONCURRENCY = 24, 16, 4, 16
REST_S = 1.0
SAMPLES = {"n": 10, "temperature": 1, "top_k": 50, "top_p": 1, "logprobs": 0}


async def block(server, cases, mode, seed):
    """Seconds for the two completions of each prompt: greedy, in the mode, and ten samples."""
    calls = []
    for i, case in enumerate(cases):
        calls.append(partial(server.one, case.ids, mode))
        calls.append(partial(server.choices, case.ids, **SAMPLES, seed=1000 * seed + 10 * i))
    began = time.perf_counter()
    await at_once(2 * CONCURRENCY, calls)
    return time.perf_counter() - began


async def test_the_plugin_costs_a_small_part_of_a_request(tmp_path_factory, testbed):
    folder = tmp_path_factory.mktemp("cost")
    async with (
        serving(folder, "with", "--enforce-eager") as plugged,
        serving(folder, "without", "--enforce-eager", plugin=False) as bare,
    ):
        arms = {
            "without the plugin": (bare, None),
            "with it, not asked": (plugged, None),
            "entropy": (plugged, "entropy"),
            "light": (plugged, "light"),
        }
        seconds = {name: [] for name in arms}
        for number in range(BLOCKS):
            cases = testbed[number * SIZE % 240 :][:SIZE]
            # In an order of its own each time, so that none always follows the same one.
            for name in random.Random(number).sample(list(arms), len(arms)):
                server, mode = arms[name]
                # The threads of the server that was asked before spin for a while, and those of
                # this one have gone to sleep.
                await asyncio.sleep(REST_S)
                await block(server, cases[:WARM_UP], mode, BLOCKS + number)
                seconds[name].append(await block(server, cases, mode, number))
    print(f"\n{BLOCKS} blocks of {SIZE} prompts, each greedy and 10 samples, at concurrency 16")
    without = SIZE / np.median(seconds["without the plugin"])
    print(f"without the plugin: {without:.1f} prompts/s")
    ratios = []
    pairs = [("with it, not asked", "without the plugin")]
    pairs += [(mode, "with it, not asked") for mode in ("entropy", "light")]
    pairs += [(mode, "without the plugin") for mode in ("entropy", "light")]
    for name, base in pairs:
        low, ratio, high = interval(np.array(seconds[base]) / np.array(seconds[name]))
        ratios.append(ratio)
        print(f"{name} / {base}: {ratio:.3f} of the prompts/s [{low:.3f}, {high:.3f}]")
    assert min(ratios) > 0.5


def interval(values):
    """Median with its 95 % bootstrap interval: low, value, high."""
    rng = np.random.default_rng(0)
    drawn = np.median(rng.choice(values, (2000, len(values))), axis=1)
    return np.quantile(drawn, 0.025), np.median(values), np.quantile(drawn, 0.975)
