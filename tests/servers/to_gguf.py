"""A checkpoint of the embedded language models as GGUF, which llama.cpp reads.

Runs in the environment of the server, which has `gguf`: `python to_gguf.py CHECKPOINT OUT`.
"""

import json
import sys
from pathlib import Path

import gguf
import numpy as np

# Where GGUF puts what transformers calls so.
_TENSORS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def main(checkpoint: Path, out: Path) -> None:
    config = json.loads((checkpoint / "config.json").read_text())
    writer = gguf.GGUFWriter(str(out), "llama")
    writer.add_name("embedded")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_vocab_size(config["vocab_size"])
    _add_tokenizer(writer, checkpoint, config)
    for name, values in _weights(checkpoint / "model.safetensors").items():
        if "q_proj" in name or "k_proj" in name:
            values = _interleaved(values, config["num_attention_heads"])
        writer.add_tensor(_name(name), np.ascontiguousarray(values.astype(np.float32)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: gguf.GGUFWriter, checkpoint: Path, config: dict) -> None:
    tokenizer = json.loads((checkpoint / "tokenizer.json").read_text())
    vocabulary, merges = tokenizer["model"]["vocab"], tokenizer["model"]["merges"]
    added = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    by_id = {i: text for text, i in (vocabulary | added).items()}
    tokens = [by_id[i] for i in range(config["vocab_size"])]
    kinds = [gguf.TokenType.CONTROL if one in added else gguf.TokenType.NORMAL for one in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([one if isinstance(one, str) else " ".join(one) for one in merges])
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_pad_token_id(config["pad_token_id"])
    writer.add_add_bos_token(True)


def _weights(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a safetensors file of float32."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    found = {}
    for name, about in json.loads(content[8 : 8 + size]).items():
        if name != "__metadata__":
            first, last = (8 + size + offset for offset in about["data_offsets"])
            dtype = {"F32": np.float32, "F16": np.float16}[about["dtype"]]
            found[name] = np.frombuffer(content[first:last], dtype).reshape(about["shape"])
    return found


def _interleaved(weights: np.ndarray, num_heads: int) -> np.ndarray:
    """Rows in llama.cpp's order, which rotates neighbours where transformers rotates halves."""
    halves = weights.reshape(num_heads, 2, -1, weights.shape[1])
    return halves.swapaxes(1, 2).reshape(weights.shape)


def _name(name: str) -> str:
    whole = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
    }
    if name in whole:
        return whole[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{_TENSORS[rest.removesuffix('.weight')]}.weight"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
