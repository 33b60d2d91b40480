"""The `cocoa` command with models that are slow to answer, slow to load, hang or die.

The tests run it as a program.
"""

import asyncio
import os
import threading
import time
from pathlib import Path

from app.cli import main
from models.engines import ENGINES
from models.engines.fake import FakeEngine
from models.errors import EngineError
from models.similarity import PAIR_MODELS
from models.similarity.fake import FakePairModel


class GatedEngine(FakeEngine):
    """Answers a prompt that says "wait" once the file COCOA_TEST_GATE exists.

    A prompt that says "fail" raises.
    """

    async def generate(self, request, on_token=None):
        if "fail" in (request.prompt or ""):
            raise EngineError("a step failed")
        gate = Path(os.environ["COCOA_TEST_GATE"])
        while "wait" in (request.prompt or "") and not gate.exists():  # noqa: ASYNC110, ASYNC240 - another process opens it
            await asyncio.sleep(0.01)
        return await super().generate(request, on_token)


class LoadingEngine(FakeEngine):
    """Loads once the file COCOA_TEST_GATE exists."""

    @classmethod
    def load(cls, config, on_step=None):
        while not Path(os.environ["COCOA_TEST_GATE"]).exists():
            time.sleep(0.01)
        return super().load(config, on_step)


class DyingEngine(GatedEngine):
    """Dies of a prompt that says "die"."""

    async def generate(self, request, on_token=None):
        if "die" in (request.prompt or ""):
            self.die()
        return await super().generate(request, on_token)


class HangingPairModel(FakePairModel):
    """Never returns from the first call after its warm-up."""

    def score(self, pairs):
        if self.batches:
            threading.Event().wait()
        return super().score(pairs)


if __name__ == "__main__":
    ENGINES.update(
        gated="__main__:GatedEngine",
        loading="__main__:LoadingEngine",
        dying="__main__:DyingEngine",
        broken="broken_transformers:BrokenTransformers",  # its own file: it takes seconds to import
    )
    PAIR_MODELS.update(hanging="__main__:HangingPairModel")
    main()
