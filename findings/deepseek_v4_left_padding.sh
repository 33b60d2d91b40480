#!/usr/bin/env bash
# transformers 5.24, DeepSeek V4: in a batch that is padded on the left, with its attention mask and its positions, as
# `generate` pads, the shorter text has other logits than alone. Its compressed attention makes one entry of each so
# many columns, padding among them, and the mask does not reach these. Nothing warns, and other families with linear or
# sparse attention (MiniMax, Jamba, DeepSeek V3.2) are right. Here is a tiny random model in float32.
#   seen: nats between log-probs alone and behind padding: 3 columns 0.14, 4 columns 0.16; DeepSeek V3.2 0, 0
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "torch==2.13.0" "numpy==2.4.6" "transformers==5.24.0"
HF_HUB_OFFLINE=1 HF_HOME="$folder/home" "$folder/venv/bin/python" - <<'PYTHON'
import torch
import transformers as hf

sizes = {
    "vocab_size": 260, "hidden_size": 64, "moe_intermediate_size": 32, "num_attention_heads": 4,
    "num_key_value_heads": 4, "q_lora_rank": 16, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "index_n_heads": 4, "index_head_dim": 16, "max_position_embeddings": 512, "pad_token_id": 1,
}
newer = hf.DeepseekV4Config(
    **sizes | {"num_key_value_heads": 1}, head_dim=16, o_lora_rank=16, sliding_window=8,
    num_hidden_layers=2, layer_types=["heavily_compressed_attention", "compressed_sparse_attention"],
)
older = hf.DeepseekV32Config(
    **sizes, intermediate_size=32, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=16,
    v_head_dim=16, num_hidden_layers=2, first_k_dense_replace=1, n_group=2, topk_group=2,
)


def differences(config):
    torch.manual_seed(0)
    model = hf.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(4)  # log-probs that are far from even
    ids = torch.randint(2, 250, (1, 40))

    def last(num_padding):
        padding = torch.full((1, num_padding), 1)
        mask = torch.cat([torch.zeros_like(padding), torch.ones_like(ids)], 1)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        padded = torch.cat([padding, ids], 1)
        with torch.no_grad():
            told = model(input_ids=padded, attention_mask=mask, position_ids=positions, use_cache=False)
        return told.logits[0, -1].log_softmax(-1)

    return [(last(num) - last(0)).abs().max().item() for num in (3, 4)]


new, old = differences(newer), differences(older)
print("nats between log-probs alone and behind padding:", end=" ")
print("3 columns {:.2g}, 4 columns {:.2g};".format(*new), "DeepSeek V3.2 {:.2g}, {:.2g}".format(*old))
assert min(new) > 0.01 and max(old) < 1e-3, "transformers has changed"
PYTHON
