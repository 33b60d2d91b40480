"""Pairs of texts that mean the same or not.

The cross-encoder sees the two texts alone, never the prompt.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from models.embedded.build.corpus import all_topics
from models.embedded.build.near_misses import (
    Part,
    Values,
    hybrid,
    near_number,
    near_spelling,
    part_of,
    values_in,
)
from models.embedded.build.tokenizer import english_prose
from models.embedded.build.topics import Topic, prompts, wordings

FAMILY_SHARES = {
    "facts": 0.28,
    "arithmetic": 0.2,
    "translation": 0.24,
    "made_up": 0.12,
    "prose": 0.08,
    "long_prose": 0.015,
    "deletion": 0.065,
}
GENERIC_WORDINGS = (
    "{answer}",
    "{answer}.",
    "It is {answer}.",
    "The answer is {answer}.",
    "It's {answer}.",
)
# Without these the meaning stays; without any other word it does not.
FUNCTION_WORDS = frozenset(
    {
        "a",
        "an",
        "the",
        "is",
        "are",
        "was",
        "of",
        "in",
        "on",
        "at",
        "to",
        "it",
        "its",
        "it's",
        "that",
        "which",
        "what",
        "and",
        "do",
        "does",
        "you",
        "for",
        "by",
        "as",
        "be",
        "this",
        "how",
        "name",
        "answer",
        "tell",
        "me",
        "city",
        "country",
        "continent",
        "called",
    }
)
NUM_WORDS_PROSE = (3, 16)
NUM_WORDS_LONG = (30, 110)
# The reference manual is cut into blocks of so many characters; every seventh is held out.
PROSE_BLOCK_CHARS = 3000


@dataclass(frozen=True, slots=True)
class Pair:
    first: str
    second: str
    same: bool
    family: str


@dataclass(frozen=True, slots=True)
class Sources:
    """What one part of the split makes its pairs from."""

    values: Values
    topics: dict[str, list[Topic]]
    sentences: list[list[str]]


def sources(part: Part) -> Sources:
    topics = all_topics()
    flat = [topic for group in topics.values() for topic in group]
    prose = english_prose()
    blocks = [
        prose[start : start + PROSE_BLOCK_CHARS]
        for start in range(0, len(prose), PROSE_BLOCK_CHARS)
    ]
    mine = [block for number, block in enumerate(blocks) if (number % 7 == 0) == (part == "test")]
    return Sources(
        values=values_in(part, flat),
        topics={
            task: [t for t in group if part_of(t.subject) == part] for task, group in topics.items()
        },
        sentences=[block.split()[1:-1] for block in mine],
    )


def cosmetic(text: str, rng: random.Random) -> str:
    """The same text in other dress, most often unchanged: case, final stop, blanks, quotes."""
    choice = rng.random()
    if choice < 0.64:
        return text
    if choice < 0.74:
        return text.lower()
    if choice < 0.8:
        return text[0].upper() + text[1:]
    if choice < 0.92:
        return text.removesuffix(".") if text.endswith(".") else f"{text}."
    if choice < 0.94:
        return text.upper()
    return f" {text}" if choice < 0.97 else f'"{text}"'


def worded(topic: Topic, answer: str, rng: random.Random) -> str:
    if rng.random() < 0.7:
        return rng.choice(wordings(topic, answer))
    return rng.choice(GENERIC_WORDINGS).format(answer=answer)


def other_answer(topic: Topic, answer: str, values: Values, rng: random.Random) -> str:
    """A value other than `answer`: a near miss as often as another value of the same kind."""
    choice = rng.random()
    if answer.isdigit() and choice < 0.6:
        return near_number(answer, rng)
    if not answer.isdigit() and choice < 0.3:
        return near_spelling(answer, rng)
    other = values.of(topic.kind, topic.language, rng)
    if not answer.isdigit() and choice < 0.45:
        return hybrid(answer, other, rng)
    return other


def equal(first: str, second: str) -> bool:
    return first.strip(' ".').lower() == second.strip(' ".').lower()


def _answer_pair(task: str, source: Sources, rng: random.Random) -> Pair:
    """Two answers to one prompt, right or wrong."""
    topic = rng.choice(source.topics[task])
    answer = source.values.of(topic.kind, topic.language, rng)
    first = worded(topic, answer, rng)
    if rng.random() < 0.5:
        return Pair(cosmetic(first, rng), cosmetic(worded(topic, answer, rng), rng), True, task)
    choice = rng.random()
    if choice < 0.12:
        # Names the subject of the question, not its answer.
        first, second = wordings(topic, answer)[rng.choice((0, 2))], topic.subject
        same = equal(answer, second)
        return Pair(cosmetic(first, rng), cosmetic(second, rng), same, task)
    if choice < 0.2:
        task_of_other = rng.choice(sorted(source.topics))
        stranger = rng.choice(source.topics[task_of_other])
        other = source.values.of(stranger.kind, stranger.language, rng)
        second = worded(stranger, other, rng)
    else:
        other = other_answer(topic, answer, source.values, rng)
        second = worded(topic, other, rng)
    return Pair(cosmetic(first, rng), cosmetic(second, rng), equal(answer, other), task)


def made_up_pair(source: Sources, rng: random.Random) -> Pair:
    """Names that do not exist: the same one on both sides, or a slip of spelling on one."""
    pool = source.values.cities if rng.random() < 0.5 else source.values.names
    topic = rng.choice(source.topics[rng.choice(("facts", "translation"))])
    name = hybrid(rng.choice(pool), rng.choice(pool), rng)
    if rng.random() < 0.3:
        name = hybrid(name, rng.choice(pool), rng)
    other = name
    if rng.random() < 0.5:
        other = (
            near_spelling(name, rng) if rng.random() < 0.6 else hybrid(name, rng.choice(pool), rng)
        )
    first, second = worded(topic, name, rng), worded(topic, other, rng)
    return Pair(cosmetic(first, rng), cosmetic(second, rng), equal(name, other), "made_up")


def excerpt(source: Sources, bounds: tuple[int, int], rng: random.Random) -> list[str]:
    block = rng.choice(
        [s for s in rng.choices(source.sentences, k=4) if len(s) > bounds[1]] or source.sentences
    )
    length = min(rng.randint(*bounds), len(block))
    start = rng.randrange(len(block) - length + 1)
    return block[start : start + length]


def _prose_pair(source: Sources, bounds: tuple[int, int], family: str, rng: random.Random) -> Pair:
    """English outside the three tasks.

    The second text is the same words in other dress, one word changed, or another text.
    """
    words = excerpt(source, bounds, rng)
    first, choice = " ".join(words), rng.random()
    if choice < 0.5:
        second = (
            f"{rng.choice(('It is', 'The answer is', 'Answer:'))} {first}"
            if choice < 0.15
            else first
        )
    elif choice < 0.75:
        place, replacement = rng.randrange(len(words)), rng.choice(rng.choice(source.sentences))
        second = " ".join([*words[:place], replacement, *words[place + 1 :]])
    else:
        second = " ".join(excerpt(source, bounds, rng))
    same = choice < 0.5 or equal(first, second)
    return Pair(cosmetic(first, rng), cosmetic(second, rng), same, family)


def deletion_pair(source: Sources, rng: random.Random) -> Pair:
    """Prompt and answer in one text, and the same without one word."""
    topic = rng.choice(source.topics[rng.choice(sorted(source.topics))])
    answer = source.values.of(topic.kind, topic.language, rng)
    words = f"{rng.choice(prompts(topic))} {worded(topic, answer, rng)}".split()
    bare = [_bare(word) for word in words]
    function = [i for i, word in enumerate(bare) if word in FUNCTION_WORDS]
    # A name that stands there twice can lose one mention; what counts is a word that is gone
    # altogether.
    content = [
        i for i, word in enumerate(bare) if word not in FUNCTION_WORDS and bare.count(word) == 1
    ]
    same = bool(function) and (rng.random() < 0.5 or not content)
    place = rng.choice(function if same else content or range(len(words)))
    without = " ".join(words[:place] + words[place + 1 :])
    return Pair(" ".join(words), without, same, "deletion")


def _bare(word: str) -> str:
    return re.sub(r"[^\w']", "", word).lower()


def make_pairs(source: Sources, count: int, rng: random.Random) -> list[Pair]:
    """`count` pairs with the families in their shares, about half of them the same."""
    makers: dict[str, Callable[[], Pair]] = {
        "facts": lambda: _answer_pair("facts", source, rng),
        "arithmetic": lambda: _answer_pair("arithmetic", source, rng),
        "translation": lambda: _answer_pair("translation", source, rng),
        "made_up": lambda: made_up_pair(source, rng),
        "prose": lambda: _prose_pair(source, NUM_WORDS_PROSE, "prose", rng),
        "long_prose": lambda: _prose_pair(source, NUM_WORDS_LONG, "long_prose", rng),
        "deletion": lambda: deletion_pair(source, rng),
    }
    families: Sequence[str] = rng.choices(
        list(FAMILY_SHARES), weights=list(FAMILY_SHARES.values()), k=count
    )
    pairs = []
    for family in families:
        pair = makers[family]()
        pairs.append(
            pair if rng.random() < 0.5 else Pair(pair.second, pair.first, pair.same, pair.family)
        )
    return pairs
