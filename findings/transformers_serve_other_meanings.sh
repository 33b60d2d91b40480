#!/usr/bin/env bash
# `transformers serve` 5.24 gives two fields of OpenAI's API other meanings. A `stop` string ends the answer and stays in
# it, where OpenAI, vLLM and llama-server cut it off, so that an answer that is parsed or compared has a tail more. And
# `frequency_penalty: p` is a repetition penalty of 1 + p, which weakens all tokens of the prompt as well, however often
# they stand, where OpenAI's grows with the number of times that the answer has a token. The status is 200.
#   seen: 'dWxhqopcdWxh' up to "x": 'dWx'; frequency_penalty .5 as generate(repetition_penalty=1.5): True
set -euo pipefail
folder=$(mktemp -d); server=""; trap 'kill ${server:+"$server"} 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "torch==2.13.0" "transformers[serving]==5.24.0" "tokenizers==0.23.3"
export HF_HUB_OFFLINE=1 HF_HOME="$folder/home"
port=$("$folder/venv/bin/python" - "$folder" <<'PYTHON'
import socket
import string
import sys

import torch
from tokenizers import Tokenizer, decoders, models
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

vocabulary = {"</s>": 0} | {letter: i + 1 for i, letter in enumerate(string.ascii_letters)}
config = LlamaConfig(
    vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
    num_attention_heads=4, num_key_value_heads=2, eos_token_id=0, pad_token_id=0,
)
torch.manual_seed(0)
model = AutoModelForCausalLM.from_config(config)
backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
backend.decoder = decoders.Fuse()
with torch.no_grad():
    model.lm_head.weight.mul_(40)[0] = 0  # no answer ends by itself
model.save_pretrained(sys.argv[1])
PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>").save_pretrained(sys.argv[1])
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

from transformers import AutoModelForCausalLM, AutoTokenizer

folder, url = sys.argv[1], f"http://127.0.0.1:{sys.argv[2]}"
for _ in range(60):
    try:
        urlopen(f"{url}/health", timeout=5)
        break
    except URLError:
        time.sleep(1)


def ask(**fields):
    body = {"model": folder, "prompt": "abc", "max_tokens": 12, "temperature": 0} | fields
    request = Request(f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urlopen(request, timeout=60))["choices"][0]["text"]


model = AutoModelForCausalLM.from_pretrained(folder).eval()
tokenizer = AutoTokenizer.from_pretrained(folder)
asked = tokenizer("abc", return_tensors="pt")
told = model.generate(**asked, max_new_tokens=12, do_sample=False, repetition_penalty=1.5)
repetition = tokenizer.decode(told[0, 3:])
plain, penalised = ask(), ask(frequency_penalty=0.5)
stop = plain[2]
until = ask(stop=[stop])
print(f'{plain!r} up to "{stop}": {until!r};', end=" ")
print(f"frequency_penalty .5 as generate(repetition_penalty=1.5): {penalised == repetition}")
assert until == plain[: plain.index(stop) + 1], "transformers serve has changed"
assert penalised == repetition != plain, "transformers serve has changed"
PYTHON
