"""The shipped weights are small, readable by every user, and as good as their cards say."""

import json
import stat
from itertools import chain

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import CrossEncoder
from sklearn.metrics import roc_auc_score
from transformers import AutoModelForCausalLM, AutoTokenizer

from cocoa_lab.embedded import TASKS
from cocoa_lab.embedded.answers import answer_prompts
from cocoa_lab.embedded.evaluation import correctness, held_out_pairs
from cocoa_lab.embedded.language_model import RECIPES
from cocoa_lab.embedded.pairs import Pair
from cocoa_lab.embedded.testbed import read_testbed
from cocoa_lab.embedded.weights import load_language_model
from models.embedded import (
    CROSS_ENCODER_DIR,
    LANGUAGE_MODEL_DIR,
    LANGUAGE_MODELS,
    LONG_LANGUAGE_MODEL_DIR,
    LONG_TESTBED_DIR,
    NLI_DIR,
    SECOND_LONG_LANGUAGE_MODEL_DIR,
    TESTBED_DIR,
)

SHIPPED = [*LANGUAGE_MODELS.values(), CROSS_ENCODER_DIR, NLI_DIR]
MAX_PARAMETERS = 4_000_000
# These models and the testbeds.
MAX_BYTES = 31_000_000

CONTEXT_TOKENS = {LONG_LANGUAGE_MODEL_DIR: 1024, SECOND_LONG_LANGUAGE_MODEL_DIR: 1024}
NUM_PROMPTS = 60
NUM_PAIRS = 800


@pytest.fixture(scope="module")
def judge() -> CrossEncoder:
    return CrossEncoder(str(CROSS_ENCODER_DIR), device="cpu")


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return held_out_pairs(NUM_PAIRS)


@pytest.fixture(scope="module")
def there(judge, pairs) -> np.ndarray:
    return judge.predict([(pair.first, pair.second) for pair in pairs])


def test_everything_shipped_is_small_and_readable_by_every_user():
    files = [
        *chain.from_iterable(
            folder.iterdir() for folder in (*SHIPPED, TESTBED_DIR, LONG_TESTBED_DIR)
        )
    ]
    assert sum(file.stat().st_size for file in files) < MAX_BYTES
    assert {oct(stat.S_IMODE(file.stat().st_mode)) for file in files} == {"0o644"}
    assert not [file for file in files if file.suffix in {".pt", ".bin", ".partial"}]


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_tensors_are_float16_on_disk_and_few(folder):
    tensors = load_file(folder / "model.safetensors")
    assert {t.dtype for t in tensors.values()} == {torch.float16}
    assert sum(t.numel() for t in tensors.values()) <= MAX_PARAMETERS
    assert all(bool(t.isfinite().all()) for t in tensors.values())


@pytest.mark.parametrize("folder", LANGUAGE_MODELS.values(), ids=LANGUAGE_MODELS)
def test_a_language_model_loads_in_float32_with_its_limits(folder):
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert model.config.max_position_embeddings == CONTEXT_TOKENS.get(folder, 512)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_the_card_says_how_the_model_was_made_and_how_good_it_is(folder):
    card = json.loads((folder / "card.json").read_text())
    assert {"parameters", "steps", "seconds", "seed"} <= set(card)
    assert {"testbed", "quality"} & set(card)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.folder)
def test_greedy_answers_are_neither_all_right_nor_all_wrong(recipe, task):
    model, tokenizer = load_language_model(LANGUAGE_MODEL_DIR.parent / recipe.folder)
    lines = read_testbed(TESTBED_DIR)[task][:: 600 // NUM_PROMPTS][:NUM_PROMPTS]
    prompts = [recipe.course.prompt_form(line.prompt) for line in lines]
    correct = correctness(lines, answer_prompts(model, tokenizer, prompts))
    assert 0.3 <= correct.mean() <= 0.92


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.folder)
def test_a_known_fact_is_answered_in_several_wordings_of_one_meaning(recipe):
    model, tokenizer = load_language_model(LANGUAGE_MODEL_DIR.parent / recipe.folder)
    prompt = recipe.course.prompt_form("Which country is Shanghai in?")
    (answered,) = answer_prompts(model, tokenizer, [prompt], num_samples=30)
    samples = {sample.strip() for sample in answered.samples}
    assert len(samples) >= 3
    assert sum("China" in sample for sample in answered.samples) >= 20


def test_a_prompt_of_500_unseen_tokens_is_answered():
    model, tokenizer = load_language_model(LANGUAGE_MODEL_DIR)
    text = "zq %% ÿ λόγος 漢字 \N{GRINNING FACE} " * 60
    ids = tokenizer(text, return_tensors="pt")["input_ids"][:, :500]
    assert ids.shape[1] == 500
    out = model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False
    )
    assert out.shape[1] > 500


def test_the_cross_encoder_tells_held_out_pairs_apart(pairs, there):
    assert roc_auc_score([pair.same for pair in pairs], there) >= 0.98


def test_the_cross_encoder_is_symmetric_and_gives_probabilities(judge, pairs, there):
    back = judge.predict([(pair.second, pair.first) for pair in pairs])
    assert there.min() >= 0.0
    assert there.max() <= 1.0
    assert np.abs(there - back).mean() < 0.02
    assert np.quantile(np.abs(there - back), 0.95) <= 0.05


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("Paris", "It is Paris.", True),
        ("Paris", "The capital of France is Paris.", True),
        ("19", "12 + 7 = 19", True),
        ("It is in the Netherlands.", "Netherlands", True),
        ("zweiundvierzig", "In German it is zweiundvierzig.", True),
        ("Paris", "Rome", False),
        ("19", "It is 18.", False),
        ("Lyon is in France.", "Lyon is in Spain.", False),
        ("zweiundvierzig", "It is dreiundvierzig.", False),
    ],
)
def test_the_cross_encoder_sees_one_meaning_in_several_wordings(judge, first, second, same):
    assert (float(judge.predict([(first, second)])[0]) > 0.5) is same


def test_the_cross_encoder_takes_texts_longer_than_its_context(judge):
    score = float(judge.predict([("a long text about cities " * 200, "Paris")])[0])
    assert 0.0 <= score <= 1.0
