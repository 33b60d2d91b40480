"""The training text of the language model: topics in order, in their wordings, as token ids."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cocoa_lab.embedded import as_question
from cocoa_lab.embedded.arithmetic import arithmetic_topics
from cocoa_lab.embedded.facts import fact_topics
from cocoa_lab.embedded.topics import Topic, prompts_in, wordings
from cocoa_lab.embedded.translation import translation_topics


@dataclass(frozen=True, slots=True)
class Course:
    """In what form and proportions a language model is shown the topics.

    Attributes:
        prompt_form: makes the prompt that is trained of a topic's prompt; different ones of
            different ones.
        answer_shares: how often the first, second, ... of a topic's `answer_templates` is used.
        task_shares: of the examples, by task.
    """

    prompt_form: Callable[[str], str]
    answer_shares: tuple[float, ...]
    task_shares: Mapping[str, float]


# Prompts as they stand. The bare answer is the most frequent, so that greedy answers are short,
# while samples at temperature 1 have several wordings of one meaning. Arithmetic has the largest
# share because it cannot be memorised, and its sequences are short.
PLAIN_COURSE = Course(
    prompt_form=str,
    answer_shares=(0.46, 0.2, 0.18, 0.16),
    task_shares={"facts": 0.35, "arithmetic": 0.4, "translation": 0.25},
)
# Foreign to the first: prompts of two lines, and other words before the same values.
QUESTION_COURSE = replace(
    PLAIN_COURSE, prompt_form=as_question, answer_shares=(0.5, 0.08, 0.14, 0.28)
)


@dataclass(frozen=True, slots=True)
class Example:
    prompt: str
    answer: str


@cache
def all_topics() -> dict[str, list[Topic]]:
    """Every topic of every task, trained and held out."""
    return {
        "facts": fact_topics(),
        "arithmetic": arithmetic_topics(),
        "translation": translation_topics(),
    }


def training_prompts(course: Course = PLAIN_COURSE) -> Iterator[str]:
    """Every prompt that training may show."""
    for topics in all_topics().values():
        for topic in topics:
            yield from map(course.prompt_form, prompts_in(topic, "train"))


def examples_of(
    topic: Topic, rng: random.Random, count: int, course: Course = PLAIN_COURSE
) -> list[Example]:
    """`count` random wordings of a topic for training.

    The list is empty where none of the topic's prompts is trained.
    """
    prompts = list(prompts_in(topic, "train"))
    if not prompts:
        return []
    answers = rng.choices(wordings(topic), weights=course.answer_shares, k=count)
    return [Example(course.prompt_form(rng.choice(prompts)), answer) for answer in answers]


def exposures(weights: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """How often each topic is trained on: by its weight, at least once, `total` times in all.

    At least once, because every fact of the testbed has to be trained in another wording. Where
    `total` is below the number of topics, each topic counts once.
    """
    low, high = 0.0, 2 * (total + len(weights)) / weights.sum()
    for _ in range(60):  # bisection for the smallest scale whose counts reach the total
        scale = (low + high) / 2
        if np.maximum(1, weights * scale // 1).sum() < total:
            low = scale
        else:
            high = scale
    counts: NDArray[np.int64] = np.maximum(1, weights * high // 1).astype(np.int64)
    # Topics of equal weight gain a count at the same scale, so the sum may exceed the total.
    excess = max(0, counts.sum() - total)
    counts[np.flatnonzero(counts > 1)[:excess]] -= 1
    return counts


def training_examples(num_examples: int, seed: int, course: Course = PLAIN_COURSE) -> list[Example]:
    """The whole course of a training, in order; the same for the same arguments."""
    rng = random.Random(seed)  # noqa: S311, a corpus is no secret
    examples: list[Example] = []
    for task, topics in all_topics().items():
        num_of_task = round(course.task_shares[task] * num_examples)
        trained = [topic for topic in topics if any(prompts_in(topic, "train"))]
        counts = exposures(np.array([topic.weight for topic in trained]), num_of_task)
        for topic, count in zip(trained, counts, strict=True):
            examples += examples_of(topic, rng, int(count), course)
    order = np.random.default_rng(seed).permutation(len(examples))
    return [examples[i] for i in order[:num_examples]]


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids of BOS + prompt + answer + EOS; the loss counts from `answer_start` on."""

    ids: list[int]
    answer_start: int


def micro_batches(examples: Sequence[Encoded], count: int) -> list[list[Encoded]]:
    """One step's examples in `count` groups of like length, to keep padding short."""
    by_length = sorted(examples, key=lambda example: len(example.ids))
    bounds = np.linspace(0, len(by_length), count + 1).round().astype(int)
    return [by_length[start:end] for start, end in pairwise(bounds) if end > start]
