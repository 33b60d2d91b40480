#!/usr/bin/env bash
# transformers 5.24, a minor release, calls the cache of a causal model `cache`: its `forward` shows `past_key_values` no
# more, in no family. The old keyword is still taken, with a FutureWarning, by a decorator that the signature does not
# show. So a program that looks by `inspect.signature` whether a model reads a cache, as one does before it hands one
# on, finds that no model does. Mamba's `cache_params` has become `cache`, too, so all families have one name now.
#   seen: 5.23.0: Llama past_key_values, GPT-2 past_key_values, Mamba cache_params, old keyword: no warning
#         5.24.0: Llama cache, GPT-2 cache, Mamba cache, old keyword: FutureWarning, equal logits
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
for version in 5.23.0 5.24.0; do
  "$folder/venv/bin/pip" install -q "torch==2.13.0" "transformers==$version"
  HF_HUB_OFFLINE=1 HF_HOME="$folder/home" "$folder/venv/bin/python" - <<'PYTHON'
import inspect
import warnings

import torch
import transformers as hf

sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1}
configs = {
    "Llama": hf.LlamaConfig(**sizes, intermediate_size=32, num_attention_heads=2),
    "GPT-2": hf.GPT2Config(vocab_size=64, n_embd=32, n_layer=1, n_head=2),
    "Mamba": hf.MambaConfig(**sizes, state_size=4),
}
found = {}
for name, config in configs.items():
    model = hf.AutoModelForCausalLM.from_config(config).eval()
    shown = inspect.signature(model.forward).parameters
    [found[name]] = [one for one in ("past_key_values", "cache_params", "cache") if one in shown]

model = hf.AutoModelForCausalLM.from_config(configs["Llama"]).eval()
ids = torch.arange(8)[None]
with torch.inference_mode(), warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    cache = hf.DynamicCache(config=model.config)
    model(input_ids=ids[:, :5], past_key_values=cache)
    read_on = model(input_ids=ids[:, 5:], past_key_values=cache).logits
    whole = model(input_ids=ids, use_cache=False).logits[:, 5:]
kinds = {one.category.__name__ for one in told if "past_key_values" in str(one.message)}
print(f"{hf.__version__}: {found}, old keyword: {kinds or 'no warning'}")
torch.testing.assert_close(read_on, whole, atol=1e-4, rtol=0)
if hf.__version__ == "5.23.0":
    wanted = {"Llama": "past_key_values", "GPT-2": "past_key_values", "Mamba": "cache_params"}
    assert found == wanted and not kinds, "transformers has changed"
else:
    assert set(found.values()) == {"cache"} and kinds == {"FutureWarning"}, "transformers has changed"
PYTHON
done
