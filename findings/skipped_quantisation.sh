#!/usr/bin/env bash
# transformers 5.23 loads a checkpoint whose quant_method it does not know (NVIDIA's ModelOpt writes "modelopt"): it
# skips the method with a warning, takes the float8 numbers for weights, and reports no missing weights. The scales are
# among the unexpected keys, which `from_pretrained` only logs. A model of the hub's "-FP8" answers noise.
#   seen: missing 0, unexpected 7, weights up to 448.0 in place of 0.08
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "torch==2.13.0" "transformers==5.23.0" "safetensors==0.8.0"
"$folder/venv/bin/python" - "$folder/model" <<'PYTHON'
import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig

folder = Path(sys.argv[1])
config = LlamaConfig(
    vocab_size=260, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
    num_attention_heads=4, num_key_value_heads=2,
)
torch.manual_seed(0)
AutoModelForCausalLM.from_config(config).save_pretrained(folder)
weights = load_file(folder / "model.safetensors")
largest = max(weight.detach().abs().max() for key, weight in weights.items() if "proj" in key)
for key in [key for key in weights if key.endswith("proj.weight")]:
    scale = weights[key].abs().max() / 448
    weights[key.replace("weight", "weight_scale")] = scale
    weights[key] = (weights[key] / scale).to(torch.float8_e4m3fn)
save_file(weights, folder / "model.safetensors", {"format": "pt"})
written = json.loads((folder / "config.json").read_text())
written["quantization_config"] = {"quant_method": "modelopt", "quant_algo": "FP8"}
(folder / "config.json").write_text(json.dumps(written))
model, loading = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
read = max(weight.detach().abs().max() for name, weight in model.named_parameters() if "proj" in name)
missing, unexpected = len(loading["missing_keys"]), len(loading["unexpected_keys"])
print(f"missing {missing}, unexpected {unexpected}, weights to {read:.1f} for {largest:.2f}")
assert (missing, unexpected, float(read)) == (0, 7, 448.0), "transformers has changed"
PYTHON
