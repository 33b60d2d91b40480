"""llama-cpp-python's server with the embedded language model: what it has, and what it lacks.

Only `make test-servers` runs this.
"""

import asyncio
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest

from models.embedded import LANGUAGE_MODEL_DIR
from models.errors import PromptTooLong
from models.probes.protocol import ProbeConfig
from models.records import GenerationRequest, GivenAnswer, SamplingParams
from tests.chaos.redis_server import free_port
from tests.vllm import reference
from tests.worker_servers import running
from workers.build import build_workers
from workers.config import GeneratorConfig, WorkerConfig
from workers.hooks import Hooks
from workers.openai.generator import connect_generator
from workers.supervision import running_workers

pytestmark = pytest.mark.anyio

PYTHON = os.environ.get("COCOA_TEST_LLAMA_PYTHON", ".venv-servers/bin/python")
NUM_PROMPTS = 60
STATISTICS = frozenset({"answer_token_logprobs", "sample_texts", "sample_token_logprobs"})
SAMPLING = SamplingParams(num_samples=2, max_new_tokens=48, seed=5)


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
async def url(tmp_path_factory, anyio_backend):
    folder = tmp_path_factory.mktemp("llama")
    weights, port = folder / "embedded.gguf", free_port()
    convert = [PYTHON, str(Path(__file__).with_name("to_gguf.py")), str(LANGUAGE_MODEL_DIR)]
    subprocess.run([*convert, str(weights)], check=True)  # noqa: ASYNC221
    options = ["--n_ctx", "512", "--n_threads", "1", "--logits_all", "true"]
    # Its default lets a new request end the one that streams.
    options += ["--interrupt_requests", "false", "--port", str(port)]
    command = [PYTHON, "-m", "llama_cpp.server", "--model", str(weights), *options]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(["nice", "-n", "5", *command], stdout=log, stderr=log)  # noqa: ASYNC220
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and process.poll() is None:
                with suppress(httpx.TransportError):
                    if (await client.get("/v1/models")).status_code == 200:
                        break
                await asyncio.sleep(0.3)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
async def generator(url):
    config = GeneratorConfig(url=url, api="openai")
    async with running(await connect_generator(config.place(), Hooks(), ProbeConfig())) as found:
        yield found


async def test_what_it_has_and_what_it_lacks_is_told(generator):
    info = generator.info

    assert info.statistics >= STATISTICS
    assert {"answer_token_entropies", "predicted_dissimilarity"} <= info.absent.keys()
    for name, value in {
        "endpoint": "completions",
        "token_ids": False,
        "raw_logprobs_of_answers": True,
        "raw_logprobs_of_samples": "always",
        "several_samples_a_call": False,
        "top_k": True,
        "seed": True,
        "end_of_answer_token": None,
        "scoring_of_given_answers": "echo",
        "entropy_method": "topk_bounds",
    }.items():
        assert info.capabilities[name] == value, name
    print(f"\n{dict(info.capabilities)}", file=sys.stderr)


async def test_answers_and_log_probs_are_those_in_process_but_for_the_end(generator):
    wanted = frozenset({"answer_token_logprobs"})
    asked = GenerationRequest("", sampling=SamplingParams(max_new_tokens=48), statistics=wanted)
    num_same, farthest = 0, 0.0
    config = WorkerConfig(generation=GeneratorConfig(model="embedded"))
    async with running_workers(build_workers(config)) as workers:
        for prompt in reference.testbed_prompts(NUM_PROMPTS):
            request = replace(asked, prompt=prompt)
            local = (await workers.generator.generate(request)).answer
            there = await generator.generate(request)
            if there.answer.text != local.text:
                continue
            num_same += 1
            ends = local.finish_reason == "stop"
            assert there.answer.num_tokens == local.num_tokens - ends
            assert ("no_eos_logprob" in there.warnings) == ends
            shared = local.token_logprobs[: there.answer.num_tokens]
            apart = np.abs(there.answer.token_logprobs - shared)
            farthest = max(farthest, float(apart.max(initial=0.0)))
            lower, upper = there.mte_bounds or (0.0, 0.0)
            assert 0.0 <= lower <= upper
    print(f"\n{num_same} of {NUM_PROMPTS} texts, log-probs apart {farthest:.1e}", file=sys.stderr)
    assert num_same >= NUM_PROMPTS - 2
    assert farthest < 1e-2


async def test_samples_repeat_by_their_seed_and_stream(generator):
    tokens = []
    request = GenerationRequest(
        reference.testbed_prompts(1)[0], sampling=SAMPLING, statistics=STATISTICS
    )
    first = await generator.generate(request, tokens.append)
    again = await generator.generate(request)

    assert [one.text for one in first.samples] == [one.text for one in again.samples]
    assert len(first.samples) == 2
    assert "".join(token.text for token in tokens) == first.answer.text


async def test_a_given_answer_is_read(generator):
    request = GenerationRequest(
        reference.testbed_prompts(1)[0], statistics=STATISTICS, sampling=SAMPLING
    )
    greedy = (await generator.generate(request)).answer
    given = await generator.generate(replace(request, answer=GivenAnswer(greedy.text)))

    np.testing.assert_allclose(given.answer.token_logprobs, greedy.token_logprobs, atol=1e-2)
    assert "no_eos_logprob" in given.warnings


async def test_a_prompt_over_the_context_is_refused(generator):
    request = GenerationRequest("word " * 900, sampling=SAMPLING, statistics=STATISTICS)
    with pytest.raises(PromptTooLong):
        await generator.generate(request)
