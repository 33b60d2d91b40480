"""What the plugin costs: requests per second with it and without it, in one run."""

import time
from functools import partial

import numpy as np
import pytest

from tests.vllm.agreement import at_once
from tests.vllm.server import serving

pytestmark = pytest.mark.anyio
BLOCKS, SIZE, CONCURRENCY = 24, 16, 16
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
        for server, mode in arms.values():
            await block(server, testbed[:CONCURRENCY], mode, 99)
        seconds = {name: [] for name in arms}
        for number in range(BLOCKS):
            cases = testbed[number * SIZE % 240 :][:SIZE]
            turn = number % len(arms)
            for name in [*list(arms)[turn:], *list(arms)[:turn]]:
                seconds[name].append(await block(arms[name][0], cases, arms[name][1], number))
    base = np.array(seconds.pop("without the plugin"))
    print(f"\n{BLOCKS} blocks of {SIZE} prompts, each greedy and 10 samples, at concurrency 16")
    print(f"without the plugin: {SIZE / np.median(base):.1f} prompts/s")
    ratios = {}
    for name, times in seconds.items():
        paired = base / np.array(times)
        ratios[name] = np.median(paired)
        low, high = np.quantile(paired, [0.25, 0.75])
        print(f"{name}: {ratios[name]:.3f} of that, quartiles {low:.3f} to {high:.3f}")
    assert min(ratios.values()) > 0.5
