"""Every family of models that people serve: numbers of its own full forward pass, or no start."""

import sys

import numpy as np
import pytest
import torch
import transformers as hf

from models.embedded import CROSS_ENCODER_DIR
from models.engines import self_test
from models.engines.protocol import EngineConfig
from models.engines.rows import RowCache
from models.engines.transformers import TransformersEngine
from models.errors import ModelNotLoaded
from models.records import GenerationRequest, GivenAnswer, SamplingParams
from models.similarity.cross_encoder import CrossEncoderModel
from models.similarity.nli import NliModel
from models.similarity.protocol import NliConfig, SimilarityConfig
from tests.tiny_models import CONFIGS, byte_tokenizer

NUM_TOKENS = 90
PROMPTS = ("Once upon a time, ", "Hi")
GIVEN = "of more tokens than are read in one pass: " * 3
_TOKENS = {"vocab_size": 259, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
_SIZES = {**_TOKENS, "hidden_size": 32, "num_hidden_layers": 2}
_HEADS = {**_SIZES, "num_attention_heads": 4, "intermediate_size": 64}
_HEADS["max_position_embeddings"] = 512
_GROUPED = {**_HEADS, "num_key_value_heads": 2}
_LLAMA = {**_GROUPED, "head_dim": 8}
_WINDOW = {**_LLAMA, "sliding_window": 8}
_GEMMA = {**_WINDOW, "query_pre_attn_scalar": 8}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_DELTA = {f"linear_{name}": 2 for name in ("num_key_heads", "num_value_heads")}
_DELTA |= {f"linear_{name}": 8 for name in ("key_head_dim", "value_head_dim")}
_MAMBA = {**_GROUPED, "num_key_value_heads": 4, "mamba_d_state": 8, "mamba_dt_rank": 2}
_MAMBA2 = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_chunk_size": 16}
_HALF = ["sliding_attention", "full_attention"]

SERVED = {
    "Llama": lambda: hf.LlamaConfig(**_LLAMA),
    "Mistral": lambda: hf.MistralConfig(**_WINDOW),
    "Gemma 2": lambda: hf.Gemma2Config(**_GEMMA),
    "Gemma 3": lambda: hf.Gemma3TextConfig(**_GEMMA, layer_types=_HALF),
    "Gemma 3 that sees": lambda: hf.Gemma3Config(
        text_config=hf.Gemma3TextConfig(**_GEMMA, layer_types=_HALF).to_dict(),
        vision_config={"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4},
    ),
    "Qwen2": lambda: hf.Qwen2Config(**_LLAMA),
    "Qwen3": lambda: hf.Qwen3Config(**_LLAMA),
    "Qwen3-MoE": lambda: hf.Qwen3MoeConfig(**_LLAMA, **_EXPERTS),
    "Phi-3": lambda: hf.Phi3Config(**_GROUPED),
    "GPT-2": lambda: hf.GPT2Config(**_TOKENS, n_embd=32, n_layer=2, n_head=4, n_positions=512),
    "GPT-NeoX": lambda: hf.GPTNeoXConfig(**_HEADS),
    "OPT": lambda: hf.OPTConfig(**_HEADS, ffn_dim=64, word_embed_proj_dim=32),
    "BLOOM": lambda: hf.BloomConfig(**_TOKENS, hidden_size=32, n_layer=2, n_head=4),
    "GPT-OSS": lambda: hf.GptOssConfig(
        **_WINDOW, num_local_experts=4, num_experts_per_tok=2, layer_types=_HALF
    ),
    "Llama 4": lambda: hf.Llama4TextConfig(
        **_LLAMA, intermediate_size_mlp=64, num_local_experts=2, attention_chunk_size=16
    ),
    "Jamba": lambda: hf.JambaConfig(**_MAMBA, attn_layer_period=2, attn_layer_offset=1),
    "Zamba": lambda: hf.ZambaConfig(
        **{**_MAMBA, "num_hidden_layers": 6}, attn_layer_period=2, attn_layer_offset=1
    ),
    "Bamba": lambda: hf.BambaConfig(
        **_GROUPED, **_MAMBA2, attn_layer_indices=[1], attn_rotary_emb=8
    ),
    "ModernBERT's decoder": lambda: hf.ModernBertDecoderConfig(**_HEADS, local_attention=8),
    "Qwen3-Next": lambda: hf.Qwen3NextConfig(
        **_LLAMA,
        **_EXPERTS,
        **_DELTA,
        shared_expert_intermediate_size=16,
        layer_types=["linear_attention", "full_attention"],
    ),
    "Mamba": lambda: hf.MambaConfig(**_SIZES, state_size=8),
    "Mamba2": lambda: hf.Mamba2Config(
        **_SIZES, state_size=8, num_heads=8, head_dim=8, n_groups=2, chunk_size=16
    ),
}
# id: config, what the start says of it
REFUSED = {
    "RWKV takes no cache and forgets": (
        lambda: hf.RwkvConfig(**_SIZES, attention_hidden_size=32, context_length=512),
        "is a RwkvForCausalLM, .* decoded token by token, its logits differ",
    ),
    "RecurrentGemma keeps its state in its modules": (
        lambda: hf.RecurrentGemmaConfig(
            **_GROUPED,
            lru_width=32,
            attention_window_size=8,
            block_types=["recurrent", "attention"],
        ),
        "is a RecurrentGemmaForCausalLM, .* decoded token by token, its logits differ",
    ),
    "Nemotron-H bounds the time steps of what it reads": (
        lambda: hf.NemotronHConfig(
            **_GROUPED, ssm_state_size=8, mamba_num_heads=4, mamba_head_dim=16, n_groups=1,
            layers_block_type=["linear_attention", "full_attention"],
        ),
        "is a NemotronHForCausalLM, whose layers bound their time steps as they read",
    ),
    "MiniMax wants a cache of its own": (
        lambda: hf.MiniMaxConfig(**_LLAMA, num_local_experts=2),
        "is a MiniMaxForCausalLM, whose forward pass fails here .ValueError: MiniMax uses cache",
    ),
    "RoFormer counts columns of its cache, which rows that leave take with them": (
        lambda: hf.RoFormerConfig(**_HEADS, is_decoder=True),
        "is a RoFormerForCausalLM, .* decoded token by token, its logits differ",
    ),
    "Bart's decoder counts padding": (
        lambda: hf.BartConfig(
            **_TOKENS, d_model=32, decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=32
        ),
        "is a BartForCausalLM, which is not served rightly here",
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread():
    """These models are too small for more; threads that wait for each other take seconds."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tiny(config, scale=4):
    """A model whose answers never end, and whose log-probs are far from even."""
    torch.manual_seed(0)
    model = hf.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(scale)
    model.generation_config.eos_token_id = 300
    return model


def saved(model, folder):
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return str(folder)


def sequences(engine):
    """Of two prompts that are asked together, with samples; and of a given answer."""
    sampling = SamplingParams(max_new_tokens=NUM_TOKENS, num_samples=2, seed=1)
    wanted = frozenset({"answer_token_logprobs", "sample_token_logprobs"})
    requests = []
    for prompt in PROMPTS:
        requests.append(GenerationRequest(prompt, sampling=sampling, statistics=wanted))
    given = GivenAnswer(GIVEN, append_eos=False)
    requests.append(GenerationRequest(PROMPTS[0], statistics=wanted, answer=given))
    jobs = list(map(engine.prepare, requests))
    engine.step(jobs)
    while not engine.is_idle:
        engine.step([])
    for job in jobs:
        generation = engine.generation(job)
        for sequence in (generation.answer, *generation.samples):
            yield job.prompt_ids, sequence, sequence is generation.answer and job is not jobs[-1]


@pytest.mark.parametrize("family", SERVED)
def test_tokens_and_log_probs_are_those_of_the_models_own_full_forward_pass(family, tmp_path):
    model = tiny(SERVED[family]())
    engine = TransformersEngine.load(EngineConfig(model=saved(model, tmp_path)))

    assert engine.info.self_test_tokens == 55
    for prompt_ids, sequence, is_greedy in sequences(engine):
        ids = torch.tensor([[*prompt_ids, *sequence.token_ids]])
        with torch.inference_mode():
            whole = model(input_ids=ids, use_cache=False).logits[0, len(prompt_ids) - 1 : -1]
        expected = whole.log_softmax(-1)
        of_tokens = expected.gather(1, ids[0, len(prompt_ids) :, None])[:, 0]
        ours = torch.tensor(sequence.token_logprobs, dtype=torch.float32)

        torch.testing.assert_close(ours, of_tokens, atol=2e-4, rtol=0)
        if is_greedy:
            assert sequence.num_tokens == NUM_TOKENS
            torch.testing.assert_close(of_tokens, expected.max(-1).values, atol=2e-4, rtol=0)


@pytest.mark.parametrize(("config", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_model_that_is_not_served_rightly_is_refused_in_words(config, reason, tmp_path):
    path = saved(tiny(config()), tmp_path)

    with pytest.raises(ModelNotLoaded, match=f"{reason}.*COCOA_GENERATION__URL"):
        TransformersEngine.load(EngineConfig(model=path))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("family", "scale", "at_once"), [("Jamba", 8, 1), ("Zamba", 24, 1), ("Qwen3-Next", 4, 64)]
)
def test_given_answers_are_read_token_by_token_where_a_pass_over_several_forgets(
    family, scale, at_once, dtype
):
    assert self_tested(tiny(SERVED[family](), scale).to(dtype)).answer_tokens == at_once


def test_blocks_that_stand_in_no_list_are_not_shown_for_light(tmp_path):
    path = saved(tiny(SERVED["ModernBERT's decoder"]()), tmp_path)

    assert TransformersEngine.load(EngineConfig(model=path)).info.num_layers == 0


class Forgetful(hf.LlamaForCausalLM):
    """Takes a past and ignores it, as a model may whose `forward` takes any keyword."""

    def forward(self, input_ids=None, past_key_values=None, position_ids=None, **options):
        return super().forward(input_ids=input_ids, **{**options, "attention_mask": None})


def self_tested(model):
    wanted = self_test.expected_logits(model)
    cache = RowCache(model)
    self_test.check_agreement(cache, wanted)
    return cache


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_model_that_differs_from_its_own_full_forward_pass_is_refused(dtype):
    model = Forgetful(CONFIGS["llama"]).eval().to(dtype)

    with pytest.raises(ModelNotLoaded, match="differ from its own full forward pass"):
        self_tested(model)


@pytest.mark.parametrize("family", ["Llama", "Qwen3-Next"])
def test_the_self_test_takes_at_most_24_forward_passes_and_leaves_no_rows(family):
    model, calls = tiny(SERVED[family]()), []
    model.register_forward_pre_hook(lambda *_: calls.append(1))
    cache = self_tested(model)

    assert 0 < len(calls) <= 24
    assert cache.lengths == []


def test_the_self_test_reads_texts_that_begin_as_texts_do():
    model, begun = tiny(SERVED["Llama"]()), []
    model.register_forward_pre_hook(
        lambda _, __, given: begun.append(int(given["input_ids"][0, 0])), with_kwargs=True
    )
    self_test.expected_logits(model)

    assert begun == [_TOKENS["bos_token_id"]] * 2


def test_half_precision_passes_the_self_test():
    for family in ("Llama", "Gemma 2", "Gemma 3", "Qwen3-MoE", "GPT-2"):
        self_tested(tiny(SERVED[family]()).to(torch.bfloat16))


def without(folder, name):
    """Delete a weight of a saved checkpoint."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    del tensors[name]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def test_a_causal_model_with_missing_weights_is_refused(tmp_path):
    path = saved(tiny(SERVED["Llama"]()), tmp_path)
    without(tmp_path, "model.layers.1.mlp.up_proj.weight")

    with pytest.raises(ModelNotLoaded, match=r"lacks 1 weights of a LlamaForCausalLM.*up_proj"):
        TransformersEngine.load(EngineConfig(model=path))


def test_tied_weights_are_not_missing(tmp_path):
    model = tiny(hf.LlamaConfig(**_LLAMA, tie_word_embeddings=True))

    assert TransformersEngine.load(EngineConfig(model=saved(model, tmp_path)))


def test_an_encoder_decoder_is_refused(tmp_path):
    heads = {f"{part}_attention_heads": 2 for part in ("encoder", "decoder")}
    layers = {f"{part}_layers": 1 for part in ("encoder", "decoder")}
    config = hf.BartConfig(**_TOKENS, d_model=16, **heads, **layers)
    path = saved(hf.BartForConditionalGeneration(config), tmp_path)

    with pytest.raises(ModelNotLoaded, match="is an encoder-decoder"):
        TransformersEngine.load(EngineConfig(model=path))


def pair_model(folder, labels):
    """A saved classifier of pairs without its head."""
    config = hf.RobertaConfig(
        **_HEADS, num_labels=len(labels), id2label=dict(enumerate(labels)), type_vocab_size=1
    )
    path = saved(hf.RobertaForSequenceClassification(config), folder)
    without(folder, "classifier.out_proj.weight")
    return path


def test_a_cross_encoder_with_missing_weights_is_refused(tmp_path):
    path = pair_model(tmp_path, ["similarity"])

    with pytest.raises(ModelNotLoaded, match=r"lacks 1 weights .* classifier.out_proj.weight"):
        CrossEncoderModel.load(SimilarityConfig(model=path))


def test_the_embedded_cross_encoder_is_what_sentence_transformers_loads_without_its_import(
    monkeypatch,
):
    by_library = CrossEncoderModel.load(SimilarityConfig(model=str(CROSS_ENCODER_DIR)))
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # an import of it fails

    embedded = CrossEncoderModel.load(SimilarityConfig())

    pairs = [("Paris.", "It is Paris."), ("Paris.", "Rome."), ("x " * 400, "y " * 400)]
    ours, theirs = embedded.score(pairs), by_library.score(pairs)
    np.testing.assert_array_equal(ours.values, theirs.values)
    np.testing.assert_array_equal(ours.truncated, theirs.truncated)
    for name in ("flags", "max_length", "revision", "labels"):
        assert getattr(embedded, name) == getattr(by_library, name)


def test_an_nli_model_with_missing_weights_is_refused(tmp_path):
    path = pair_model(tmp_path, ["entailment", "neutral", "contradiction"])

    with pytest.raises(ModelNotLoaded, match=r"lacks 1 weights .* classifier.out_proj.weight"):
        NliModel.load(NliConfig(model=path))
