#!/usr/bin/env bash
# transformers 5.23, tiny random models, float32: what a model reads behind its cache is not what it reads whole.
# Jamba forgets its past where several tokens follow the cache at once, and not one by one; Nemotron-H decodes one by
# one without the least time step that it reads with. Who scores a given answer behind a cached prompt (the first), or
# takes log-probs from generate (the second), gets other numbers than those of a full pass, without a word.
#   seen: jamba: differs by 0.00000 one by one, 0.04657 at once; nemotron_h: 0.00106 one by one, 0.00000 at once
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "torch==2.13.0" "transformers==5.23.0"
"$folder/venv/bin/python" - <<'PYTHON'
import torch
from transformers import AutoModelForCausalLM, DynamicCache, JambaConfig, NemotronHConfig

sizes = {"vocab_size": 260, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
sizes |= {"intermediate_size": 64, "num_hidden_layers": 2, "pad_token_id": 1}
configs = {
    "jamba": JambaConfig(
        **sizes, mamba_d_state=8, mamba_dt_rank=2, attn_layer_period=2, attn_layer_offset=1
    ),
    "nemotron_h": NemotronHConfig(
        **sizes, ssm_state_size=8, mamba_num_heads=4, mamba_head_dim=16, n_groups=1,
        layers_block_type=["linear_attention", "full_attention"], time_step_min=0.05,
    ),
}
ids = (torch.arange(20) * 7919 % 260)[None]
found = {}
for name, config in configs.items():
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.inference_mode():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(8)
        whole = model(input_ids=ids, use_cache=False).logits[0, 11:]

        def behind_a_prompt(width):
            cache, read = DynamicCache(config=config), []
            model(input_ids=ids[:, :11], past_key_values=cache, use_cache=True)
            for at in range(11, 20, width):
                part = ids[:, at : at + width]
                read.append(model(input_ids=part, past_key_values=cache, use_cache=True).logits[0])
            spread = (whole - whole.mean(-1, keepdim=True)).norm()
            return float((torch.cat(read) - whole).norm() / spread)

        found[name] = behind_a_prompt(1), behind_a_prompt(9)
    print(f"{name}: differs by {found[name][0]:.5f} one by one, {found[name][1]:.5f} at once")
one_by_one, at_once = zip(*found.values())
assert one_by_one[0] < 1e-4 < at_once[0], "Jamba has changed"
assert at_once[1] < 1e-4 < one_by_one[1], "Nemotron-H has changed"
PYTHON
