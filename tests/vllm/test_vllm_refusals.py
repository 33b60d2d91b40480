"""Models without Light, and probes of another model."""

import pytest
import torch
from cocoa_vllm.columns import FORMAT, NO_SUPPORT
from torch.distributions import Categorical
from transformers import AutoModelForCausalLM, AutoTokenizer, Gemma2Config

from models.embedded import LANGUAGE_MODEL_DIR, SECOND_LANGUAGE_MODEL_DIR
from tests.vllm.server import DidNotStart, columns, serving

pytestmark = pytest.mark.anyio
PROMPTS = ["Which country is Pirot in?", "How much is 37 - 27?", "Say Nauru in German."]


@pytest.fixture(scope="module")
def gemma2(tmp_path_factory):
    """A Gemma 2 with random weights and the embedded model's tokenizer."""
    folder = tmp_path_factory.mktemp("gemma2")
    tokenizer = AutoTokenizer.from_pretrained(LANGUAGE_MODEL_DIR)
    torch.manual_seed(0)
    config = Gemma2Config(
        vocab_size=len(tokenizer),
        hidden_size=192,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=6,
        head_dim=32,
        max_position_embeddings=512,
        query_pre_attn_scalar=32,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


async def test_a_model_without_supports_eagle3_has_entropies_and_no_light(tmp_path_factory, gemma2):
    model = AutoModelForCausalLM.from_pretrained(gemma2, dtype=torch.float32).eval()
    folder = tmp_path_factory.mktemp("gemma2-server")
    async with serving(folder, "gemma2", "--enforce-eager", model=gemma2) as server:
        assert "there is no Light here, reason 2" in server.log
        (found,) = columns(await server.one("Which", "identity", logprobs=15, max_tokens=1))
        assert [found[i] for i in (1, 2, 3)] == [FORMAT, NO_SUPPORT, 0]
        for prompt in PROMPTS:
            choice = await server.one(prompt, "light", return_token_ids=True, max_tokens=8)
            assert all(column.keys() == {0, 1} for column in columns(choice))
            ids = choice["prompt_token_ids"] + choice["token_ids"]
            with torch.inference_mode():
                logits = model(torch.tensor([ids])).logits[0]
            steps = logits[len(choice["prompt_token_ids"]) - 1 : -1]
            exact = Categorical(logits=steps).entropy().tolist()
            assert [column[1] for column in columns(choice)] == pytest.approx(exact, abs=1e-3)


async def test_a_worker_does_not_start_with_the_probes_of_another_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign")
    foreign = serving(folder, "foreign", "--enforce-eager", model=SECOND_LANGUAGE_MODEL_DIR)
    with pytest.raises(DidNotStart, match="ProbeRefused: inconsistency: its"):
        async with foreign:
            pass
