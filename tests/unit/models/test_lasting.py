"""What lasts in a process: no collector within `lasting`, and freed memory."""

import gc
import subprocess
import sys

import pytest

from models.lasting import lasting

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


def test_the_collector_rests_within_and_runs_again_after_an_error():
    def is_resting():
        with lasting():
            yield gc.isenabled()

    resting = is_resting()
    assert next(resting) is False
    with pytest.raises(KeyboardInterrupt):
        resting.throw(KeyboardInterrupt())
    assert gc.isenabled()


def test_memory_that_is_freed_is_taken_again_without_a_page_fault():
    result = subprocess.run(
        [sys.executable, "-c", _FAULTS], capture_output=True, text=True, timeout=60, check=True
    )
    before, after = map(int, result.stdout.split())
    assert after < before / 10
