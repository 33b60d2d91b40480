"""The `cocoa` command with models that are slow to answer, slow to load, hang or die.

The tests run it as a program.
"""

import os
import threading
import time
from pathlib import Path

from app.cli import main
from models.engines import ENGINES
from models.errors import EngineError, ModelLost
from models.similarity import PAIR_MODELS
from tests.fakes import register
from tests.fakes.engine import FakeEngine
from tests.fakes.pair_models import FakePairModel


def gate_is_open():
    """Whether the test has made the file COCOA_TEST_GATE."""
    return Path(os.environ["COCOA_TEST_GATE"]).exists()


class GatedEngine(FakeEngine):
    """Answers a prompt that says "wait" once the gate is open; one that says "fail" fails."""

    def __init__(self):
        super().__init__()
        self._held = []

    @property
    def is_idle(self):
        return not self._held

    def step(self, incoming):
        jobs = [job for job in [*self._held, *incoming] if not job.cancelled]
        is_open = gate_is_open()
        self._held = [job for job in jobs if "wait" in job.prompt and not is_open]
        report = super().step([job for job in jobs if job not in self._held])
        for job in list(report.finished):
            if "fail" in job.prompt:
                report.finished.remove(job)
                report.failed.append((job, EngineError("a step failed")))
        if self._held:
            time.sleep(0.01)
        return report


class LoadingEngine(FakeEngine):
    """Loads once the gate is open."""

    @classmethod
    def load(cls, config):
        while not gate_is_open():
            time.sleep(0.01)
        return super().load(config)


class DyingEngine(GatedEngine):
    """Dies of a prompt that says "die"."""

    def step(self, incoming):
        if any("die" in job.prompt for job in incoming):
            raise ModelLost("device")
        return super().step(incoming)


class SlowPairModel(FakePairModel):
    """Takes seconds of work, in small pieces, for every call after its warm-up."""

    def score(self, pairs):
        for _ in range(200 if self.batches else 0):
            time.sleep(0.01)
        return super().score(pairs)


class HangingPairModel(FakePairModel):
    """Never returns from the first call after its warm-up."""

    def score(self, pairs):
        if self.batches:
            threading.Event().wait()
        return super().score(pairs)


if __name__ == "__main__":
    register()
    ENGINES.update(
        gated="__main__:GatedEngine",
        loading="__main__:LoadingEngine",
        dying="__main__:DyingEngine",
        # In a file of its own: it takes seconds to import.
        broken="tests.chaos.broken_transformers:BrokenTransformers",
    )
    PAIR_MODELS.update(hanging="__main__:HangingPairModel", slow="__main__:SlowPairModel")
    main()
