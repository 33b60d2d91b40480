#!/usr/bin/env bash
# openai 3.57.0 for Python, `client.chat.completions.stream(...)`, puts a streamed chat together by rules for the fields
# it knows. Of those that a server adds it gives values that no chunk had: within a delta numbers are added up (a score
# of .5 that two chunks repeat is 1.0), booleans too, and text is joined; of the chunk and of the choice the first value
# stays, so that what a server tells at the end (its timings, why it stopped, how sure the model was) is lost.
#   seen: score 1.0, done 1, phase "thinkinganswer", choice's stop_reason None, timings {'tokens': 0}
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "openai==3.57.0"
"$folder/venv/bin/python" - <<'PYTHON'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from openai import OpenAI


def chunk(delta, tokens, finish_reason=None, **of_choice):
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, **of_choice}
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
    return head | {"choices": [choice], "timings": {"tokens": tokens}}


CHUNKS = [
    chunk({"role": "assistant", "content": ""}, 0, stop_reason=None),
    chunk({"content": "Pa", "score": 0.5, "done": False, "phase": "thinking"}, 1),
    chunk({"content": "ris", "score": 0.5, "done": True, "phase": "answer"}, 2),
    chunk({}, 2, "stop", stop_reason="</s>"),
]


class Server(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for told in [*map(json.dumps, CHUNKS), "[DONE]"]:
            self.wfile.write(f"data: {told}\n\n".encode())

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
client = OpenAI(base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none")
asked = [{"role": "user", "content": "What is the capital of France?"}]
with client.chat.completions.stream(model="tiny", messages=asked) as stream:
    together = stream.get_final_completion().to_dict()
[choice] = together["choices"]
message = choice["message"]
assert message["content"] == "Paris" and choice["finish_reason"] == "stop"
print(f"score {message['score']}, done {message['done']}, phase {message['phase']!r}")
print(f"choice's stop_reason {choice.get('stop_reason')}, timings {together['timings']}")
told = message["score"], message["done"], message["phase"]
assert told == (1.0, 1, "thinkinganswer"), "openai has changed"
assert choice.get("stop_reason") is None, "openai has changed"
assert together["timings"] == {"tokens": 0}, "openai has changed"
PYTHON
