"""The lean forward pass gives transformers' numbers, on padded and unpadded rows alike."""

import copy
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    LlamaConfig,
    MistralConfig,
    Qwen2Config,
    Qwen3Config,
)

from models.engines import rows
from models.engines.fast import lean as lean_module
from models.engines.fast.layers import is_llama_like
from models.engines.jobs import Row, Scored
from models.engines.protocol import Job
from models.engines.rows import RowCache
from models.records import GenerationRequest
from tests import tiny_models
from tests.tiny_models import CONFIGS, random_model

_LIKE = tiny_models.LLAMA_LIKE
_LLAMA = CONFIGS["llama"].to_dict()
LLAMA_3 = LlamaConfig(
    **_LLAMA
    | {
        "attention_bias": True,
        "mlp_bias": True,
        "tie_word_embeddings": True,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10_000.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    }
)
MISTRAL = MistralConfig(**_LIKE, head_dim=16, sliding_window=None)
QWEN3 = Qwen3Config(**_LIKE, head_dim=16)
HALF_SLIDING = {
    "use_sliding_window": True,
    "sliding_window": 8,
    "max_window_layers": 1,
    "layer_types": None,
}
# Scaled by another number than the size of a head, and rotated by layer.
_GEMMA = {**_LIKE, "head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 40}
_BY_LAYER = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1_000_000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
}
GEMMA_3 = Gemma3TextConfig(
    **_GEMMA,
    rope_parameters=_BY_LAYER,
    layer_types=["sliding_attention", "full_attention", "sliding_attention"],
)
MODELS = {
    "llama": CONFIGS["llama"],
    "qwen2": CONFIGS["qwen2"],
    "llama 3": LLAMA_3,
    "mistral": MISTRAL,
    "qwen3": QWEN3,
    "all layers sliding": CONFIGS["sliding"],
    "half of the layers sliding": Qwen2Config(**CONFIGS["qwen2"].to_dict() | HALF_SLIDING),
    "gemma 3": GEMMA_3,
}
PROMPTS = [[5, 6, 7, 8, 9, 10], [11, 12], [13] * 40]


def model_of(config):
    """One of random weights, those of norms among them."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    for name, weight in model.named_parameters():
        if "norm" in name:
            torch.nn.init.uniform_(weight, 0.5, 1.5)
    return model


def two_caches(config, dtype=torch.float32):
    """A cache that takes the lean pass, and one of the same weights that does not."""
    model = model_of(config).to(dtype)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(rows, "is_llama_like", lambda _: False)
        plain = RowCache(copy.deepcopy(model))
    assert is_llama_like(model)
    return RowCache(model), plain


@torch.inference_mode()
def logits_and_states(cache):
    """Of a padded prefill, two decoding steps, a given answer in the middle of them."""
    cache.tap.watch((1,))
    found = []
    prefixes = cache.prefill(PROMPTS)
    found += [prefix.logits for prefix in prefixes]
    found += [cache.tap.state((1,), row) for row in range(3)]
    (alone,) = cache.prefill(PROMPTS[:1])
    found.append(alone.logits)
    wanting, given = Job(GenerationRequest("")), list(range(20, 90))
    row = Row(wanting, 0, frozenset({"token_entropies"}), given)
    scored = Scored(copy.deepcopy(alone), row)
    while len(row.logprobs) < len(given):
        cache.score(scored)
    found += [torch.tensor(row.logprobs), torch.tensor(row.entropies)]
    cache.join([*prefixes, alone])
    for tokens in ([3, 4, 5, 6], [7, 8, 9, 10]):
        cache.forward(tokens)
        found += [cache.logits, cache.tap.state((1,), 1)]
    return found


@pytest.mark.parametrize(
    ("packs", "keeps"),
    [(True, True), (True, False), (False, True)],
    ids=["both ways", "laid out alone", "as they are"],
)
@pytest.mark.parametrize("name", MODELS)
def test_logits_and_hidden_states_are_those_of_transformers(name, packs, keeps, monkeypatch):
    monkeypatch.setattr(lean_module, "may_pack", lambda model: packs)
    monkeypatch.setattr(lean_module, "keeps_both", lambda model: keeps)
    lean, plain = two_caches(MODELS[name])
    assert (lean.model.model.layers[0].mlp.down_proj.weight.numel() == 0) == (not keeps)

    for ours, theirs in zip(logits_and_states(lean), logits_and_states(plain), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["llama 3", "gemma 3"])
def test_weights_that_are_laid_out_leave_no_mapped_file(name, tmp_path, monkeypatch):
    monkeypatch.setattr(lean_module, "may_pack", lambda model: True)
    monkeypatch.setattr(lean_module, "keeps_both", lambda model: False)
    model_of(MODELS[name]).save_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert str(tmp_path) in Path("/proc/self/maps").read_text()

    cache = RowCache(model.eval())

    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
    assert len(cache.prefill(PROMPTS)) == len(PROMPTS)


def test_in_half_precision_numbers_differ_by_rounding_only():
    lean, plain = two_caches(CONFIGS["llama"], torch.bfloat16)

    for ours, theirs in zip(logits_and_states(lean), logits_and_states(plain), strict=True):
        torch.testing.assert_close(ours.float(), theirs.float(), atol=2e-2, rtol=2e-2)


@torch.inference_mode()
def logits_of_branching_rows(cache):
    """Of rows that branch, leave and join, some with a long prompt and some with a short one."""
    found = []
    (long, short, other), (later,) = cache.prefill(PROMPTS), cache.prefill([[14] * 30])
    cache.join([long, short])
    cache.forward([3, 4])
    found.append(cache.logits)
    cache.keep([0, 0, 1])
    cache.forward([5, 6, 7])
    found.append(cache.logits)
    cache.keep([2, 0, 1])
    cache.forward([8, 9, 10])
    cache.join([other, later, other])
    found.append(cache.logits)
    cache.forward([11, 12, 13, 3, 4, 5])
    found.append(cache.logits)
    cache.keep([5, 3, 1])
    cache.forward([14, 15, 16])
    found.append(cache.logits)
    cache.keep([0, 0])
    cache.forward([17, 18])
    return [*found, cache.logits]


@pytest.mark.parametrize("shared_from", [1, 3, 1000])
@pytest.mark.parametrize("name", MODELS)
def test_rows_that_share_a_prompt_read_what_rows_with_copies_read(name, shared_from, monkeypatch):
    monkeypatch.setattr(rows, "_SHARED_FROM", shared_from)
    lean, plain = two_caches(MODELS[name])

    pairs = zip(logits_of_branching_rows(lean), logits_of_branching_rows(plain), strict=True)
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_a_shared_prompt_is_copied_for_no_row(monkeypatch):
    monkeypatch.setattr(rows, "_SHARED_FROM", 3)
    lean, _ = two_caches(CONFIGS["llama"])
    with torch.inference_mode():
        lean.join(lean.prefill([[13] * 40]))
        lean.forward([3])
        lean.keep([0, 0, 0])
        lean.forward([4, 5, 6])

    assert [layer.keys.shape[:3] for layer in lean.cache.layers] == 3 * [(3, 2, 2)]


def test_joined_weights_are_views_of_one():
    lean, _ = two_caches(CONFIGS["llama"])
    attention = lean.model.model.layers[0].self_attn

    together = attention.q_proj.weight.data_ptr()
    assert attention.v_proj.weight.untyped_storage().data_ptr() == together


def test_a_hooked_model_is_called_as_a_module():
    lean, _ = two_caches(CONFIGS["llama"])
    calls = []
    lean.model.register_forward_pre_hook(lambda *_: calls.append(1))

    with torch.inference_mode():
        lean.prefill(PROMPTS)

    assert calls


@pytest.mark.parametrize(
    "config",
    [
        CONFIGS["gpt2"],
        CONFIGS["hybrid"],
        LlamaConfig(**_LLAMA | {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}),
        Gemma2Config(**_GEMMA),
        Gemma3TextConfig(**_GEMMA, final_logit_softcapping=30.0),
        Gemma3TextConfig(**_GEMMA, use_bidirectional_attention=True),
    ],
    ids=["gpt2", "hybrid", "dynamic rotations", "gemma 2", "capped logits", "both directions"],
)
def test_what_it_does_not_know_goes_through_transformers(config):
    assert not is_llama_like(AutoModelForCausalLM.from_config(config))


def test_eager_attention_was_asked_for_and_is_left_alone():
    model = random_model("llama")
    model.set_attn_implementation("eager")

    assert not is_llama_like(model)


def test_a_class_that_only_has_the_name_goes_through_transformers():
    model = random_model("llama")
    model.__class__ = type("LlamaForCausalLM", (type(model),), {"__module__": "of_a_checkpoint"})

    assert not is_llama_like(model)
