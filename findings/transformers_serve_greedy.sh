#!/usr/bin/env bash
# `transformers serve` 5.23 takes a temperature and does not draw by it, unless the checkpoint's generation_config.json
# says `do_sample: true`, which that of most base models does not: a request's temperature sets `temperature`, and not
# `do_sample`. With status 200 and no warning all draws are the greedy answer, so their diversity measures nothing.
#   seen: as saved: 1 different in 8 draws at temperature 2, that at 0; with do_sample: 8 different in 8 draws
set -euo pipefail
folder=$(mktemp -d); server=""; trap 'kill ${server:+"$server"} 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "torch==2.13.0" "transformers[serving]==5.23.0" "tokenizers==0.23.3"
export HF_HUB_OFFLINE=1 HF_HOME="$folder/home"
port=$("$folder/venv/bin/python" - "$folder" <<'PYTHON'
import json
import socket
import string
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, models
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

vocabulary = {"</s>": 0} | {letter: i + 1 for i, letter in enumerate(string.ascii_letters)}
config = LlamaConfig(
    vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
    num_attention_heads=4, num_key_value_heads=2, eos_token_id=0, pad_token_id=0,
)
torch.manual_seed(0)
model = AutoModelForCausalLM.from_config(config)
backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
for name in ["as saved", "with do_sample"]:
    folder = Path(sys.argv[1], name)
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>").save_pretrained(folder)
path = folder / "generation_config.json"
path.write_text(json.dumps(json.loads(path.read_text()) | {"do_sample": True}))
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    print(free.getsockname()[1])
PYTHON
)
"$folder/venv/bin/transformers" serve --host 127.0.0.1 --port "$port" --device cpu &> "$folder/log" & server=$!
"$folder/venv/bin/python" - "$folder" "$port" <<'PYTHON' || { cat "$folder/log"; exit 1; }
import json
import sys
import time
from urllib.error import URLError
from urllib.request import Request, urlopen

folder, url = sys.argv[1], f"http://127.0.0.1:{sys.argv[2]}"
for _ in range(60):
    try:
        urlopen(f"{url}/health", timeout=5)
        break
    except URLError:
        time.sleep(1)


def draw(name, temperature, seed):
    asked = {"model": f"{folder}/{name}", "prompt": "abc", "max_tokens": 8, "seed": seed}
    body = json.dumps(asked | {"temperature": temperature}).encode()
    request = Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
    return json.load(urlopen(request, timeout=60))["choices"][0]["text"]


def texts_of(name):
    texts = {draw(name, 2, seed) for seed in range(8)}
    print(f"{name}: {len(texts)} different in 8 draws at temperature 2")
    return texts


assert texts_of("as saved") == {draw("as saved", 0, 0)}, "transformers serve has changed"
assert len(texts_of("with do_sample")) > 1, "transformers serve has changed"
PYTHON
