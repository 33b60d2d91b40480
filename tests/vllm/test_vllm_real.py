"""Real checkpoints behind vLLM with the plugin, held to the engine in process."""

import os
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from cocoa_lab.loading import running_workers
from models.estimators.information import mte, ppl, sp
from models.probes.protocol import ProbeConfig
from models.records import GenerationRequest, GivenAnswer, SamplingParams
from tests.vllm.server import serving
from tests.worker_servers import running
from workers.build import build_workers
from workers.config import GeneratorConfig, WorkerConfig
from workers.hooks import Hooks
from workers.openai.generator import connect_generator

REAL = os.environ.get("COCOA_TEST_REAL_MODELS", "")
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not REAL, reason="COCOA_TEST_REAL_MODELS names no folder"),
]

WANTED = frozenset({"answer_token_logprobs", "answer_token_entropies"})
QUESTIONS = (
    "What is the capital of Italy?",
    "Write a Python function that adds two numbers.",
    "Name three colours.",
    "What is 17 times 3?",
    "Who wrote Hamlet?",
    "Translate to French: good morning.",
    "What does HTTP stand for?",
    "Is a whale a fish?",
)
ASKED = GenerationRequest(sampling=SamplingParams(max_new_tokens=24), statistics=WANTED)
CHATS = [replace(ASKED, messages=({"role": "user", "content": one},)) for one in QUESTIONS]
GIVEN = [
    replace(ASKED, prompt="The capital of France is", answer=GivenAnswer(" Paris.")),
    replace(ASKED, prompt="The capital of Italy is", answer=GivenAnswer(" Rome.")),
    replace(ASKED, prompt="Water boils at", answer=GivenAnswer(" 100 degrees Celsius.")),
]


async def in_process(model, requests):
    config = WorkerConfig(generation=GeneratorConfig(model=model, threads=2, dtype="float32"))
    async with running_workers(build_workers(config)) as workers:
        return [await workers.generator.generate(request) for request in requests]


@asynccontextmanager
async def behind_vllm(folder, model, dtype, **settings):
    """The generator over a vLLM that holds a model in this precision."""
    name = f"{model.name}-{dtype}"
    arguments = ("--enforce-eager", "--dtype", dtype)
    async with serving(folder, name, *arguments, model=model, probes=()) as server:
        url = str(server.client.base_url)
        place = GeneratorConfig(url=url, api="openai", **settings).checked()
        async with running(await connect_generator(place, Hooks(), ProbeConfig())) as found:
            yield found


def scores(generation):
    answer = generation.answer
    logprobs = answer.token_logprobs
    return {"sp": sp(logprobs), "ppl": ppl(logprobs), "mte": mte(answer.token_entropies)}


def apart(name, found, expected):
    """The largest difference of each score, and how many texts are the same."""
    largest, num_same = dict.fromkeys(("sp", "ppl", "mte"), 0.0), 0
    for one, other in zip(found, expected, strict=True):
        if one.answer.text != other.answer.text:
            continue
        num_same += 1
        for score, value in scores(other).items():
            largest[score] = max(largest[score], abs(scores(one)[score] - value))
    print(f"\n[{name}] {num_same} of {len(found)} texts the same, scores apart {largest}")
    return largest, num_same


async def test_a_chat_model_answers_and_scores_as_in_process(tmp_path):
    model = Path(REAL) / "qwen"
    expected = await in_process(str(model), CHATS)
    async with behind_vllm(tmp_path, model, "float32") as generator:
        found = [await generator.generate(request) for request in CHATS]
    largest, num_same = apart("Qwen2.5-Coder 0.5B, float32", found, expected)
    assert num_same == len(CHATS)
    assert max(largest.values()) < 1e-2


async def test_in_bfloat16_the_same_texts_have_nearly_the_same_scores(tmp_path):
    model = Path(REAL) / "qwen"
    async with behind_vllm(tmp_path, model, "bfloat16") as generator:
        found = [await generator.generate(request) for request in CHATS]
    given = []
    for chat, one in zip(CHATS, found, strict=True):
        ends = one.answer.finish_reason == "stop"
        given.append(replace(chat, answer=GivenAnswer(one.answer.text, append_eos=ends)))
    largest, _ = apart("the same, bfloat16", found, await in_process(str(model), given))
    assert largest["ppl"] < 0.1


async def test_a_base_models_given_answers_score_as_in_process_with_its_end(tmp_path):
    model = Path(REAL) / "gemma"
    expected = await in_process(str(model), GIVEN)
    async with behind_vllm(tmp_path, model, "float32", end_token="<eos>") as generator:
        found = [await generator.generate(request) for request in GIVEN]
    largest, _ = apart("Gemma 3 270M, given answers", found, expected)
    assert [one.warnings for one in found] == [()] * len(GIVEN)
    assert max(largest.values()) < 1e-2
