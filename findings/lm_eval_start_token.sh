#!/usr/bin/env bash
# lm-eval 0.4.13, `local-completions` with `tokenized_requests=False`, for servers that take text alone: it counts the
# context without the start token that a server puts before a text, as with the tokenizers of Llama, Gemma and Mistral.
# So the log-likelihood of a continuation holds that of the context's last token, and `is_greedy` asks for this, too.
# `add_bos_token=True` writes "<s>" into the text, the server adds another, and the sum is the same. Perplexities hold a
# start token behind a start token. Nothing warns: whoever reads these numbers gets others than by tokens.
# Here a server of some lines has a log-prob for each word: for " d e" behind "a b c" -0.75 is right, and is greedy.
#   seen: tokens -0.75 greedy; text -4.75 not; tokens with add_bos_token -0.75 greedy; text with it -4.75 not;
#   seen: rolling over "a b c": tokens -7, text -37
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "lm_eval[api]==0.4.13" "transformers==5.24.0" "tokenizers==0.23.3" "datasets==5.2.0"
export HF_HUB_OFFLINE=1 HF_HOME="$folder/home"
"$folder/venv/bin/python" - "$folder/tokenizer" 2> "$folder/log" <<'PYTHON' || { cat "$folder/log"; exit 1; }
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from lm_eval.api.instance import Instance
from lm_eval.models.openai_completions import LocalCompletionsAPI
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

# The log-prob of each word wherever it stands; "d" and "e" are the likeliest of their places.
LOGPROBS = {"<s>": -30, "a": -1, "b": -2, "c": -4, "d": -0.5, "e": -0.25}
backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(LOGPROBS)}, "a"))
backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
backend.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>").save_pretrained(sys.argv[1])
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
assert tokenizer("a b").input_ids == [0, 1, 2]  # a text gets its start token


class Server(BaseHTTPRequestHandler):
    """Completions with `echo`, `logprobs: 1` and `max_tokens: 1`."""

    def do_POST(self):
        prompt = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["prompt"]
        ids = tokenizer(prompt).input_ids if isinstance(prompt, str) else prompt[0]
        words = [*tokenizer.convert_ids_to_tokens(ids), "a"]
        listed = [None, *(LOGPROBS[word] for word in words[1:])]
        top = [None]
        for word in words[1:]:
            top.append({word: LOGPROBS[word]} if word in "de" else {"x": -0.1})
        logprobs = {"tokens": words, "token_logprobs": listed, "top_logprobs": top}
        choice = {"index": 0, "text": " ".join(words), "logprobs": logprobs}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"choices": [choice]}).encode())

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()


def model(**options):
    return LocalCompletionsAPI(
        base_url=f"http://127.0.0.1:{server.server_port}/v1/completions", model="tiny",
        tokenizer=sys.argv[1], tokenizer_backend="huggingface", max_retries=1, **options,
    )


def instance(kind, *arguments):
    return Instance(request_type=kind, doc={}, arguments=arguments, idx=0)


found = []
for adds in (False, True):
    for as_tokens in (True, False):
        scored = model(tokenized_requests=as_tokens, add_bos_token=adds)
        [(total, greedy)] = scored.loglikelihood([instance("loglikelihood", "a b c", " d e")])
        print(f"tokens {as_tokens}, add_bos_token {adds}: {total}, {greedy=}")
        found.append((total, greedy))
assert found == [(-0.75, True), (-4.75, False)] * 2, "lm-eval has changed"
rolling = []
for as_tokens in (True, False):
    scored = model(tokenized_requests=as_tokens)
    rolling += scored.loglikelihood_rolling([instance("loglikelihood_rolling", "a b c")])
print("rolling over a text: tokens {}, text {}".format(*rolling))
assert rolling == [-7.0, -37.0], "lm-eval has changed"
PYTHON
