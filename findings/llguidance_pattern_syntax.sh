#!/usr/bin/env bash
# llguidance 1.9.1 reads the `pattern` of a JSON Schema as Rust reads regular expressions, not as ECMA-262 does, which
# the specification names and validators follow. Patterns that mean something in both mean two things: a class in a
# class, `[a[b]]`, is a union in place of a class and a `]`, and `[[:alpha:]]` the letters. So what is held to the
# schema is invalid under it, and what is valid is never written. Nothing warns. Node 18 or later is needed to compare.
#   seen: ^[a[b]]$ holds to "b", ECMA-262 matches "b]"; ^[[:alpha:]]$ holds to "x", ECMA-262 matches ":]"
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "llguidance==1.9.1"
"$folder/venv/bin/python" - <<'PYTHON'
import json
import subprocess

from llguidance import LLMatcher, LLTokenizer

TOKENIZER = LLTokenizer("byte")


def holds_to(pattern, text):
    schema = json.dumps({"type": "string", "pattern": pattern})
    matcher = LLMatcher(TOKENIZER, LLMatcher.grammar_from_json_schema(schema))
    assert not matcher.get_error(), matcher.get_error()
    tokens = TOKENIZER.tokenize_str(json.dumps(text))
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


def matches(pattern, text):
    code = "const [pattern, text] = process.argv.slice(1); console.log(new RegExp(pattern).test(text))"
    told = subprocess.run(["node", "-e", code, pattern, text], capture_output=True, check=True, text=True)
    return told.stdout.strip() == "true"


for pattern, ours, theirs in [("^[a[b]]$", "b", "b]"), ("^[[:alpha:]]$", "x", ":]")]:
    for text, is_held in [(ours, True), (theirs, False)]:
        assert holds_to(pattern, text) is is_held, "llguidance has changed"
        assert matches(pattern, text) is not is_held, "ECMA-262 has changed"
    print(f"{pattern} holds to {json.dumps(ours)}, ECMA-262 matches {json.dumps(theirs)}")
PYTHON
