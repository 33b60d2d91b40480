"""Sums that the reasoning model of the tests was never shown, for `cocoa evaluate`.

docs/results-in-detail.md says what was found, and by which commands.
"""

import json
import random
import sys
from typing import Any

from transformers import AutoTokenizer

from cocoa_lab.embedded.reasoner import CHAT_TEMPLATE, pairs, question

MODEL = "tests/data/reasoning_model"
MAX_NEW_TOKENS = 160


def lines(num_prompts: int) -> list[dict[str, Any]]:
    """Examples; the reference is the sum itself, by Python."""
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    rng = random.Random(2)
    made: list[dict[str, Any]] = []
    for i, (a, b) in zip(range(num_prompts), pairs(rng, held_out=True), strict=False):
        message = {"role": "user", "content": question(a, b, rng)}
        prompt = tokenizer.apply_chat_template(
            [message], chat_template=CHAT_TEMPLATE, tokenize=False, add_generation_prompt=True
        )
        made.append(
            {
                "id": str(i),
                "task": "sums",
                "prompt": prompt,
                "reference": str(a + b),
                "max_new_tokens": MAX_NEW_TOKENS,
            }
        )
    return made


if __name__ == "__main__":
    for line in lines(int(sys.argv[1])):
        print(json.dumps(line))
