"""What the language model says to a prompt, and what that means."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from models.embedded.build.testbed import HeldOut

MAX_NEW_TOKENS = 64
BATCH_ROWS = 160


@dataclass(frozen=True, slots=True)
class Answered:
    """What the model said to one prompt.

    `logprob` is the greedy answer's summed log-probability with EOS, in nats.
    """

    greedy: str
    logprob: float
    samples: list[str]


def _groups(lengths: Sequence[int], rows: int) -> list[list[int]]:
    by_length: dict[int, list[int]] = defaultdict(list)
    for i, length in enumerate(lengths):
        by_length[length].append(i)
    return [group[a : a + rows] for group in by_length.values() for a in range(0, len(group), rows)]


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
    encoded = [tokenizer(prompt)["input_ids"] for prompt in prompts]
    answered: dict[int, Answered] = {}
    for group in _groups([len(ids) for ids in encoded], max(1, BATCH_ROWS // max(1, num_samples))):
        ids = torch.tensor([encoded[i] for i in group])  # (B, T)
        limits = {"attention_mask": torch.ones_like(ids), "max_new_tokens": MAX_NEW_TOKENS}
        out = llama.generate(
            input_ids=ids,
            do_sample=False,
            output_scores=True,
            return_dict_in_generate=True,
            **limits,
        )
        steps = llama.compute_transition_scores(
            out.sequences, out.scores, normalize_logits=True
        )  # (B, N)
        new = out.sequences[:, ids.shape[1] :]
        logprobs = torch.where(new == tokenizer.pad_token_id, 0.0, steps).sum(-1)
        samples: list[list[str]] = [[] for _ in group]
        if num_samples:
            drawn = llama.generate(
                input_ids=ids,
                do_sample=True,
                temperature=1.0,
                top_k=50,
                num_return_sequences=num_samples,
                **limits,
            )
            texts = tokenizer.batch_decode(drawn[:, ids.shape[1] :], skip_special_tokens=True)
            samples = [texts[k * num_samples : (k + 1) * num_samples] for k in range(len(group))]
        greedy = tokenizer.batch_decode(new, skip_special_tokens=True)
        for i, text, logprob, drawn_texts in zip(
            group, greedy, logprobs.tolist(), samples, strict=True
        ):
            answered[i] = Answered(text, logprob, drawn_texts)
    return [answered[i] for i in range(len(prompts))]


def meaning(text: str, line: HeldOut) -> str:
    """The short answer inside a wording, in lower case.

    The whole text where it is no wording of this question.
    """
    text = text.strip()
    found = text
    # Longest frame first: the bare answer is a frame around nothing and fits everything.
    for reference in sorted(line.references, key=len, reverse=True):
        before, _, after = reference.rpartition(line.reference)
        before = before.removesuffix("the ")
        if (
            text.startswith(before)
            and text.endswith(after)
            and len(text) > len(before) + len(after)
        ):
            found = text[len(before) : len(text) - len(after)]
            break
    return found.removesuffix(".").lower().removeprefix("the ")
