"""The training of the model that knows the world, in steps that go on from a checkpoint."""

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from cocoa_lab.embedded.corpus import PLAIN_COURSE, QUESTION_COURSE, Course, Encoded
from cocoa_lab.embedded.language_model import LanguageModelShape, new_language_model, token_losses
from cocoa_lab.embedded.training import Schedule, train
from cocoa_lab.embedded.world.chat import CONTEXT_TOKENS, encode, train_tokenizer
from cocoa_lab.embedded.world.corpus import Corpus
from cocoa_lab.embedded.world.document import Document
from cocoa_lab.embedded.world.replies import greedy_replies
from models.embedded import LONG_LANGUAGE_MODEL_DIR, SECOND_LONG_LANGUAGE_MODEL_DIR

# Rows of a micro-batch times its longest one, padding included.
MICRO_BATCH_TOKENS = 4096
# Share of a row that is no padding, at least.
MIN_FILLED = 0.85
TOKENIZER_STEPS = 150
SAMPLE_EVERY = 250
# Documents of each kind in a step.
COUNTS = {"short": 44, "paragraph": 24, "json": 8, "call": 5, "reasoning": 15}


@dataclass(frozen=True)
class Recipe:
    """What makes one of the two models.

    Attributes:
        folder: name of its directory.
        vocabulary: number of tokens.
        counts: documents of each kind in a step.
        backwards: whether it prefers the wordings that the other one uses least.
    """

    folder: str
    seed: int
    shape: LanguageModelShape
    vocabulary: int
    schedule: Schedule
    counts: Mapping[str, int]
    backwards: bool = False
    course: Course = PLAIN_COURSE

    @cached_property
    def corpus(self) -> Corpus:
        return Corpus(self.seed, self.schedule.steps, self.counts, self.backwards, self.course)


FIRST = Recipe(
    folder=LONG_LANGUAGE_MODEL_DIR.name,
    seed=0,
    shape=LanguageModelShape(hidden=192, layers=6, heads=6, feed_forward=512),
    vocabulary=3072,
    schedule=Schedule(steps=2000, muon_lr=5e-3, adam_lr=2.5e-3, checkpoint_every=25, log_every=25),
    counts=COUNTS,
)
# Narrower and deeper, of another world, with a vocabulary and preferences of its own.
SECOND = Recipe(
    folder=SECOND_LONG_LANGUAGE_MODEL_DIR.name,
    seed=1,
    shape=LanguageModelShape(hidden=168, layers=8, heads=6, feed_forward=464),
    vocabulary=2560,
    schedule=Schedule(steps=2000, muon_lr=5e-3, adam_lr=2.5e-3, checkpoint_every=25, log_every=25),
    counts=COUNTS,
    backwards=True,
    course=QUESTION_COURSE,
)
RECIPES = {"first": FIRST, "second": SECOND}


def tokenizer_of(recipe: Recipe) -> PreTrainedTokenizerFast:
    """A vocabulary learnt on documents of the training."""

    def texts() -> Iterator[str]:
        for step in range(min(TOKENIZER_STEPS, recipe.schedule.steps)):
            for document in recipe.corpus.documents(step):
                tools = document.tools or ()
                contents = [str(message["content"]) for message in document.messages]
                yield " ".join([*map(json.dumps, tools), *contents, document.reply])

    return train_tokenizer(texts(), recipe.vocabulary)


def budgeted(examples: Sequence[tuple[str, Encoded]]) -> list[list[tuple[str, Encoded]]]:
    """One step's examples, each with its kind, in micro-batches of like length."""
    batches: list[list[tuple[str, Encoded]]] = []
    for example in sorted(examples, key=lambda one: -len(one[1].ids)):
        longest = len(batches[-1][0][1].ids) if batches else 0
        has_room = batches and longest * (len(batches[-1]) + 1) <= MICRO_BATCH_TOKENS
        if has_room and len(example[1].ids) >= MIN_FILLED * longest:
            batches[-1].append(example)
        else:
            batches.append([example])
    return batches


@dataclass(slots=True)
class _Tally:
    """Losses and tokens since the last line of the log."""

    loss: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    counted: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    tokens: int = 0
    started: float = field(default_factory=time.monotonic)
    processor_started: float = field(default_factory=time.process_time)

    def add(self, kinds: Sequence[str], losses: Tensor, rows: Tensor) -> None:
        for row, loss in zip(rows.tolist(), losses.tolist(), strict=True):
            self.loss[kinds[row]] += loss
            self.counted[kinds[row]] += 1

    def line(self, step: int) -> dict[str, Any]:
        """Mean loss by kind, nats a token, tokens read, and seconds in all and of processors."""
        means = {kind: round(self.loss[kind] / count, 4) for kind, count in self.counted.items()}
        seconds = round(time.monotonic() - self.started, 1)
        processor_s = round(time.process_time() - self.processor_started, 1)
        return {
            "step": step,
            "loss": means,
            "tokens": self.tokens,
            "seconds": seconds,
            "processor_s": processor_s,
        }


def _append(file: Path, text: str) -> None:
    with file.open("a", encoding="utf-8") as out:
        out.write(text + "\n")


def train_world_model(
    recipe: Recipe, tokenizer: PreTrainedTokenizerFast, out: Path, *, in_bfloat16: bool = False
) -> tuple[LlamaForCausalLM, list[float]]:
    """The trained model and the loss of every step.

    Each token counts 1 / sqrt(n), n the tokens of its reply: otherwise the short answers, most of
    the documents, would be a tenth of what is learnt.

    out: where checkpoint, log and sample replies go, beside the model's own folder.
    """
    model = new_language_model(tokenizer, recipe.shape, recipe.seed, CONTEXT_TOKENS)
    pad_id = tokenizer.pad_token_id
    tally = _Tally()

    def losses_of(step: int) -> Iterator[Tensor]:
        documents = recipe.corpus.documents(step)
        encoded = encode(tokenizer, documents)
        tally.tokens += sum(len(example.ids) for example in encoded)
        kinds = [document.kind for document in documents]
        weight_sum = sum((len(one.ids) - one.answer_start) ** 0.5 for one in encoded)
        for batch in budgeted(list(zip(kinds, encoded, strict=True))):
            with torch.autocast("cpu", torch.bfloat16) if in_bfloat16 else nullcontext():
                losses, rows = token_losses(model, [one for _, one in batch], pad_id)
            lengths = torch.bincount(rows, minlength=len(batch))
            tally.add([kind for kind, _ in batch], losses.detach(), rows)
            yield (losses * lengths[rows] ** -0.5).sum() / weight_sum

    def after_step(steps_done: int) -> None:
        nonlocal tally
        if steps_done % recipe.schedule.log_every == 0:
            _append(out / f"{recipe.folder}.log.jsonl", json.dumps(tally.line(steps_done)))
            tally = _Tally()
        if steps_done % SAMPLE_EVERY == 0:
            # Documents that come after the last step.
            unseen = recipe.corpus.documents(steps_done + recipe.schedule.steps)
            _append(
                out / f"{recipe.folder}.samples.txt",
                f"=== step {steps_done}\n" + _samples(model, tokenizer, unseen),
            )
            tally = _Tally()

    checkpoint = out / f"{recipe.folder}.checkpoint.pt"
    losses = train(model, losses_of, recipe.schedule, checkpoint, after_step)
    return model, losses


def _samples(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, documents: Sequence[Document]
) -> str:
    """Greedy replies to two documents of each kind but the short ones."""
    chosen: list[Document] = []
    for kind in ("paragraph", "json", "call", "reasoning"):
        chosen += [document for document in documents if document.kind == kind][:2]
    texts = []
    for document, reply in zip(chosen, greedy_replies(model, tokenizer, chosen), strict=True):
        texts.append(f"> {document.messages[-1]['content']}\n= {document.reply}\n< {reply}")
    return "\n".join(texts)
