#!/usr/bin/env bash
# A thread of PyTorch 2.13 that has computed once on several cores slows every other thread of its process for as long
# as it lives, though it never computes again: its OpenMP workers (libgomp, in the wheels for CPUs) still count, and
# once they and those of the thread that works are more than the cores, all of them sleep between two operations where
# they else wait awake. A server that decodes on one thread, and has loaded another model on a second one, meets it.
# `torch.set_num_threads(1)` on the second thread, before it computes, prevents it.
#   seen: small products on all of two cores take 1.3 to 1.7 times as long once another thread has multiplied, 1.0
#   times where that one was set to one thread
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "torch==2.13.0" "numpy==2.4.1"
"$folder/venv/bin/python" - <<'PYTHON'
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import torch

cores = len(os.sched_getaffinity(0))
if cores < 2:
    sys.exit("needs two cores")
torch.set_num_threads(cores)
weights = [torch.randn(600, 600) for _ in range(40)]  # each small enough that to sleep and wake counts


def decode():
    """Seconds of some thousand small products, as a step of a language model has them."""
    states = torch.randn(8, 600)
    began_at = time.perf_counter()
    for _ in range(50):
        for weight in weights:
            states = torch.nn.functional.normalize(states @ weight)
    return time.perf_counter() - began_at


def multiply(num_threads):
    torch.set_num_threads(num_threads)
    return (torch.randn(2000, 2000) @ torch.randn(2000, 2000)).shape


with ThreadPoolExecutor(1) as working, ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as several:
    working.submit(torch.set_num_threads, cores).result()

    def measured():
        return median(working.submit(decode).result() for _ in range(9))

    measured()
    alone = measured()
    one.submit(multiply, 1).result()
    beside_one = measured() / alone
    several.submit(multiply, cores).result()
    beside_several = measured() / alone
print(f"beside an idle thread that computed on one core {beside_one:.2f}, on {cores} {beside_several:.2f}")
sys.exit(not (beside_one < 1.1 < 1.15 < beside_several))
PYTHON
