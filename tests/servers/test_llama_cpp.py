"""A real llama-server: with the embedded language model as in process, with a real one everywhere.

Only `make test-servers` runs this.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest

from cocoa_lab.loading import running_workers
from models.embedded import LANGUAGE_MODEL_DIR
from models.errors import PromptTooLong
from models.grammar.grammars import grammar_of
from models.probes.protocol import ProbeConfig
from models.records import GenerationRequest, SamplingParams
from models.units.tool_calls import Call, read
from tests.chaos.redis_server import free_port
from tests.vllm import reference
from tests.worker_servers import running
from workers.build import build_workers
from workers.config import GeneratorConfig, WorkerConfig
from workers.hooks import Hooks
from workers.openai.generator import connect_generator
from workers.openai.logprobs import UNCOVERED

pytestmark = pytest.mark.anyio

PYTHON = os.environ.get("COCOA_TEST_LLAMA_PYTHON", ".venv-servers/bin/python")
REAL = os.environ.get("COCOA_TEST_REAL_MODELS", "")
NUM_PROMPTS = 60
STATISTICS = frozenset({"answer_token_logprobs", "sample_texts", "sample_token_logprobs"})
SAMPLING = SamplingParams(num_samples=10, max_new_tokens=48, seed=5)
CHAT = GenerationRequest(
    messages=({"role": "user", "content": "What is the capital of Italy? Answer in one word."},),
    sampling=replace(SAMPLING, max_new_tokens=12),
    statistics=STATISTICS,
)
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


@asynccontextmanager
async def serving(folder, weights, context):
    """The url of a server of these weights."""
    port = free_port()
    command = [PYTHON, str(Path(__file__).with_name("serve.py")), weights, str(port), str(context)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(["nice", "-n", "5", *command], stdout=log, stderr=log)  # noqa: ASYNC220
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and process.poll() is None:
                with suppress(httpx.TransportError):
                    if (await client.get("/health")).status_code == 200:
                        break
                await asyncio.sleep(0.3)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture(scope="module")
async def url(tmp_path_factory, anyio_backend):
    folder = tmp_path_factory.mktemp("llama")
    weights = str(folder / "embedded.gguf")
    convert = [PYTHON, str(Path(__file__).with_name("to_gguf.py")), str(LANGUAGE_MODEL_DIR)]
    subprocess.run([*convert, weights], check=True)  # noqa: ASYNC221
    async with serving(folder, weights, 2048) as found:
        yield found


@asynccontextmanager
async def over(url):
    config = GeneratorConfig(url=url, api="openai")
    async with running(await connect_generator(config.checked(), Hooks(), ProbeConfig())) as found:
        yield found


@pytest.fixture
async def generator(url):
    async with over(url) as found:
        yield found


async def test_what_it_has_and_what_it_lacks_is_told(generator):
    info = generator.info

    assert info.statistics >= STATISTICS
    assert {"answer_token_entropies", "predicted_dissimilarity"} <= info.absent.keys()
    for name, value in {
        "server": "llama.cpp",
        "endpoint": "completions",
        "raw_logprobs_of_answers": True,
        "raw_logprobs_of_samples": True,
        "samples_a_call": 4,
        "scoring_of_given_answers": False,
    }.items():
        assert info.capabilities[name] == value, name
    print(f"\n{dict(info.capabilities)}", file=sys.stderr)


async def test_answers_and_log_probs_are_those_in_process(generator):
    wanted = frozenset({"answer_token_logprobs"})
    asked = GenerationRequest("", sampling=SamplingParams(max_new_tokens=48), statistics=wanted)
    num_same, farthest, apart_sp = 0, 0.0, 0.0
    config = WorkerConfig(generation=GeneratorConfig(model="embedded"))
    async with running_workers(build_workers(config)) as workers:
        for prompt in reference.testbed_prompts(NUM_PROMPTS):
            request = replace(asked, prompt=prompt)
            local = (await workers.generator.generate(request)).answer
            there = await generator.generate(request)
            if there.answer.text != local.text:
                continue
            num_same += 1
            assert there.warnings == ()  # the end's log-prob is among those that are told
            told, known = there.answer.token_logprobs, local.token_logprobs
            farthest = max(farthest, float(np.abs(told - known).max()))
            apart_sp = max(apart_sp, abs(told.sum() - known.sum()) / max(1.0, -known.sum()))
    words = f"log-probs apart {farthest:.1e}, sp {100 * apart_sp:.2f} %"
    print(f"\n{num_same} of {NUM_PROMPTS} texts, {words}", file=sys.stderr)
    assert num_same >= NUM_PROMPTS - 2
    assert apart_sp < 0.01


async def test_ten_samples_repeat_by_their_seed_and_stream(generator):
    tokens = []
    request = GenerationRequest(
        reference.testbed_prompts(1)[0], sampling=SAMPLING, statistics=STATISTICS
    )
    first = await generator.generate(request, tokens.append)
    again = await generator.generate(request)

    assert [one.text for one in first.samples] == [one.text for one in again.samples]
    assert len(first.samples) == SAMPLING.num_samples
    assert len({one.text for one in first.samples}) > 1
    assert "".join(token.text for token in tokens) == first.answer.text


async def test_a_schema_is_held_and_its_log_probs_are_read_only_if_they_are_of_its_law(generator):
    held = GenerationRequest(
        reference.testbed_prompts(1)[0],
        sampling=replace(SAMPLING, num_samples=2),
        statistics=STATISTICS,
        grammar=grammar_of({"enum": ["Rome", "Lyon"]}),
    )
    generation = await generator.generate(held)
    print(f"\n{generation.absent}, {generation.answer.token_logprobs}", file=sys.stderr)
    assert json.loads(generation.answer.text) in ("Rome", "Lyon")
    is_told = generator.info.capabilities["response_format_logprobs"]
    assert (generation.answer.token_logprobs is not None) == is_told


async def test_a_prompt_over_the_context_is_refused(generator):
    request = GenerationRequest("word " * 3000, sampling=SAMPLING, statistics=STATISTICS)
    with pytest.raises(PromptTooLong):
        await generator.generate(request)


@pytest.fixture(scope="module")
def real_weights():
    found = sorted(Path(REAL).glob("*qwen*.gguf")) if REAL else []
    if not found:
        pytest.skip("COCOA_TEST_REAL_MODELS has no such GGUF")
    return str(found[0])


@pytest.fixture(scope="module")
async def real_url(tmp_path_factory, real_weights, anyio_backend):
    async with serving(tmp_path_factory.mktemp("real"), real_weights, 4096) as url:
        yield url


async def test_a_real_chat_is_answered_with_ten_samples(real_url):
    async with over(real_url) as generator:
        generation = await generator.generate(CHAT)
    assert "Rome" in generation.answer.text
    assert len(generation.samples) == SAMPLING.num_samples
    assert generation.answer.token_logprobs is not None
    assert all(one.token_logprobs is not None for one in generation.samples)


async def test_characters_of_several_tokens_cost_the_log_probs_and_are_counted(real_url):
    prompt = "The fox emoji is 🦊 and the bear emoji is"
    law = replace(SAMPLING, max_new_tokens=12)
    asked = GenerationRequest(prompt, sampling=law, statistics=STATISTICS)
    async with over(real_url) as generator:
        generation = await generator.generate(asked)
    assert not generation.answer.text.isascii()
    # Its `usage` counts one of several draws.
    statistics = ("answer_token_logprobs", "sample_token_logprobs")
    assert generation.absent == dict.fromkeys(statistics, UNCOVERED)
    assert (generation.answer.finish_reason, generation.answer.num_tokens) == ("length", 12)


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_real_model_calls_a_tool(real_url, is_streamed):
    asked = replace(
        CHAT,
        messages=({"role": "user", "content": "What is the weather in Paris right now?"},),
        tools=(TOOL,),
        sampling=replace(SAMPLING, num_samples=2, max_new_tokens=48),
    )
    tokens = []
    async with over(real_url) as generator:
        generation = await generator.generate(asked, tokens.append if is_streamed else None)
    calls = [one for one in read(generation.answer.text, ["get_weather"]) if isinstance(one, Call)]
    print(f"\n{generation.answer}, {generation.absent}", file=sys.stderr)
    assert [json.loads(call.arguments)["city"] for call in calls] == ["Paris"]
    assert not is_streamed or "".join(one.text for one in tokens) == generation.answer.text
