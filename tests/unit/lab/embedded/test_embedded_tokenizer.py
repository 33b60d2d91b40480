"""The shipped tokenizers: single digits, nothing lost, one BOS, a chat tokenized as its prompt."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from cocoa_lab.embedded.language_model import RECIPES, Recipe
from cocoa_lab.embedded.tokenizer import (
    CONTEXT_TOKENS,
    VOCABULARY,
    english_prose,
    train_language_model_tokenizer,
)
from models.embedded import CROSS_ENCODER_DIR, LANGUAGE_MODEL_DIR


@pytest.fixture(scope="module", params=RECIPES, ids=lambda recipe: recipe.folder)
def recipe(request) -> Recipe:
    return request.param


@pytest.fixture(scope="module")
def tokenizer(recipe):
    return AutoTokenizer.from_pretrained(LANGUAGE_MODEL_DIR.parent / recipe.folder)


@pytest.fixture(scope="module")
def judge_tokenizer():
    return AutoTokenizer.from_pretrained(CROSS_ENCODER_DIR)


@pytest.mark.parametrize(
    ("text", "digits"),
    [("What is 12 + 79?", ["1", "2", "7", "9"]), (" 45678", ["4", "5", "6", "7", "8"])],
)
def test_digits_stand_one_by_one(tokenizer, text, digits):
    pieces = tokenizer.tokenize(text)
    assert [piece for piece in pieces if re.search(r"\d", piece)] == digits


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60))
@settings(deadline=None, max_examples=60)
def test_any_text_survives_the_round_trip(tokenizer, text):
    # Only the names of special tokens are not read as ordinary text; all of them contain "<".
    text = text.replace("<", "")
    assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text


def test_a_prompt_starts_with_one_bos_and_has_no_eos(tokenizer):
    ids = tokenizer("What is the capital of France?")["input_ids"]
    assert ids[0] == tokenizer.bos_token_id
    assert tokenizer.bos_token_id not in ids[1:]
    assert tokenizer.eos_token_id not in ids


def test_the_special_tokens_are_three_different_ones(tokenizer):
    assert len({tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id}) == 3


def test_a_chat_of_one_message_has_the_ids_of_its_prompt_in_the_form_that_was_trained(
    tokenizer, recipe
):
    question = "What is the capital of France?"
    messages = [{"role": "user", "content": question}]
    chat = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
    prompt = recipe.course.prompt_form(question)
    assert chat["input_ids"] == tokenizer(prompt)["input_ids"]


def test_the_chat_template_takes_the_last_user_message(tokenizer, recipe):
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is 1 + 1?"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "What is 2 + 2?"},
    ]
    text = tokenizer.apply_chat_template(messages, tokenize=False)
    assert text == tokenizer.bos_token + recipe.course.prompt_form("What is 2 + 2?")


def test_prompt_and_answer_encoded_apart_are_the_whole_encoded_at_once(tokenizer, recipe):
    prompt = recipe.course.prompt_form("Translate to German: forty-two")
    answer = " zweiundvierzig"
    prompt_ids = tokenizer(prompt)["input_ids"]
    answer_ids = tokenizer(answer, add_special_tokens=False)["input_ids"]
    assert prompt_ids + answer_ids == tokenizer(prompt + answer)["input_ids"]


def test_vocabularies_and_contexts_have_the_stated_size(tokenizer, recipe, judge_tokenizer):
    assert (len(tokenizer), len(judge_tokenizer)) == (recipe.vocabulary, VOCABULARY)
    assert tokenizer.model_max_length == judge_tokenizer.model_max_length == CONTEXT_TOKENS


@pytest.mark.parametrize("text", ["Serbia", " serbia", "SERBIA"])
def test_the_cross_encoder_reads_a_word_the_same_wherever_and_however_it_stands(
    judge_tokenizer, text
):
    assert judge_tokenizer.tokenize(text) == judge_tokenizer.tokenize("It is in Serbia")[3:]
    assert judge_tokenizer.tokenize(f'"{text}"')[1:-1] == judge_tokenizer.tokenize("Serbia")


def test_the_cross_encoder_tells_the_two_texts_apart_by_token_type(judge_tokenizer):
    encoded = judge_tokenizer("Paris", "Rome")
    assert encoded["input_ids"][0] == judge_tokenizer.cls_token_id
    assert encoded["input_ids"].count(judge_tokenizer.sep_token_id) == 2
    assert encoded["token_type_ids"] == sorted(encoded["token_type_ids"])
    assert set(encoded["token_type_ids"]) == {0, 1}


def test_a_rebuilt_vocabulary_has_the_same_merges_every_time():
    first, second = (train_language_model_tokenizer(size=600, seed=1) for _ in range(2))
    assert first.get_vocab() == second.get_vocab()
    assert first.tokenize("What is 12?")[-3:] == ["1", "2", "?"]


def test_english_prose_is_half_a_megabyte_of_words():
    prose = english_prose()
    assert len(prose) > 300_000
    assert "_" not in prose
    assert "  " not in prose
