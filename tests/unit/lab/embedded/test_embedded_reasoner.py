"""The tiny model of the tests that reasons, as it is shipped, and what it is made of."""

import random
import re
from itertools import islice
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from cocoa_lab.embedded.reasoner import (
    Schedule,
    is_held_out,
    pairs,
    prompt_form,
    question,
    reasoning,
    train_reasoner,
    train_tokenizer,
    training_examples,
)
from cocoa_lab.embedded.weights import load_language_model
from models.units.reasoning import KNOWN_TAGS, is_opened, part, recognise

FOLDER = Path("tests/data/reasoning_model")
THINK = KNOWN_TAGS[0]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer()


@pytest.fixture(scope="module")
def shipped():
    return load_language_model(FOLDER)


@pytest.mark.parametrize(("a", "b"), [(47, 38), (5, 30), (0, 99), (60, 7)])
def test_every_step_of_a_reasoning_is_right_and_the_last_is_the_sum(a, b):
    for seed in range(20):
        steps = re.findall(r"(\d+) \+ (\d+) = (\d+)\.", reasoning(a, b, random.Random(seed)))

        assert len(steps) == 3
        assert [int(x) + int(y) for x, y, _ in steps] == [int(z) for _, _, z in steps]
        assert int(steps[-1][2]) == a + b


def test_held_out_sums_are_never_trained_in_either_order():
    trained = set(islice(pairs(random.Random(0), held_out=False), 5_000))

    assert not any(is_held_out(a, b) or is_held_out(b, a) for a, b in trained)
    assert all(is_held_out(a, b) for a, b in islice(pairs(random.Random(0), held_out=True), 100))


def test_an_example_is_what_the_template_asks_for_and_its_reply(tokenizer):
    [example] = training_examples(tokenizer, 1, random.Random(1))

    prompt = tokenizer.decode(example.ids[: example.answer_start])
    reply = tokenizer.decode(example.ids[example.answer_start :])

    assert re.fullmatch(r"<s><\|user\|>[^<]*\d[^<]*<\|assistant\|>", prompt)
    assert re.fullmatch(r"<think>\n.*\n</think>\n\n\d+</s>", reply)


def test_six_steps_lower_the_loss(tokenizer):
    _, losses, _ = train_reasoner(tokenizer, Schedule(steps=6))

    assert losses[-1] < 0.8 * losses[0]


def test_the_model_is_small_and_its_files_are_what_was_made(tokenizer):
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 1_000_000
    shipped = PreTrainedTokenizerFast.from_pretrained(FOLDER)
    assert shipped.get_vocab() == tokenizer.get_vocab()
    assert shipped.chat_template == tokenizer.chat_template


def test_its_tags_are_recognised_and_its_template_does_not_open_them(shipped):
    _, tokenizer = shipped
    messages = [{"role": "user", "content": "Is <think> a tag?"}]

    def rendered(**kwargs):
        return tokenizer.apply_chat_template(messages, tokenize=False, **kwargs)

    with_prompt = rendered(add_generation_prompt=True)
    shut = rendered(add_generation_prompt=True, enable_thinking=False)

    assert recognise(tokenizer.chat_template, tokenizer.get_added_vocab()) == THINK
    assert not is_opened(with_prompt, rendered(), THINK)
    assert is_opened(with_prompt + "<think>\n", rendered(), THINK)
    assert not is_opened(shut, rendered(), THINK)


def test_earlier_turns_lose_their_reasoning(shipped):
    _, tokenizer = shipped
    turns = [
        {"role": "user", "content": "What is 1 + 2?"},
        {"role": "assistant", "content": "<think>\n1 + 2 = 3.\n</think>\n\n3"},
        {"role": "user", "content": "4 + 5 ="},
    ]

    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)

    assert text == "<s><|user|>What is 1 + 2?<|assistant|>3</s><|user|>4 + 5 =<|assistant|>"


def generated(shipped, prompts, **kwargs):
    """Texts of the tokens of each reply, without EOS, and whether that ended it."""
    model, tokenizer = shipped
    batch = tokenizer(prompts, return_tensors="pt", padding=True, return_token_type_ids=False)
    torch.manual_seed(0)
    ids = model.generate(**batch, max_new_tokens=120, **kwargs)[:, batch["input_ids"].shape[1] :]
    replies = []
    for row in ids.tolist():
        ended = tokenizer.eos_token_id in row
        kept = row[: row.index(tokenizer.eos_token_id)] if ended else row
        replies.append((tokenizer.batch_decode([[one] for one in kept]), ended))
    return replies


def parts(replies):
    return [part(texts, THINK, ended=ended) for texts, ended in replies]


def test_it_thinks_to_the_end_and_gets_most_but_not_all_sums_right(shipped):
    _, tokenizer = shipped
    sums = list(islice(pairs(random.Random(3), held_out=True), 60))
    form = prompt_form(tokenizer)
    prompts = [form.format(question(a, b, random.Random(a))) for a, b in sums]

    parted = parts(generated(shipped, prompts, do_sample=False))

    answers = [said.strip() for _, said in parted]
    right = sum(answer == str(a + b) for answer, (a, b) in zip(answers, sums, strict=True))
    assert sum(one.is_finished for one, _ in parted) >= 58
    assert 36 <= right <= 56


def test_samples_reason_differently_and_often_agree(shipped):
    _, tokenizer = shipped
    prompts = [prompt_form(tokenizer).format("What is 34 + 21?")] * 20

    replies = generated(shipped, prompts, do_sample=True, temperature=1.0, top_k=50)
    parted = parts(replies)

    answers = [said.strip() for one, said in parted if one.is_finished]
    assert len(answers) >= 18
    assert len({one.text for one, _ in parted}) >= 15
    assert answers.count("55") >= 10


def test_without_thinking_it_answers_at_once(shipped):
    _, tokenizer = shipped
    prompt = prompt_form(tokenizer, thinking=False).format("What is 34 + 21?")

    [(texts, ended)] = generated(shipped, [prompt], do_sample=False)

    assert re.fullmatch(r"\d+", "".join(texts))
    assert ended
