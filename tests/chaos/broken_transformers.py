"""The embedded language model, whose decoding steps do what the file COCOA_TEST_FAULT says."""

import os
import threading
from pathlib import Path

from models.engines.transformers import TransformersEngine


class BrokenTransformers(TransformersEngine):
    """Each pass that decodes raises or hangs while the file says "raise" or "hang"."""

    @classmethod
    def load(cls, config):
        engine = super().load(config)
        path = Path(os.environ["COCOA_TEST_FAULT"])

        def misbehave(_, args, kwargs):
            fault = path.read_text() if path.exists() and kwargs["input_ids"].shape[1] == 1 else ""
            if fault == "raise":
                raise RuntimeError("zanzibar-sentinel")
            if fault == "hang":
                threading.Event().wait()

        engine._batch._cache.model.register_forward_pre_hook(misbehave, with_kwargs=True)
        return engine
