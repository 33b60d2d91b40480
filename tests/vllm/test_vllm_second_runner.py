"""vLLM's second model runner, its Triton kernels interpreted on a CPU, held to the engine here.

Its kernel for top-k and top-p is one that Triton's interpreter does not run, so samples are drawn
from the whole vocabulary.
"""

from functools import partial

import pytest

from tests.vllm.agreement import Agreement, at_once
from tests.vllm.server import columns, serving

pytestmark = pytest.mark.anyio
STEP_TOKENS, BLOCKS = 64, 20
NUM_SHORT, NUM_LONG = 48, 8
ENTROPY = 1


@pytest.fixture(scope="module")
async def server(anyio_backend, tmp_path_factory):
    arguments = [
        "--enforce-eager",
        *("--max-num-batched-tokens", str(STEP_TOKENS)),
        *("--num-gpu-blocks-override", str(BLOCKS)),
        *("--max-num-seqs", "16"),
    ]
    folder = tmp_path_factory.mktemp("second")
    async with serving(folder, "second", *arguments, second_runner=True) as running:
        yield running


async def test_it_is_the_second_runner(server):
    assert "Using V2 Model Runner" in server.log


async def test_answers_are_those_in_process_in_chunks_from_the_cache_and_preempted(
    server, testbed, long_cases
):
    agreement, cases = Agreement(), [*long_cases[:NUM_LONG], *testbed[:NUM_SHORT]]

    async def ask(case, mode):
        agreement.add(await server.one(case.ids, mode), case, light=mode == "light")

    async def sample(case, seed):
        law = {"n": 4, "temperature": 1, "seed": seed, "ignore_eos": True, "max_tokens": 24}
        for choice in await server.choices(case.ids, "entropy", logprobs=2, **law):
            assert all(column.keys() == {0, ENTROPY} for column in columns(choice))
            assert all(column[ENTROPY] >= 0 for column in columns(choice))

    calls = []
    for seed, case in enumerate(cases):
        calls += [partial(ask, case, "light"), partial(sample, case, seed)]
        calls.append(partial(ask, case, "entropy"))
    await at_once(8, calls)
    preemptions = await server.metric("vllm:num_preemptions_total")
    hits = await server.metric("vllm:prefix_cache_hits_total")
    print(f"\n{len(cases)} prompts, {preemptions:.0f} preemptions, {hits:.0f} hits: {agreement}")
    assert preemptions > 0
    assert hits > 0
    agreement.check()


async def test_who_does_not_opt_in_gets_no_column(server, testbed):
    choice = await server.one(testbed[0].ids, logprobs=5)
    assert all(not column for column in columns(choice))
    assert choice["text"] == testbed[0].expected.answer.text


async def test_children_draw_with_seed_and_index_so_that_waves_repeat_one_call(server, testbed):
    async def drawn(n, seed):
        law = {"temperature": 1, "logprobs": 0, "max_tokens": 8}
        choices = await server.choices(testbed[1].ids, n=n, seed=seed, **law)
        return [choice["token_ids"] for choice in choices]

    whole = await drawn(5, 1000)
    assert await drawn(2, 1000) + await drawn(3, 1002) == whole
    assert len({tuple(ids) for ids in whole}) > 1
