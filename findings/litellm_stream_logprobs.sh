#!/usr/bin/env bash
# LiteLLM 1.110.2: the chunks of a streamed chat have the log-probs that the server told, and the whole that
# `stream_chunk_builder` makes of them, as its callbacks, logs and caches get it, has none. So whoever scores answers by
# their log-probs has them of every answer but the streamed ones, and no warning. Unstreamed they are there.
#   seen: unstreamed 2 log-probs, in the chunks 2, in the whole of these None
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "litellm==1.110.2"
LITELLM_LOCAL_MODEL_COST_MAP=True "$folder/venv/bin/python" - <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import litellm

PIECES = [("Pa", -0.25), ("ris", -0.125)]
HEAD = {"id": "1", "created": 1, "model": "tiny"}


def entries(pieces):
    told = [{"token": text, "logprob": one, "bytes": None, "top_logprobs": []} for text, one in pieces]
    return {"content": told, "refusal": None}


def chunk(delta, pieces=(), finish_reason=None):
    choice = {"index": 0, "delta": delta, "logprobs": entries(pieces) if pieces else None}
    return HEAD | {
        "object": "chat.completion.chunk",
        "choices": [choice | {"finish_reason": finish_reason}],
    }


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        kind = "text/event-stream" if body.get("stream") else "application/json"
        self.send_header("Content-Type", kind)
        self.end_headers()
        if not body.get("stream"):
            message = {"role": "assistant", "content": "Paris"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            choice["logprobs"] = entries(PIECES)
            usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
            whole = HEAD | {"object": "chat.completion", "choices": [choice], "usage": usage}
            self.wfile.write(json.dumps(whole).encode())
            return
        chunks = [chunk({"role": "assistant", "content": ""})]
        chunks += [chunk({"content": piece[0]}, [piece]) for piece in PIECES]
        for told in [*map(json.dumps, [*chunks, chunk({}, (), "stop")]), "[DONE]"]:
            self.wfile.write(f"data: {told}\n\n".encode())

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
asked = {
    "model": "openai/tiny",
    "api_base": f"http://127.0.0.1:{server.server_port}/v1",
    "api_key": "none",
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
    "logprobs": True,
}
unstreamed = litellm.completion(**asked).choices[0].logprobs
chunks = list(litellm.completion(**asked, stream=True))
told = [one.choices[0].logprobs for one in chunks if getattr(one.choices[0], "logprobs", None)]
whole = litellm.stream_chunk_builder(chunks)
assert whole.choices[0].message.content == "Paris"
left = getattr(whole.choices[0], "logprobs", None)
print(f"unstreamed {len(unstreamed.content)} log-probs, in the chunks {len(told)}, in the whole of these {left}")
assert len(unstreamed.content) == len(told) == 2 and left is None, "LiteLLM has changed"
PYTHON
