"""The in-process engine against teacher forcing by Hugging Face's own model."""

import numpy as np
import pytest
import torch

from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from tests.tiny_models import byte_tokenizer, random_model
from tests.unit.models.engines.tiny_engines import (
    ARCHITECTURES,
    PROMPTS,
    engine_of,
    generated,
    next_logprobs,
    request_for,
    running,
    sequences,
    teacher_forced,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "hybrid"])
async def test_log_probs_and_entropies_equal_a_teacher_forced_pass(architecture):
    model, tokenizer = random_model(architecture), byte_tokenizer()
    async with running(engine_of(model)) as worker:
        generations = await generated(worker, map(request_for, PROMPTS))

    for prompt, generation in zip(PROMPTS, generations, strict=True):
        prompt_ids = tokenizer(prompt).input_ids
        for sequence in sequences(generation):
            logprobs, entropies = teacher_forced(model, prompt_ids, sequence.token_ids)
            np.testing.assert_allclose(sequence.token_logprobs, logprobs, atol=1e-4)
            np.testing.assert_allclose(sequence.token_entropies, entropies, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "is_quick", "expected"),
    [
        ("auto", True, "bfloat16"),
        ("auto", False, "float32"),
        ("bfloat16", False, "bfloat16"),
        ("float32", True, "float32"),
    ],
)
def test_the_precision_is_the_checkpoints_where_the_processor_is_made_for_it(
    tmp_path, monkeypatch, dtype, is_quick, expected
):
    random_model("llama").bfloat16().save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": is_quick})
    # This processor may have no products of bfloat16 to lay out weights for.
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    info = TransformersEngine.load(EngineConfig(model=str(tmp_path), dtype=dtype)).info

    assert (info.dtype, info.self_test_tokens is not None) == (expected, True)


@pytest.mark.parametrize("architecture", ["llama", "hybrid"])
async def test_first_token_mass_equals_the_softmax_after_the_prompt(architecture):
    model, tokenizer = random_model(architecture), byte_tokenizer()
    groups = [["True", " True", "T"], ["False", "xyz", " no"], ["both", "blank"], ["bee"]]
    question = request_for("Hello", num_samples=0, max_new_tokens=1)
    async with running(engine_of(model)) as worker:
        masses = (await worker.first_token_logprobs(question, groups)).logprobs

    logprobs = next_logprobs(model, tokenizer("Hello").input_ids)
    first = {char: tokenizer(char, add_special_tokens=False).input_ids[0] for char in "TFx "}
    # A blank begins spellings of the first two groups, so it tells them apart in neither; "b"
    # likewise.
    either = torch.logaddexp(logprobs[first["F"]], logprobs[first["x"]])
    assert masses[0] == pytest.approx(float(logprobs[first["T"]]), abs=1e-4)
    assert masses[1] == pytest.approx(float(either), abs=1e-4)
    assert masses[2:] == (None, None)


async def test_every_eos_id_of_the_model_stops_and_counts():
    model = random_model("llama")
    async with running(engine_of(model)) as worker:
        free = (await worker.generate(request_for("Hello", num_samples=1))).answer
    stopper = free.token_ids[5]
    model.generation_config.eos_token_id = [1, stopper]
    async with running(engine_of(model)) as worker:
        answer = (await worker.generate(request_for("Hello", num_samples=1))).answer

    first = free.token_ids.index(stopper)
    assert answer.token_ids == free.token_ids[: first + 1]
    assert answer.finish_reason == "stop"
    assert answer.token_logprobs[-1] == pytest.approx(free.token_logprobs[first], abs=1e-5)
    assert answer.text == byte_tokenizer().decode(free.token_ids[:first], skip_special_tokens=True)
