#!/usr/bin/env bash
# llama-server (of xllamacpp 2026.10.11549) writes `n` answers to one request, and counts one of them: in `usage` and in
# `timings` stand the tokens of a single choice. So a bill, a rate or a check that holds the listed tokens against
# `completion_tokens` is wrong by a factor of n, in chats and completions. OpenAI's API counts all choices, as vLLM does.
#   seen: n 1: 8 tokens listed, 8 counted; n 3: 24 tokens listed, 8 counted
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
params.cpuparams.n_threads, params.n_parallel = 1, 3
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


for num in (1, 3):
    asked = {"prompt": list(b"Hello"), "max_tokens": 8, "logprobs": 1, "n": num}
    reply = ask("v1/completions", **asked, grammar="root ::= [a-z]{20}")  # a token a letter
    assert len(reply["choices"]) == num
    listed = sum(len(one["logprobs"]["content"]) for one in reply["choices"])
    usage, timings = reply["usage"]["completion_tokens"], reply["timings"]["predicted_n"]
    print(f"n {num}: {listed} tokens listed, {usage} counted", end="; " if num == 1 else "\n")
    assert usage == timings == 8 and listed == 8 * num, "llama-server has changed"
PYTHON
