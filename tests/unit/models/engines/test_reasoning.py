"""A model that reasons: what it writes before its answer stands apart, and is not scored."""

import asyncio
import shutil
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from models.engines.protocol import EngineConfig
from models.engines.reasoning import opens_reasoning
from models.engines.tags import HARMONY, Tags
from models.engines.transformers import TransformersEngine
from models.records import GenerationRequest, SamplingParams
from models.statistics import supplied_by
from workers.generation import GenerationWorker

pytestmark = pytest.mark.anyio

MODEL = str(Path(__file__).parents[3] / "data" / "reasoning_model")
SUM = "What is 12 + 5 + 7?"
ALL = supplied_by("answer", "samples")
NUM_TAGS = 2  # its tags are one token each


@pytest.fixture(scope="module")
def plain():
    """The model and its tokenizer as transformers has them."""
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()
    return model, AutoTokenizer.from_pretrained(MODEL)


@asynccontextmanager
async def reasoning(model=MODEL, **config):
    engine = TransformersEngine.load(EngineConfig(model=str(model), dtype="float32", **config))
    worker = GenerationWorker(engine)
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        await worker.close()
        await running


def asking(content=SUM, *, num_samples=3, max_new_tokens=120, stop=(), **fields):
    names = "max_reasoning_tokens", "max_sample_reasoning_tokens"
    bounds = {name: fields.pop(name) for name in names if name in fields}
    sampling = SamplingParams(num_samples, max_new_tokens, seed=1, stop=stop, **bounds)
    chat = ({"role": "user", "content": content},)
    return GenerationRequest(messages=chat, sampling=sampling, statistics=ALL, **fields)


def texts_of(samples):
    return [(sample.reasoning, sample.text) for sample in samples]


@torch.inference_mode()
def read(plain, sequence, content=SUM, ended="\n</think>"):
    """Log-probs and entropies of the answer's tokens by one pass over prompt, reasoning, answer."""
    model, tokenizer = plain
    chat = [{"role": "user", "content": content}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]
    thoughts = f"<think>\n{sequence.reasoning.text}{ended}"
    before = prompt + tokenizer(thoughts, add_special_tokens=False)["input_ids"]
    ids = torch.tensor([before + list(sequence.token_ids)])
    output = model(ids, output_hidden_states=True)
    first = len(before)
    logprobs = output.logits[0].float().log_softmax(-1)[first - 1 : -1]
    chosen = logprobs.gather(1, ids[0, first:, None])[:, 0]
    entropies = -(logprobs.exp() * logprobs).sum(-1)
    states = [state[0, first:-1] for state in output.hidden_states]
    return chosen.numpy(), entropies.numpy(), states, first - len(prompt)


async def test_behind_an_echo_tags_are_text_and_each_token_is_told(plain):
    chat = [{"role": "user", "content": SUM}]
    prompt = plain[1].apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    request = replace(asking(max_new_tokens=1, num_samples=0), messages=None, prompt=prompt)
    async with reasoning() as worker:
        told = await worker.generate(replace(request, echo=True))
        parted = await worker.generate(request)
    assert parted.answer.num_tokens == 0
    assert parted.answer.reasoning is not None
    assert told.answer.num_tokens == 1
    assert told.answer.reasoning is None


async def test_hidden_states_are_averaged_behind_the_reasoning_alone(plain):
    async with reasoning() as worker:
        generation = await worker.generate(asking(num_samples=1, hidden_layers=(1,)))

    _, _, states, _ = read(plain, generation.answer)
    expected = states[1].mean(0).numpy()
    np.testing.assert_allclose(generation.answer_hidden_mean[0], expected, atol=1e-4)


@pytest.mark.parametrize(("most", "text"), [(1, ""), (5, "I add in steps"), (9, None)])
async def test_a_reasoning_at_its_bound_is_ended_and_the_answer_follows_it(plain, most, text):
    told = []
    async with reasoning() as worker:
        request = asking(max_reasoning_tokens=most)
        generation = await worker.generate(request, told.append)

    answer = generation.answer
    assert generation.answer.reasoning.text == text or text is None
    for sequence in (answer, *generation.samples):
        assert sequence.reasoning.num_tokens == most + NUM_TAGS
        assert sequence.reasoning.is_finished
        assert sequence.finish_reason == "stop"
        logprobs, entropies, _, num_thoughts = read(plain, sequence, ended="</think>")
        assert num_thoughts == sequence.reasoning.num_tokens
        np.testing.assert_allclose(sequence.token_logprobs, logprobs, atol=1e-4)
        np.testing.assert_allclose(sequence.token_entropies, entropies, atol=1e-4)
    assert "".join(token.reasoning or "" for token in told).strip() == answer.reasoning.text
    assert "".join(token.text for token in told) == answer.text


async def test_a_bound_holds_no_row_beside_it_and_no_reasoning_that_ends_before():
    async with reasoning() as worker:
        alone = await worker.generate(asking())
        wide = asking(max_reasoning_tokens=100)
        requests = [asking(), wide, asking(max_reasoning_tokens=3)]
        beside, within, bounded = await asyncio.gather(*map(worker.generate, requests))

    for generation in (beside, within):
        assert generation.answer.reasoning == alone.answer.reasoning
        assert texts_of(generation.samples) == texts_of(alone.samples)
    assert bounded.answer.reasoning.num_tokens == 3 + NUM_TAGS


async def test_a_reasoning_that_the_prompt_opens_is_bounded_alike():
    async with reasoning() as worker:
        sampling = SamplingParams(0, 40, max_reasoning_tokens=4)
        request = GenerationRequest("12 + 5 = ?<think>", sampling=sampling)
        answer = (await worker.generate(request)).answer

    assert (answer.reasoning.num_tokens, answer.reasoning.is_finished) == (5, True)


async def test_only_a_model_with_a_tag_that_can_be_written_heeds_a_bound():
    async with reasoning() as worker:
        assert worker.info.no_reasoning_limit == ""
    async with reasoning(reasoning="off") as worker:
        assert "not known to reason" in worker.info.no_reasoning_limit
    async with reasoning(reasoning="<think>,</s>") as worker:
        assert "ends the answer" in worker.info.no_reasoning_limit


async def test_stop_strings_act_behind_the_reasoning_alone(plain):
    async with reasoning() as worker:
        free = (await worker.generate(asking())).answer
        digit = free.compared_text[-1]
        stopped = (await worker.generate(asking(stop=(digit, ".")))).answer

    assert "." in stopped.reasoning.text
    assert stopped.reasoning == free.reasoning
    assert stopped.text == free.text[: free.text.index(digit)]
    assert stopped.finish_reason == "stop"


async def test_a_tag_that_ends_the_users_text_is_text():
    async with reasoning() as worker:
        answer = (await worker.generate(asking(f"{SUM} <think>"))).answer
        request = GenerationRequest("12 + 5 = ?<think>", sampling=SamplingParams(0, 40))
        opened = (await worker.generate(request)).answer

    assert "<think>" not in answer.text
    assert opened.reasoning is not None


async def test_switched_off_all_is_answer_and_other_tags_can_be_set():
    async with reasoning(reasoning="off") as worker:
        whole = (await worker.generate(asking())).answer
        off = worker.info.identity
    async with reasoning(reasoning="<think>, =") as worker:
        early = (await worker.generate(asking())).answer
    async with reasoning() as worker:
        assert worker.info.identity != off

    assert whole.reasoning is None
    assert whole.text.startswith("<think>")
    assert early.num_written == whole.num_tokens
    assert early.text == whole.text[whole.text.index(" =") + 2 :]


async def test_a_template_that_cannot_end_without_its_own_tag_opens_a_reasoning():
    class Strict:
        def apply_chat_template(self, messages, *, add_generation_prompt, **options):
            if not add_generation_prompt:
                raise ValueError("the last message must be the assistant's")
            return "<|assistant|><think>\n"

    assert opens_reasoning(Strict(), asking(), Tags("<think>", "</think>"))
    assert not opens_reasoning(Strict(), asking(), Tags("[THINK]", "[/THINK]"))


def test_a_reasoning_without_thoughts_is_written_as_templates_write_it():
    tags = Tags("<think>", "</think>")
    assert tags.empty(opened=False) == "<think>\n\n</think>\n\n"
    assert "<think>\n" + tags.empty(opened=True) == "<think>\n\n</think>\n\n"
    assert HARMONY.empty(opened=False) == HARMONY.end


OPENED = "{{- '<|assistant|><think>\n' }}"


@pytest.mark.parametrize("template", ["its own", "opens", "has ended"])
async def test_a_question_of_one_token_is_answered_without_a_reasoning(plain, template, tmp_path):
    (model, tokenizer), folder = plain, tmp_path / "model"
    shutil.copytree(MODEL, folder)
    variables = {"enable_thinking": False}
    question = asking(num_samples=0, max_new_tokens=1, max_reasoning_tokens=0)
    if template == "has ended":
        question = replace(question, chat_template_kwargs=variables)
    if template == "opens":
        opening = tokenizer.chat_template.replace("{{- '<|assistant|>' }}", OPENED)
        (folder / "chat_template.jinja").write_text(opening)
    async with reasoning(folder) as worker:
        told = (await worker.first_token_logprobs(question, [["2", "24"], ["<think>"]])).logprobs

    options = {"add_generation_prompt": True, "return_tensors": "pt", **variables}
    ids = tokenizer.apply_chat_template(list(question.messages), **options)["input_ids"]
    with torch.inference_mode():
        logprobs = model(ids).logits[0, -1].log_softmax(-1)
    first = [tokenizer(text, add_special_tokens=False).input_ids[0] for text in ("2", "<think>")]
    assert told == pytest.approx(logprobs[first].tolist(), abs=1e-4)


async def test_a_text_of_a_model_that_reasons_is_continued_as_it_is(plain):
    model, tokenizer = plain
    law = SamplingParams(num_samples=0, max_new_tokens=1, max_reasoning_tokens=0)
    question = GenerationRequest(prompt="The answer is", sampling=law)
    async with reasoning() as worker:
        told = (await worker.first_token_logprobs(question, [["2"], ["<think>"]])).logprobs
    with torch.inference_mode():
        ids = tokenizer(question.prompt, return_tensors="pt").input_ids
        logprobs = model(ids).logits[0, -1].log_softmax(-1)
    first = [tokenizer(text, add_special_tokens=False).input_ids[0] for text in ("2", "<think>")]
    assert told == pytest.approx(logprobs[first].tolist(), abs=1e-4)


async def test_a_bound_of_0_writes_an_answer_at_once():
    at_once = asking(max_reasoning_tokens=0)
    ended = replace(asking(), chat_template_kwargs={"enable_thinking": False})
    async with reasoning() as worker:
        found, expected = [await worker.generate(one) for one in (at_once, ended)]
    assert found.answer.reasoning is None
    assert found.answer.text == expected.answer.text
    assert texts_of(found.samples) == texts_of(expected.samples)
    assert found.prompt_tokens == expected.prompt_tokens
