#!/usr/bin/env bash
# llama-server (of xllamacpp 2026.10.11549) answers one greedy request with other log-probs the second time, by a tenth
# of a nat with weights of four bits: it has read a prompt of 64 tokens at once, and has kept it by then, so that it
# reads the last token alone. With `cache_prompt: false` both replies are equal, and so they are with prompts of 16
# tokens. Whoever compares log-probs of two requests compares this noise, too.
#   seen: the second time 0.0810 nats off, both read anew 0.0000 (weights in float32: 0.0062)
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
width, inner, blocks = 256, 512, 4
writer = gguf.GGUFWriter(sys.argv[1], "llama")
writer.add_context_length(512)
writer.add_embedding_length(width)
writer.add_block_count(blocks)
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
norms = ["output_norm"]
for block in range(blocks):
    shapes |= {f"blk.{block}.attn_{part}": (width, width) for part in ("q", "k", "v", "output")}
    shapes |= {f"blk.{block}.ffn_{part}": (inner, width) for part in ("gate", "up")}
    shapes |= {f"blk.{block}.ffn_down": (width, inner)}
    norms += [f"blk.{block}.attn_norm", f"blk.{block}.ffn_norm"]
random = np.random.default_rng(0)
four_bits = gguf.GGMLQuantizationType.Q4_0
for name, shape in shapes.items():
    weights = random.normal(0, 0.1, shape).astype(np.float32)
    small = gguf.quants.quantize(weights, four_bits)
    writer.add_tensor(f"{name}.weight", small, raw_dtype=four_bits)
for name in norms:
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
params.model.path, params.port, params.n_ctx = sys.argv[1], int(sys.argv[2]), 512
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


def likeliest(**more):
    asked = {"prompt": list(range(40, 104)), "n_predict": 1, "n_probs": 20, "temperature": 0, "ignore_eos": True}
    [first] = ask("completion", **asked, **more)["completion_probabilities"]
    return {one["id"]: one["logprob"] for one in first["top_logprobs"]}


def apart(one, other):
    return max(abs(one[name] - other[name]) for name in one.keys() & other.keys())


read, kept = likeliest(), likeliest()
anew = [likeliest(cache_prompt=False) for _ in range(2)]
print(f"the second time {apart(read, kept):.4f} nats off, both read anew {apart(*anew):.4f}")
assert apart(read, kept) > 1e-3 > apart(*anew), "llama-server has changed"
PYTHON
