"""A real vLLM, beside the engine in process. Only `make test-vllm` runs this."""

import pytest

from tests.vllm.reference import cases, long_prompts, testbed_prompts

NUM_PROMPTS = 300


@pytest.fixture(scope="session")
def testbed():
    """300 testbed prompts with what the engine in process says."""
    print(f"\n[in process] {NUM_PROMPTS} testbed prompts", flush=True)
    return cases(testbed_prompts(NUM_PROMPTS))


@pytest.fixture(scope="session")
def long_cases():
    """Prompts that are longer than a small step's budget."""
    return cases(long_prompts(24))
