"""Answers that exist already are scored like any pass of the model over them."""

import numpy as np
import pytest

from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.records import GivenAnswer
from models.statistics import supplied_by
from tests.tiny_models import byte_tokenizer, random_model
from tests.unit.models.engines.tiny_engines import (
    PROMPTS,
    engine_of,
    request_for,
    running,
    teacher_forced,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("eos_ids", "end"),
    [(1, 1), ([2, 1], 1), ([3, 2], 2)],
    ids=["the one", "the tokenizer's", "the model's"],
)
async def test_a_given_answer_ends_in_a_token_that_ends_the_models_own(eos_ids, end):
    model, tokenizer = random_model("llama"), byte_tokenizer()
    model.generation_config.eos_token_id = eos_ids
    async with running(engine_of(model)) as worker:
        generation = await worker.generate(request_for("Hello", answer=GivenAnswer(" Paris")))

    answer = generation.answer
    assert answer.token_ids == (*tokenizer(" Paris", add_special_tokens=False).input_ids, end)
    logprobs, _ = teacher_forced(model, tokenizer("Hello").input_ids, answer.token_ids)
    np.testing.assert_allclose(answer.token_logprobs, logprobs, atol=1e-4)


@pytest.mark.parametrize(
    "text", [" Paris</s>", "</s>", "a<s>b", " <s></s> Paris</s></s>", "Paris</s>\n"]
)
async def test_control_tokens_that_a_given_answer_spells_out_are_text(text):
    model, tokenizer = random_model("llama"), byte_tokenizer()
    async with running(engine_of(model)) as worker:
        given = GivenAnswer(text)
        request = request_for(
            "Hello", answer=given, num_samples=0, statistics=supplied_by("answer")
        )
        generation = await worker.generate(request)

    answer = generation.answer
    *ids, end = answer.token_ids
    assert end == tokenizer.eos_token_id
    assert set(tokenizer.all_special_ids).isdisjoint(ids)
    assert tokenizer.decode(ids).strip() == text.strip()
    assert (answer.text, "".join(answer.token_texts).strip()) == (text, text.strip())
    logprobs, _ = teacher_forced(model, tokenizer("Hello").input_ids, answer.token_ids)
    np.testing.assert_allclose(answer.token_logprobs, logprobs, atol=1e-4)
    # A text after it is read as before.
    assert tokenizer("</s>", add_special_tokens=False).input_ids == [tokenizer.eos_token_id]


async def test_of_two_forms_of_a_given_answer_the_likelier_one_is_taken():
    model, tokenizer = random_model("llama"), byte_tokenizer()
    async with running(engine_of(model)) as worker:
        request = request_for("Hello", answer=GivenAnswer("Paris"), num_samples=0)
        generation = await worker.generate(request)

    likelihoods = {}
    for form, text in (("literal", "Paris"), ("blank_led", " Paris")):
        ids = (*tokenizer(text, add_special_tokens=False).input_ids, 1)
        logprobs, _ = teacher_forced(model, tokenizer("Hello").input_ids, ids)
        likelihoods[form] = logprobs.sum()
    likelihood = generation.answer.token_logprobs.sum()
    assert likelihood == pytest.approx(max(likelihoods.values()), abs=1e-4)
    assert generation.answer_form == max(likelihoods, key=likelihoods.get)


async def test_a_stripped_answer_of_the_embedded_model_is_as_likely_as_the_model_would_write_it():
    engine = TransformersEngine.load(EngineConfig())
    async with running(engine) as worker:

        async def scored(text):
            request = request_for(PROMPTS[1], answer=GivenAnswer(text), num_samples=0)
            return await worker.generate(request)

        led, stripped = await scored(" Paris"), await scored("Paris")

    assert (led.answer_form, stripped.answer_form) == ("literal", "blank_led")
    assert stripped.answer.text == stripped.answer.compared_text == "Paris"
    likelihood = np.exp(stripped.answer.token_logprobs.sum())
    assert likelihood == pytest.approx(np.exp(led.answer.token_logprobs.sum()), abs=1e-4)
    assert likelihood > 0.5
