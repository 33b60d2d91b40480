#!/usr/bin/env bash
# llguidance 1.9.1 lets a number equal an exclusive bound, where that is whole and the other bound has the same whole
# part: of (0, 0.5] it takes 0, of (1, 1.5] 1, of [-0.5, 0) -0. With any other bound, (0, 2] or (0.1, 0.5], it keeps
# to it. So an answer that was "held to" a schema is not valid under it.
#   seen: (0, 0.5] takes 0; (1, 1.5] takes 1; [-0.5, 0) takes -0; (0, 2] does not take 0; (0.1, 0.5] not 0.1
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "llguidance==1.9.1"
"$folder/venv/bin/python" - <<'PYTHON'
import json

from llguidance import LLMatcher, LLTokenizer

tokenizer = LLTokenizer("byte")
EXPECTED = [  # bounds, a number that they exclude, whether it is taken
    ({"exclusiveMinimum": 0, "maximum": 0.5}, "0", True),
    ({"exclusiveMinimum": 1, "maximum": 1.5}, "1", True),
    ({"minimum": -0.5, "exclusiveMaximum": 0}, "-0", True),
    ({"exclusiveMinimum": 0, "maximum": 2}, "0", False),
    ({"exclusiveMinimum": 0.1, "maximum": 0.5}, "0.1", False),
]
for bounds, number, expected in EXPECTED:
    schema = json.dumps({"type": "number", **bounds})
    matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_json_schema(schema))
    tokens = tokenizer.tokenize_str(number)
    taken = matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()
    print(bounds, "takes" if taken else "does not take", number)
    assert taken == expected, "llguidance has changed"
PYTHON
