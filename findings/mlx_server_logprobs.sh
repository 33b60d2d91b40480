#!/usr/bin/env bash
# mlx_lm.server 0.32.2 (mlx 0.32.4 on a CPU of Linux): with `top_logprobs: k` the `token` and `logprob` of an entry are
# those of the first of the k likeliest, not of the token in the text, and the k are not sorted. So a drawn text has the
# log-probs of another one, and with k above 1 the greedy text, too. Without `top_logprobs` ids and log-probs are right.
# Who sums the entries to score an answer, as with OpenAI's, gets another number, with status 200 and no warning. Here a
# tiny random model has a token a letter.
#   seen: temperature 0: text cccccccc, entries ccycccyc, sum -12.863 for -10.324
#   seen: temperature 1: text ccdAwKKo, entries ccyANonn, sum -17.808 for -24.212
set -euo pipefail
folder=$(mktemp -d); server=""; trap 'kill ${server:+"$server"} 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "mlx-lm==0.32.2" "mlx[cpu]==0.32.4" "transformers==5.24.0" "tokenizers==0.23.3"
export HF_HUB_OFFLINE=1 HF_HOME="$folder/home"
port=$("$folder/venv/bin/python" - "$folder/model" <<'PYTHON'
import json
import socket
import string
import sys
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models import llama
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

folder = Path(sys.argv[1])
vocabulary = {"</s>": 0} | {letter: i + 1 for i, letter in enumerate(string.ascii_letters)}
config = {"model_type": "llama", "vocab_size": len(vocabulary), "eos_token_id": 0}
config |= {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
config |= {"num_attention_heads": 4, "rms_norm_eps": 1e-5}
backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
backend.decoder = decoders.Fuse()
template = "{{ messages[0].content }}"
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=backend, eos_token="</s>", chat_template=template
)
tokenizer.save_pretrained(folder)
(folder / "config.json").write_text(json.dumps(config))
mx.random.seed(0)
model = llama.Model(llama.ModelArgs.from_dict(config))
mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(model.parameters())))
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    print(free.getsockname()[1])
PYTHON
)
"$folder/venv/bin/mlx_lm.server" --model "$folder/model" --port "$port" &> "$folder/log" & server=$!
"$folder/venv/bin/python" - "$port" <<'PYTHON' || { cat "$folder/log"; exit 1; }
import json
import string
import sys
import time
from urllib.error import URLError
from urllib.request import Request, urlopen

url = f"http://127.0.0.1:{sys.argv[1]}"
for _ in range(60):
    try:
        urlopen(f"{url}/health", timeout=5)
        break
    except URLError:
        time.sleep(1)


def ask(**more):
    body = {"messages": [{"role": "user", "content": "abc"}], "max_tokens": 8, "seed": 1}
    body = json.dumps(body | {"logprobs": True} | more).encode()
    request = Request(f"{url}/v1/chat/completions", body, {"Content-Type": "application/json"})
    choice = json.load(urlopen(request, timeout=60))["choices"][0]
    return choice["message"]["content"], choice["logprobs"]["content"]


for temperature in (0, 1):
    text, entries = ask(temperature=temperature, top_logprobs=3)
    same, right = ask(temperature=temperature)
    assert same == text == "".join(string.ascii_letters[one["id"] - 1] for one in right)
    told = "".join(one["token"] for one in entries)
    sums = [sum(one["logprob"] for one in listed) for listed in (entries, right)]
    print(f"temperature {temperature}: text {text}, entries {told}", end=", ")
    print(f"sum {sums[0]:.3f} for {sums[1]:.3f}")
    assert len(told) == len(text) and told != text, "mlx_lm.server has changed"
    assert abs(sums[0] - sums[1]) > 0.1, "mlx_lm.server has changed"
    likeliest = [max(one["top_logprobs"], key=lambda top: top["logprob"]) for one in entries]
    assert told != "".join(one["token"] for one in likeliest), "mlx_lm.server has changed"
PYTHON
