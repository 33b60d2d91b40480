"""What lasts in a process: no collector within `lasting`, and freed memory."""

import gc
import subprocess
import sys

import pytest

from models.lasting import lasting

_COLLECTIONS = """
import gc
from models.lasting import lasting

def collections():
    before = gc.get_stats()[0]["collections"]
    kept = [[] for _ in range(50_000)]
    return gc.get_stats()[0]["collections"] - before

before = collections()
with lasting():
    pass
print(before, collections())
"""

_FAULTS = """
import resource
from models.lasting import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        blocks = [bytearray(16 << 20) for _ in range(4)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

before = faults()
keep_freed_memory()
faults()
print(before, faults())
"""

_GAPS = """
from pathlib import Path
from models.lasting import keep_freed_memory, lasting

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) // 256  # MiB

keep_freed_memory()
with lasting():
    blocks = [bytearray(1 << 20) for _ in range(256)]
    del blocks[::2]
    print(resident())
print(resident())
"""


def test_the_collector_rests_within_and_runs_again_after_an_error():
    def is_resting():
        with lasting():
            yield gc.isenabled()

    resting = is_resting()
    assert next(resting) is False
    with pytest.raises(KeyboardInterrupt):
        resting.throw(KeyboardInterrupt())
    assert gc.isenabled()


def test_garbage_is_looked_for_less_often_behind_it():
    before, after = numbers_of(_COLLECTIONS)
    assert after < before / 5


def test_memory_that_is_freed_is_taken_again_without_a_page_fault():
    before, after = numbers_of(_FAULTS)
    assert after < before / 10


def test_gaps_of_freed_memory_go_back_to_the_system_behind_it():
    before, after = numbers_of(_GAPS)
    assert 100 < before - after < 200


def numbers_of(program):
    """What it prints, from a process of its own."""
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return map(int, result.stdout.split())
