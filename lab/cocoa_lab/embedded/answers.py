"""The language model's answers to prompts, and the value that an answer states."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from cocoa_lab.embedded.testbed import HeldOut

MAX_NEW_TOKENS = 64
BATCH_ROWS = 160


@dataclass(frozen=True, slots=True)
class Answered:
    """The model's answers to one prompt.

    `logprob` is the summed log-probability of the greedy answer's tokens and EOS, in nats.
    """

    greedy: str
    logprob: float
    samples: list[str]


def _groups(lengths: Sequence[int], max_rows: int) -> list[list[int]]:
    """Indices of prompts of equal length, at most `max_rows` in a group."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for i, length in enumerate(lengths):
        by_length[length].append(i)
    groups: list[list[int]] = []
    for indices in by_length.values():
        for start in range(0, len(indices), max_rows):
            groups.append(indices[start : start + max_rows])
    return groups


@torch.inference_mode()
def answer_prompts(
    model: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    prompts: Sequence[str],
    *,
    num_samples: int = 0,
    seed: int = 0,
) -> list[Answered]:
    """Greedy answers and samples at temperature 1, top_k 50.

    Prompts of one length share a batch without padding.
    """
    torch.manual_seed(seed)
    llama: Any = model  # transformers' annotations of `generate` do not pass mypy
    encoded = tokenizer(list(prompts))["input_ids"]
    max_rows = max(1, BATCH_ROWS // max(1, num_samples))
    answered: dict[int, Answered] = {}
    for group in _groups(list(map(len, encoded)), max_rows):
        ids = torch.tensor([encoded[i] for i in group])  # (B, T)
        greedy, logprobs = _greedy(llama, tokenizer, ids)
        samples = _sampled(llama, tokenizer, ids, num_samples)
        for row, i in enumerate(group):
            answered[i] = Answered(greedy[row], logprobs[row], samples[row])
    return [answered[i] for i in range(len(prompts))]


def _greedy(
    llama: Any, tokenizer: PreTrainedTokenizerFast, ids: Tensor
) -> tuple[list[str], list[float]]:
    """Greedy answers to prompts (B, T) of one length, and their summed log-probabilities."""
    out = llama.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=MAX_NEW_TOKENS,
        do_sample=False,
        output_scores=True,
        return_dict_in_generate=True,
    )
    scores = llama.compute_transition_scores(out.sequences, out.scores, normalize_logits=True)
    answer_ids = out.sequences[:, ids.shape[1] :]  # (B, N), as are the scores
    logprobs = torch.where(answer_ids == tokenizer.pad_token_id, 0.0, scores).sum(-1)
    return tokenizer.batch_decode(answer_ids, skip_special_tokens=True), logprobs.tolist()


def _sampled(
    llama: Any, tokenizer: PreTrainedTokenizerFast, ids: Tensor, num_samples: int
) -> list[list[str]]:
    """`num_samples` sampled answers to each of the prompts (B, T) of one length."""
    if num_samples == 0:
        return [[]] * len(ids)
    sequences = llama.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=MAX_NEW_TOKENS,
        do_sample=True,
        temperature=1.0,
        top_k=50,
        num_return_sequences=num_samples,
    )
    texts = tokenizer.batch_decode(sequences[:, ids.shape[1] :], skip_special_tokens=True)
    return [texts[start : start + num_samples] for start in range(0, len(texts), num_samples)]


def meaning(text: str, line: HeldOut) -> str:
    """The short answer that a wording contains, in lower case.

    A text that is no wording of an answer to this question is returned whole.
    """
    text = text.strip()
    answer = text
    # Longest wording first: the bare answer has nothing around it and would match every text.
    for reference in sorted(line.references, key=len, reverse=True):
        before, _, after = reference.rpartition(line.reference)
        before = before.removesuffix("the ")
        is_wording = text.startswith(before) and text.endswith(after)
        if is_wording and len(text) > len(before) + len(after):
            answer = text[len(before) : len(text) - len(after)]
            break
    return answer.removesuffix(".").lower().removeprefix("the ")
