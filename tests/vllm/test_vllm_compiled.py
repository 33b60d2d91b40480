"""torch.compile, prompts read in chunks, and more requests than the cache holds."""

from functools import partial

import pytest

from tests.vllm.agreement import Agreement, at_once
from tests.vllm.server import serving

pytestmark = pytest.mark.anyio
STEP_TOKENS, BLOCKS = 64, 20


@pytest.fixture(scope="module")
async def server(anyio_backend, tmp_path_factory):
    arguments = [
        *("--max-num-batched-tokens", str(STEP_TOKENS)),
        *("--num-gpu-blocks-override", str(BLOCKS)),
        *("--max-num-seqs", "32"),
    ]
    async with serving(tmp_path_factory.mktemp("compiled"), "compiled", *arguments) as running:
        yield running


async def test_the_model_was_compiled(server):
    assert "saved AOT compiled function" in server.log


async def test_answers_are_those_in_process_compiled_in_chunks_and_preempted(
    server, testbed, long_cases
):
    agreement = Agreement()
    assert all(len(case.ids) > STEP_TOKENS for case in long_cases)

    async def ask(case, mode):
        agreement.add(await server.one(case.ids, mode), case, light=mode == "light")

    async def sample(case):
        # Without a seed: with one, a prompt in chunks ends vLLM's CPU engine.
        law = {"n": 10, "temperature": 1, "top_k": 50, "ignore_eos": True, "max_tokens": 32}
        assert len(await server.choices(case.ids, logprobs=0, **law)) == 10

    calls = []
    for case in long_cases + testbed[:48]:
        calls += [partial(ask, case, "light"), partial(sample, case), partial(ask, case, "entropy")]
    await at_once(16, calls)
    preemptions = await server.metric("vllm:num_preemptions_total")
    print(f"\n{len(long_cases) + 48} prompts, {preemptions:.0f} preemptions: {agreement}")
    assert preemptions > 0
    agreement.check()
