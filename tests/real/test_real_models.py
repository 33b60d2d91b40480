"""The engine in process over models that people use, found in COCOA_TEST_REAL_MODELS=FOLDER.

`make test-real` runs this. FOLDER/gemma is google/gemma-3-270m, FOLDER/qwen
Qwen/Qwen2.5-Coder-0.5B-Instruct.
"""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.records import GivenAnswer
from tests.unit.models.engines.tiny_engines import (
    generated,
    request_for,
    running,
    sequences,
    teacher_forced,
)

FOLDER = os.environ.get("COCOA_TEST_REAL_MODELS", "")
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not FOLDER, reason="COCOA_TEST_REAL_MODELS names no folder"),
]
PROMPTS = ["The capital of France is", "def add(a, b):", "中国的首都是", "Two and two is 🙂"]
LONG = "The river runs past the old mill, and the mill has a wheel of oak. " * 20


@pytest.fixture(scope="module", params=["gemma", "qwen"])
def folder(request):
    return str(Path(FOLDER, request.param))


@pytest.fixture(scope="module")
def engine(folder):
    return TransformersEngine.load(EngineConfig(model=folder, dtype="float32"))


def asked(prompt, **changes):
    return request_for(prompt, num_samples=2, max_new_tokens=12, **changes)


async def test_greedy_texts_and_log_probs_are_those_of_transformers(engine, folder):
    # The engine's own model may have lost its weights to the engine.
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = engine._tokenizer
    async with running(engine) as worker:
        generations = await generated(worker, map(asked, PROMPTS))

    for prompt, generation in zip(PROMPTS, generations, strict=True):
        inputs = tokenizer(prompt, return_tensors="pt")
        whole = model.generate(**inputs, do_sample=False, max_new_tokens=12)
        ids = inputs.input_ids[0].tolist()
        assert list(generation.answer.token_ids) == whole[0, len(ids) :].tolist()
        for sequence in sequences(generation):
            logprobs, entropies = teacher_forced(model, ids, sequence.token_ids)
            np.testing.assert_allclose(sequence.token_logprobs, logprobs, atol=1e-3)
            np.testing.assert_allclose(sequence.token_entropies, entropies, atol=1e-3)


@pytest.mark.parametrize("answer", [None, GivenAnswer(" It turns.")], ids=["greedy", "given"])
async def test_a_prompt_read_in_parts_is_answered_as_one_read_at_once(engine, answer, monkeypatch):
    found = []
    for tokens in (2048, 64):
        monkeypatch.setattr(engine._cache, "pass_tokens", tokens)
        async with running(engine) as worker:
            found.append(await worker.generate(asked(LONG, answer=answer)))

    for one, other in zip(*map(sequences, found), strict=True):
        assert one.token_ids == other.token_ids
        np.testing.assert_allclose(one.token_logprobs, other.token_logprobs, atol=1e-3)


def test_a_short_prompt_is_not_behind_a_long_one(engine, monkeypatch):
    monkeypatch.setattr(engine._cache, "pass_tokens", 64)
    long, short = engine.prepare(asked(LONG)), engine.prepare(asked("Hi", statistics=()))
    engine.step([long])
    ended, report = [], engine.step([short])
    while not engine.is_idle:
        ended, report = ended + report.finished, engine.step([])

    assert [*ended, *report.finished] == [short, long]


async def test_in_bfloat16_neighbours_and_numbers_of_samples_change_no_bit(folder):
    engine = TransformersEngine.load(EngineConfig(model=folder, dtype="bfloat16"))
    if not engine._cache._lean._is_batch_invariant:
        pytest.skip("the processor has no instructions for bfloat16")
    requests = [asked(prompt, seed=seed) for seed, prompt in enumerate([*PROMPTS, LONG])]
    async with running(engine) as worker:
        alone = [await worker.generate(request) for request in requests]
        joined = await generated(worker, requests)
        for one, request in zip(alone, requests, strict=True):
            greedy = replace(request, sampling=replace(request.sampling, num_samples=0))
            answer = (await worker.generate(greedy)).answer
            assert answer.token_logprobs.tolist() == one.answer.token_logprobs.tolist()

    for one, other in zip(alone, joined, strict=True):
        for ours, theirs in zip(sequences(one), sequences(other), strict=True):
            assert ours.token_ids == theirs.token_ids
            assert ours.token_logprobs.tolist() == theirs.token_logprobs.tolist()
