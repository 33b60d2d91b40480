"""Language models with random weights, small enough for a test, and a tokenizer made on demand."""

import copy
import string
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BertModel,
    GPT2Config,
    GptOssConfig,
    Lfm2Config,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "[{{ m.role }}]{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}[{{ tag | default('assistant') }}]{% endif %}"
)
# Shows a model the names of tools, and writes calls as Qwen's does.
TOOL_TEMPLATE = """
{%- for m in messages %}[{{ m.role }}]{{ m.content }}
{%- for c in m.tool_calls or [] %}<tool_call>{"name": "{{ c.function.name }}", "arguments": {{
c.function.arguments | tojson }}}</tool_call>{% endfor %}
{%- endfor %}{{ tools | map(attribute='function.name') | join if tools }}
{%- if add_generation_prompt %}[assistant]{% endif %}"""


def byte_tokenizer(*, chat_template: str | None = CHAT_TEMPLATE) -> PreTrainedTokenizerFast:
    """One token a byte, with BOS added once in front."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {
        "<s>": 0,
        "</s>": 1,
        "<|end|>": 2,
        **{char: i + 3 for i, char in enumerate(alphabet)},
    }
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=["<|end|>"],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = chat_template
    return tokenizer


_SIZES = {
    "vocab_size": 259,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
    "max_position_embeddings": 512,
}
LLAMA_LIKE = {
    **_SIZES,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
CONFIGS: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**LLAMA_LIKE),
    "long": LlamaConfig(**LLAMA_LIKE | {"max_position_embeddings": 2048}),
    "gpt2": GPT2Config(
        vocab_size=259,
        n_embd=48,
        n_layer=3,
        n_head=4,
        n_positions=512,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    ),
    "qwen2": Qwen2Config(**LLAMA_LIKE),
    "sliding": MistralConfig(**LLAMA_LIKE, sliding_window=8),
    "experts": GptOssConfig(**LLAMA_LIKE, head_dim=12, num_local_experts=2, num_experts_per_tok=1),
    "hybrid": Lfm2Config(**LLAMA_LIKE, layer_types=["conv", "full_attention", "conv"]),
}


def random_model(name: str, *, seed: int = 0, scale: float = 6.0) -> PreTrainedModel:
    """A model with random weights; `scale` sharpens its logits, so texts end and differ."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(copy.deepcopy(CONFIGS[name])).eval()
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(scale)
    model.generation_config.pad_token_id = 1
    return model


def tiny_encoder(folder: Path) -> None:
    """Write a sentence-transformers model with random weights, one token a letter.

    It reads 256 tokens of a text.
    """
    words = {name: i for i, name in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])}
    for letter in string.ascii_letters + string.digits + string.punctuation + "äöüß":
        words[letter] = len(words)
        words[f"##{letter}"] = len(words)
    backend = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", model_max_length=256
    )
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=256,
        initializer_range=1.0,
    )
    torch.manual_seed(0)
    BertModel(config, add_pooling_layer=False).save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")
    transformer = Transformer(str(folder / "bert"))
    pooling = Pooling(transformer.get_embedding_dimension())
    SentenceTransformer(modules=[transformer, pooling]).save_pretrained(str(folder))
