"""Deterministic models without weights, by names that only the tests know."""

from models.engines import ENGINES
from models.similarity import NLI_MODELS, PAIR_MODELS


def register():
    """Make the fakes known to this process."""
    ENGINES["fake"] = "tests.fakes.engine:FakeEngine"
    PAIR_MODELS["fake"] = "tests.fakes.pair_models:FakePairModel"
    NLI_MODELS["fake_nli"] = "tests.fakes.pair_models:FakeNliModel"
