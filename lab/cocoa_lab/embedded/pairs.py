"""Pairs of texts that mean the same or not, as the cross-encoder sees them: without the prompt."""

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cocoa_lab.embedded.corpus import all_topics
from cocoa_lab.embedded.near_misses import (
    Part,
    Values,
    hybrid,
    near_number,
    near_spelling,
    part_of,
    values_in,
)
from cocoa_lab.embedded.tokenizer import english_prose
from cocoa_lab.embedded.topics import Topic, prompts, wordings

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
LEAD_INS = ("It is", "The answer is", "Answer:")
# A text keeps its meaning without one of these words, and loses it without any other.
FUNCTION_WORDS = frozenset(
    {"a", "an", "the", "this", "that", "it", "its", "it's", "you", "me", "which", "what", "how"}
    | {"of", "in", "on", "at", "to", "for", "by", "as", "and"}
    | {"is", "are", "was", "be", "do", "does", "name", "tell", "called"}
    | {"answer", "city", "country", "continent"}
)
NUM_WORDS_PROSE = (3, 16)
NUM_WORDS_LONG = (30, 110)
# The prose is cut into blocks of this length; every seventh block is held out.
PROSE_BLOCK_CHARS = 3000


@dataclass(frozen=True, slots=True)
class Pair:
    first: str
    second: str
    same: bool
    family: str


@dataclass(frozen=True, slots=True)
class Sources:
    """What the pairs of one part of the split are made from; a sentence is a list of words."""

    values: Values
    topics: dict[str, list[Topic]]
    sentences: list[list[str]]


def sources(part: Part) -> Sources:
    every_topic: list[Topic] = []
    topics_of_part: dict[str, list[Topic]] = {}
    for task, topics in all_topics().items():
        every_topic += topics
        topics_of_part[task] = [topic for topic in topics if part_of(topic.subject) == part]
    return Sources(
        values=values_in(part, every_topic), topics=topics_of_part, sentences=_prose_of(part)
    )


def _prose_of(part: Part) -> list[list[str]]:
    """Words of the blocks of prose of one part, without those cut off at the blocks' ends."""
    prose = english_prose()
    sentences: list[list[str]] = []
    for number, start in enumerate(range(0, len(prose), PROSE_BLOCK_CHARS)):
        if (number % 7 == 0) == (part == "test"):
            sentences.append(prose[start : start + PROSE_BLOCK_CHARS].split()[1:-1])
    return sentences


def cosmetic(text: str, rng: random.Random) -> str:
    """The text, most often unchanged, else in other case, final stop, blanks or quotes."""
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
    """A random wording of the answer, the topic's own or a generic one."""
    if rng.random() < 0.7:
        return rng.choice(wordings(topic, answer))
    return rng.choice(GENERIC_WORDINGS).format(answer=answer)


def other_answer(topic: Topic, answer: str, values: Values, rng: random.Random) -> str:
    """A value in place of `answer`: about as often a near miss as another value of its kind.

    Now and then it equals `answer`.
    """
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
    """Whether two texts are the same but for case, quotes, blanks and final stop."""
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
        # The second text is the subject of the question, not an answer.
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
    """Names that do not exist: the same in both texts, misspelt in one, or different."""
    pool = source.values.cities if rng.random() < 0.5 else source.values.names
    topic = rng.choice(source.topics[rng.choice(("facts", "translation"))])
    name = hybrid(rng.choice(pool), rng.choice(pool), rng)
    if rng.random() < 0.3:
        name = hybrid(name, rng.choice(pool), rng)
    if rng.random() >= 0.5:
        other = name
    elif rng.random() < 0.6:
        other = near_spelling(name, rng)
    else:
        other = hybrid(name, rng.choice(pool), rng)
    first, second = worded(topic, name, rng), worded(topic, other, rng)
    return Pair(cosmetic(first, rng), cosmetic(second, rng), equal(name, other), "made_up")


def excerpt(source: Sources, bounds: tuple[int, int], rng: random.Random) -> list[str]:
    """Successive words of prose, their number within `bounds` or that of a shorter sentence."""
    drawn = rng.choices(source.sentences, k=4)
    long_enough = [sentence for sentence in drawn if len(sentence) > bounds[1]]
    words = rng.choice(long_enough or source.sentences)
    length = min(rng.randint(*bounds), len(words))
    start = rng.randrange(len(words) - length + 1)
    return words[start : start + length]


def with_lead_in(text: str, rng: random.Random) -> str:
    """The text after words that introduce an answer."""
    return f"{rng.choice(LEAD_INS)} {text}"


def with_other_word(words: Sequence[str], source: Sources, rng: random.Random) -> str:
    """The words as a text, one of them replaced by a random word."""
    place = rng.randrange(len(words))
    replacement = rng.choice(rng.choice(source.sentences))
    return " ".join([*words[:place], replacement, *words[place + 1 :]])


def _prose_pair(source: Sources, bounds: tuple[int, int], family: str, rng: random.Random) -> Pair:
    """English outside the three tasks: the same words, one word replaced, or another text."""
    words = excerpt(source, bounds, rng)
    first, choice = " ".join(words), rng.random()
    if choice < 0.5:
        second = with_lead_in(first, rng) if choice < 0.15 else first
    elif choice < 0.75:
        second = with_other_word(words, source, rng)
    else:
        second = " ".join(excerpt(source, bounds, rng))
    same = choice < 0.5 or equal(first, second)
    return Pair(cosmetic(first, rng), cosmetic(second, rng), same, family)


def deletion_pair(source: Sources, rng: random.Random) -> Pair:
    """Prompt and answer in one text, and the same text without one word."""
    topic = rng.choice(source.topics[rng.choice(sorted(source.topics))])
    answer = source.values.of(topic.kind, topic.language, rng)
    words = f"{rng.choice(prompts(topic))} {worded(topic, answer, rng)}".split()
    bare = [_bare(word) for word in words]
    counts = Counter(bare)
    function_places = [i for i, word in enumerate(bare) if word in FUNCTION_WORDS]
    # A word that occurs twice can lose one mention without a change of meaning.
    single_places = [i for i, word in enumerate(bare) if counts[word] == 1]
    content_places = sorted(set(single_places) - set(function_places))
    same = bool(function_places) and (rng.random() < 0.5 or not content_places)
    places = function_places if same else content_places or range(len(words))
    place = rng.choice(places)
    without = " ".join(words[:place] + words[place + 1 :])
    return Pair(" ".join(words), without, same, "deletion")


def _bare(word: str) -> str:
    return re.sub(r"[^\w']", "", word).lower()


def make_pairs(
    source: Sources,
    count: int,
    rng: random.Random,
    shares: Mapping[str, float] = FAMILY_SHARES,
) -> list[Pair]:
    """`count` pairs with the families in their shares; about half of them mean the same."""
    makers: dict[str, Callable[[], Pair]] = {
        "facts": lambda: _answer_pair("facts", source, rng),
        "arithmetic": lambda: _answer_pair("arithmetic", source, rng),
        "translation": lambda: _answer_pair("translation", source, rng),
        "made_up": lambda: made_up_pair(source, rng),
        "prose": lambda: _prose_pair(source, NUM_WORDS_PROSE, "prose", rng),
        "long_prose": lambda: _prose_pair(source, NUM_WORDS_LONG, "long_prose", rng),
        "deletion": lambda: deletion_pair(source, rng),
    }
    pairs: list[Pair] = []
    for family in rng.choices(list(shares), list(shares.values()), k=count):
        pair = makers[family]()
        swapped = Pair(pair.second, pair.first, pair.same, pair.family)
        pairs.append(pair if rng.random() < 0.5 else swapped)
    return pairs
