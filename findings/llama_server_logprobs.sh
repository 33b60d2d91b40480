#!/usr/bin/env bash
# llama-server (of xllamacpp 2026.10.11549) lists a character whose bytes are several tokens, as many emoji and rare
# signs are, as one entry of `logprobs.content` with the bytes of all and the log-prob of the last token alone. So the
# sum over the entries is not the log-prob of the text, and the number of entries is not that of tokens; only
# `usage.completion_tokens` tells. Here a tiny random model with a token a byte is held to "a€" by a grammar.
#   seen: 4 tokens with -2.490 -7.667 -7.565 -4.628 in 2 entries: a -2.490, € -4.628; sum -7.117 for -22.349
set -euo pipefail
folder=$(mktemp -d); server=""; trap 'kill ${server:+"$server"} 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "xllamacpp==2026.10.11549" "gguf==0.19.0" "numpy==2.4.6"
port=$("$folder/venv/bin/python" - "$folder/tiny.gguf" <<'PYTHON'
import socket
import sys

import gguf
import numpy as np

# One token a byte, each as the letter that byte-level BPE writes for it.
plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
other = [byte for byte in range(256) if byte not in plain]
tokens = [chr(byte) if byte in plain else chr(256 + other.index(byte)) for byte in range(256)]
width, inner = 32, 64
writer = gguf.GGUFWriter(sys.argv[1], "llama")
writer.add_context_length(256)
writer.add_embedding_length(width)
writer.add_block_count(1)
writer.add_feed_forward_length(inner)
writer.add_head_count(2)
writer.add_head_count_kv(2)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_rope_dimension_count(width // 2)
writer.add_vocab_size(258)
writer.add_tokenizer_model("gpt2")
writer.add_tokenizer_pre("gpt-2")
writer.add_token_list([*tokens, "He", "</s>"])
writer.add_token_types([gguf.TokenType.NORMAL] * 257 + [gguf.TokenType.CONTROL])
writer.add_token_merges(["H e"])  # llama.cpp wants one
writer.add_eos_token_id(257)
shapes = {"token_embd": (258, width), "output": (258, width)}
shapes |= {f"blk.0.attn_{part}": (width, width) for part in ("q", "k", "v", "output")}
shapes |= {"blk.0.ffn_gate": (inner, width), "blk.0.ffn_up": (inner, width)}
shapes |= {"blk.0.ffn_down": (width, inner)}
random = np.random.default_rng(0)
for name, shape in shapes.items():
    writer.add_tensor(f"{name}.weight", random.normal(0, 0.3, shape).astype(np.float32))
for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
    writer.add_tensor(f"{name}.weight", np.ones(width, np.float32))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    print(free.getsockname()[1])
PYTHON
)
"$folder/venv/bin/python" - "$folder/tiny.gguf" "$port" &> "$folder/log" <<'PYTHON' & server=$!
import sys
import threading

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path, params.port, params.n_ctx = sys.argv[1], int(sys.argv[2]), 256
params.cpuparams.n_threads = 1
server = xllamacpp.Server(params)
threading.Event().wait()
PYTHON
"$folder/venv/bin/python" - "$port" <<'PYTHON' || { cat "$folder/log"; exit 1; }
import json
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


def ask(path, **body):
    headers = {"Content-Type": "application/json"}
    request = Request(f"{url}/{path}", json.dumps(body).encode(), headers)
    return json.load(urlopen(request, timeout=60))


TEXT = "a€"  # a token a byte
prompt, grammar = list(b"Hello"), f'root ::= "{TEXT}"'
each = []  # of each token behind those before it, from the probabilities of the whole vocabulary
for at, byte in enumerate(TEXT.encode()):
    before = prompt + list(TEXT.encode()[:at])
    found = ask("completion", prompt=before, n_predict=1, n_probs=258, grammar='root ::= "a"')
    listed = found["completion_probabilities"][0]["top_logprobs"]
    each.append(next(one["logprob"] for one in listed if one["id"] == byte))
asked = {"prompt": prompt, "max_tokens": 4, "temperature": 0, "logprobs": 1, "grammar": grammar}
answer = ask("v1/completions", **asked)
assert answer["choices"][0]["text"] == TEXT
num_tokens = answer["usage"]["completion_tokens"]
entries = answer["choices"][0]["logprobs"]["content"]
print(num_tokens, "tokens with", *(f"{one:.3f}" for one in each), f"in {len(entries)} entries:")
print(", ".join(f"{one['token']} {one['logprob']:.3f}" for one in entries))
listed = [one["logprob"] for one in entries]
print(f"sum {sum(listed):.3f} for {sum(each):.3f}")
assert num_tokens == len(each) == 4, "llama-server has changed"
assert [one["token"] for one in entries] == list(TEXT), "llama-server has changed"
for told, token in zip(listed, [each[0], each[-1]], strict=True):
    assert abs(told - token) < 1e-3, "llama-server has changed"
PYTHON
