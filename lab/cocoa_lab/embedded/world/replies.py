"""What the model writes, greedily, and how much of it is right."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from cocoa_lab.embedded.world.chat import prompt_text
from cocoa_lab.embedded.world.document import Document
from cocoa_lab.embedded.world.labels import labelled
from cocoa_lab.embedded.world.places import World
from cocoa_lab.embedded.world.testbed import MAX_NEW_TOKENS, Line

BATCH_ROWS = 24


@torch.inference_mode()
def greedy_replies(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, documents: Sequence[Document]
) -> list[str]:
    """What follows each document's prompt, tags shown, without the end of the turn."""
    was_training = model.training
    model.train(mode=False)
    llama: Any = model  # transformers' annotations of `generate` do not pass mypy
    replies: list[str] = []
    for start in range(0, len(documents), BATCH_ROWS):
        prompts = [prompt_text(tokenizer, one) for one in documents[start : start + BATCH_ROWS]]
        batch = tokenizer(prompts, add_special_tokens=False, padding=True, return_tensors="pt")
        ids = batch["input_ids"]
        mask = batch["attention_mask"]
        out = llama.generate(
            input_ids=ids, attention_mask=mask, max_new_tokens=MAX_NEW_TOKENS, do_sample=False
        )
        replies += tokenizer.batch_decode(out[:, ids.shape[1] :], skip_special_tokens=True)
    model.train(mode=was_training)
    return replies


def share_right(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    world: World,
    lines: Sequence[Line],
) -> dict[str, Mapping[str, int]]:
    """How many parts of the greedy answers have which label, by kind of prompt and of part."""
    replies = greedy_replies(model, tokenizer, [line.document() for line in lines])
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for line, reply in zip(lines, replies, strict=True):
        for one in labelled(world, line, reply):
            counts[f"{line.kind}, {one.kind}"][one.label] += 1
    return {kind: dict(counts[kind]) for kind in sorted(counts)}
