"""The training text of the language model: which topic when, in which wording, as token ids."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from models.embedded.build.arithmetic import arithmetic_topics
from models.embedded.build.facts import fact_topics
from models.embedded.build.topics import ANSWER_SHARES, Split, Topic, prompts_in, wordings
from models.embedded.build.translation import translation_topics

# Arithmetic is over-represented: it has to be understood, not remembered, and its sequences are
# short.
TASK_SHARES = {"facts": 0.35, "arithmetic": 0.4, "translation": 0.25}


@dataclass(frozen=True, slots=True)
class Example:
    prompt: str
    answer: str


def all_topics() -> dict[str, list[Topic]]:
    """Every topic of every task, trained and held out."""
    return {
        "facts": fact_topics(),
        "arithmetic": arithmetic_topics(),
        "translation": translation_topics(),
    }


def training_prompts() -> Iterator[str]:
    """Every prompt that training may show; it shows no other."""
    for topics in all_topics().values():
        for topic in topics:
            yield from prompts_in(topic, "train")


def examples_of(topic: Topic, part: Split, rng: random.Random, count: int) -> list[Example]:
    """`count` random wordings of a topic in one part of the split.

    None where the topic has no prompt in it.
    """
    choices = list(prompts_in(topic, part))
    if not choices:
        return []
    answers = rng.choices(wordings(topic), weights=ANSWER_SHARES, k=count)
    return [Example(rng.choice(choices), answer) for answer in answers]


def exposures(weights: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """How often each topic is trained on: in proportion to its weight, `total` in all.

    Each topic is trained on at least once.

    At least once, because a held-out fact has to be one that was trained in another wording. Where
    `total` is below the number of topics, each counts once.
    """
    low, high = 0.0, 2 * (total + len(weights)) / weights.sum()
    for _ in range(60):
        scale = (low + high) / 2
        low, high = (
            (scale, high) if np.maximum(1, weights * scale // 1).sum() < total else (low, scale)
        )
    # The least scale that reaches the total; equal weights step up together, so it may pass it.
    counts: NDArray[np.int64] = np.maximum(1, weights * high // 1).astype(np.int64)
    counts[np.flatnonzero(counts > 1)[: max(0, counts.sum() - total)]] -= 1
    return counts


def training_examples(
    num_examples: int, seed: int, shares: dict[str, float] | None = None
) -> list[Example]:
    """The whole course of a training, in order; the same for the same arguments."""
    rng, order = random.Random(seed), np.random.default_rng(seed)  # noqa: S311, a corpus is no secret
    examples: list[Example] = []
    for task, topics in all_topics().items():
        wanted = round((shares or TASK_SHARES)[task] * num_examples)
        trained = [topic for topic in topics if any(prompts_in(topic, "train"))]
        counts = exposures(np.array([topic.weight for topic in trained]), wanted)
        for topic, count in zip(trained, counts, strict=True):
            examples += examples_of(topic, "train", rng, int(count))
    return [examples[i] for i in order.permutation(len(examples))[:num_examples]]


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids of BOS + prompt + answer + EOS; the loss counts from `answer_start` on."""

    ids: list[int]
    answer_start: int


def micro_batches(examples: Sequence[Encoded], count: int) -> list[list[Encoded]]:
    """One step's examples in `count` groups of like length, so that little work is padding."""
    by_length = sorted(examples, key=lambda example: len(example.ids))
    bounds = np.linspace(0, len(by_length), count + 1).round().astype(int)
    return [by_length[a:b] for a, b in pairwise(bounds) if b > a]
