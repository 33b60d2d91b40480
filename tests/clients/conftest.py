"""A running service for clients: the embedded language model, behind workers."""

from contextlib import ExitStack

import pytest

from tests.chaos.cocoa_process import cocoa, cocoa_serve

WITHOUT_NLI = {"COCOA_NLI__MODEL": ""}
# Three processes that load models, on a machine that may have much else to do.
START_S = 300


@pytest.fixture(scope="session")
def url():
    """URL of the service."""
    with ExitStack() as stack:
        settings = {}
        for role in ("generation", "similarity"):
            worker = stack.enter_context(cocoa("worker", role, **WITHOUT_NLI))
            worker.wait_ready(START_S)
            settings[f"COCOA_{role.upper()}__URL"] = worker.url
        serving = stack.enter_context(cocoa_serve(**settings))
        serving.wait_ready(START_S)
        yield serving.url
