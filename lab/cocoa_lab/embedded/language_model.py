"""The small Llama: its shape, its loss and its training."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from cocoa_lab.embedded.corpus import (
    PLAIN_COURSE,
    QUESTION_COURSE,
    Course,
    Encoded,
    micro_batches,
    training_examples,
)
from cocoa_lab.embedded.tokenizer import CONTEXT_TOKENS, VOCABULARY
from cocoa_lab.embedded.training import Schedule, train
from models.embedded import LANGUAGE_MODEL_DIR, SECOND_LANGUAGE_MODEL_DIR


@dataclass(frozen=True, slots=True)
class LanguageModelShape:
    hidden: int = 192
    layers: int = 5
    heads: int = 6
    feed_forward: int = 512


@dataclass(frozen=True, slots=True)
class Recipe:
    """What makes one of the two language models.

    Attributes:
        folder: name of its directory.
        vocabulary: number of tokens.
        seed_offset: added to the seed of a build, so that no two models share one.
    """

    folder: str
    course: Course
    vocabulary: int
    shape: LanguageModelShape
    schedule: Schedule
    seed_offset: int


FIRST_RECIPE = Recipe(
    folder=LANGUAGE_MODEL_DIR.name,
    course=PLAIN_COURSE,
    vocabulary=VOCABULARY,
    shape=LanguageModelShape(),
    schedule=Schedule(steps=2000),
    seed_offset=0,
)
# Narrower and deeper, with a vocabulary of its own.
SECOND_RECIPE = Recipe(
    folder=SECOND_LANGUAGE_MODEL_DIR.name,
    course=QUESTION_COURSE,
    vocabulary=2048,
    shape=LanguageModelShape(hidden=144, layers=6, heads=4, feed_forward=384),
    schedule=Schedule(steps=2400),
    seed_offset=1,
)
RECIPES = (FIRST_RECIPE, SECOND_RECIPE)


def new_language_model(
    tokenizer: PreTrainedTokenizerFast,
    shape: LanguageModelShape,
    seed: int,
    context_tokens: int = CONTEXT_TOKENS,
) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        intermediate_size=shape.feed_forward,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=context_tokens,
        tie_word_embeddings=True,
        initializer_range=shape.hidden**-0.5 / 2,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config)


def encode(
    tokenizer: PreTrainedTokenizerFast, prompts: Sequence[str], answers: Sequence[str]
) -> list[Encoded]:
    """Token ids of prompts with answers, encoded apart as at inference; a space separates them."""
    eos = tokenizer.eos_token_id
    prompt_ids = tokenizer(list(prompts))["input_ids"]
    continuations = list(map(" ".__add__, answers))
    answer_ids = tokenizer(continuations, add_special_tokens=False)["input_ids"]
    return [Encoded([*p, *a, eos], len(p)) for p, a in zip(prompt_ids, answer_ids, strict=True)]


def token_losses(
    model: LlamaForCausalLM, batch: Sequence[Encoded], pad_id: int
) -> tuple[Tensor, Tensor]:
    """Negative log-likelihoods of the answers' tokens and EOS, (N,) nats, and their rows, (N,)."""
    each = [torch.tensor(example.ids) for example in batch]
    ids = pad_sequence(each, batch_first=True, padding_value=pad_id)  # (B, T)
    longest = ids.shape[1]
    starts = torch.tensor([example.answer_start for example in batch])[:, None]
    ends = torch.tensor(list(map(len, each)))[:, None]
    targets = torch.arange(1, longest)[None]  # (1, T - 1)
    counted = (targets >= starts) & (targets < ends)  # (B, T - 1)
    # Padding is on the right and attention is causal, so no mask is needed. Logits are computed
    # only at the positions that count.
    hidden = model.model(input_ids=ids).last_hidden_state[:, :-1][counted]
    losses = cross_entropy(model.lm_head(hidden).float(), ids[:, 1:][counted], reduction="none")
    return losses, counted.nonzero()[:, 0]


def answer_loss(model: LlamaForCausalLM, batch: Sequence[Encoded], pad_id: int) -> Tensor:
    """Summed negative log-likelihood of the answers' tokens and EOS, in nats."""
    return token_losses(model, batch, pad_id)[0].sum()


def train_language_model(
    tokenizer: PreTrainedTokenizerFast,
    schedule: Schedule,
    *,
    batch_size: int = 128,
    shape: LanguageModelShape | None = None,
    course: Course = PLAIN_COURSE,
    seed: int = 0,
    checkpoint: Path | None = None,
) -> tuple[LlamaForCausalLM, list[float], float]:
    """The trained model, the loss of every step (nats per token), and the seconds that it took."""
    model = new_language_model(tokenizer, shape or LanguageModelShape(), seed)
    examples = training_examples(schedule.steps * batch_size, seed, course)
    encoded = encode(tokenizer, [e.prompt for e in examples], [e.answer for e in examples])
    pad_id = tokenizer.pad_token_id

    def losses_of(step: int) -> Iterator[Tensor]:
        batch = encoded[step * batch_size : (step + 1) * batch_size]
        num_counted = sum(len(example.ids) - example.answer_start for example in batch)
        for part in micro_batches(batch, 3):
            yield answer_loss(model, part, pad_id) / num_counted

    started = time.monotonic()
    losses = train(model, losses_of, schedule, checkpoint)
    return model, losses, time.monotonic() - started
