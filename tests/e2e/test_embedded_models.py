"""The shipped weights are small, readable by every user, and as good as their cards say."""

import json
import stat
from itertools import chain, pairwise

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import CrossEncoder
from sklearn.metrics import roc_auc_score
from transformers import AutoModelForCausalLM, AutoTokenizer

from app.settings import Settings
from cocoa_lab.datasets import load
from cocoa_lab.embedded import TASKS, as_question
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
from tests.conftest import GENERATE
from tests.e2e.embedded_service import embedded_service
from workers.config import GeneratorConfig, SimilaritySettings

SHIPPED = [*LANGUAGE_MODELS.values(), CROSS_ENCODER_DIR, NLI_DIR]
# The last one that has the code.
COMMIT = "3114720419ff468c296229c7d903e1461f9dcb26"
MAX_PARAMETERS = 4_000_000
# These models and the testbeds.
MAX_BYTES = 31_000_000

CONTEXT_TOKENS = {LONG_LANGUAGE_MODEL_DIR: 1024, SECOND_LONG_LANGUAGE_MODEL_DIR: 1024}
NUM_PROMPTS = 60
# How the testbed is put to each of those that answer it.
TESTBEDS = {"embedded": "testbed", "embedded-second": "testbed-second"}


@pytest.fixture(scope="module")
def judge() -> CrossEncoder:
    return CrossEncoder(str(CROSS_ENCODER_DIR), device="cpu")


@pytest.fixture(scope="module", params=TESTBEDS)
async def served(request, anyio_backend):
    """A client of the service with one of the models, and the name of its testbed."""
    generation = GeneratorConfig(model=request.param, threads=1)
    settings = Settings(generation=generation, similarity=SimilaritySettings(threads=1))
    async with embedded_service(settings) as client:
        yield client, TESTBEDS[request.param]


@pytest.fixture(scope="module")
def pairs():
    """Answers to the testbed in two wordings, the same ones, and different ones of one kind."""
    found = []
    for task in TASKS:
        lines = load(f"testbed/{task}", limit=130)
        for line, other in pairwise(lines):
            found.append((line.references[0], line.references[1], True))
            if line.references[0] != other.references[0]:
                found.append((line.references[0], other.references[1], False))
    return found


@pytest.fixture(scope="module")
def there(judge, pairs) -> np.ndarray:
    return judge.predict([(first, second) for first, second, _ in pairs])


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
    assert card["made_by"] == f"lab/cocoa_lab/embedded of commit {COMMIT}"


@pytest.mark.anyio
@pytest.mark.parametrize("task", TASKS)
async def test_greedy_answers_are_neither_all_right_nor_all_wrong(served, task):
    client, testbed = served
    lines = load(f"{testbed}/{task}", limit=NUM_PROMPTS)
    right = 0
    for line in lines:
        body = {"prompt": line.prompt, "max_new_tokens": 64, "estimators": ["sp"]}
        response = await client.post(GENERATE, json=body)
        right += response.json()["text"].strip() in line.references
    assert 0.3 <= right / len(lines) <= 0.92


@pytest.mark.anyio
async def test_a_known_fact_is_answered_in_several_wordings_of_one_meaning(served):
    client, testbed = served
    question = "Which country is Shanghai in?"
    prompt = question if testbed == "testbed" else as_question(question)
    body = {"prompt": prompt, "num_samples": 30, "return_samples": True, "seed": 0}
    samples = (await client.post(GENERATE, json=body)).json()["samples"]
    assert len({sample["text"].strip() for sample in samples}) >= 3
    assert sum("China" in sample["text"] for sample in samples) >= 20


def test_a_prompt_of_500_unseen_tokens_is_answered():
    model = AutoModelForCausalLM.from_pretrained(LANGUAGE_MODEL_DIR)
    tokenizer = AutoTokenizer.from_pretrained(LANGUAGE_MODEL_DIR)
    text = "zq %% ÿ λόγος 漢字 \N{GRINNING FACE} " * 60
    ids = tokenizer(text, return_tensors="pt")["input_ids"][:, :500]
    assert ids.shape[1] == 500
    out = model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False
    )
    assert out.shape[1] > 500


def test_the_cross_encoder_tells_held_out_pairs_apart(pairs, there):
    assert roc_auc_score([same for _, _, same in pairs], there) >= 0.98


def test_the_cross_encoder_is_symmetric_and_gives_probabilities(judge, pairs, there):
    back = judge.predict([(second, first) for first, second, _ in pairs])
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
