"""Pairs of texts labelled entailment, neutral or contradiction; the prompt is not shown.

The label is the same in both orders, because the estimators ask whether two answers mean the same:

- entailment: the same answer in any two wordings, bare or spelled out; the same text in other
  case, punctuation or quotes.
- contradiction: two answers that could answer one question and differ in value; a text with one
  word replaced.
- neutral: two texts that both say what they are about and are about different things; a number and
  a name; an answer and the mere subject of its question; an answer and unrelated prose; a text and
  the same text without one of its content words.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, get_args

from cocoa_lab.embedded.facts import ANSWERS
from cocoa_lab.embedded.near_misses import Part, hybrid, near_spelling, part_of
from cocoa_lab.embedded.pairs import (
    NUM_WORDS_LONG,
    NUM_WORDS_PROSE,
    Sources,
    cosmetic,
    deletion_pair,
    equal,
    excerpt,
    made_up_pair,
    other_answer,
    sources,
    with_lead_in,
    with_other_word,
    worded,
)
from cocoa_lab.embedded.topics import Topic, wordings

Label = Literal["entailment", "neutral", "contradiction"]
LABELS: tuple[Label, ...] = get_args(Label)

FAMILY_SHARES = {
    "facts": 0.15,
    "arithmetic": 0.17,
    "translation": 0.13,
    "made_up": 0.1,
    "one_subject": 0.08,
    "two_places": 0.05,
    "other_question": 0.1,
    "other_kind": 0.06,
    "subject": 0.03,
    "prose": 0.08,
    "long_prose": 0.015,
    "deletion": 0.035,
}
RIGHT_ANSWER_SHARE = 0.4
FACTS_ABOUT_ONE_SUBJECT = (("city_country", "city_continent"), ("capital", "currency", "continent"))


@dataclass(frozen=True, slots=True)
class NliPair:
    first: str
    second: str
    label: Label
    family: str


def nli_sources(part: Part) -> Sources:
    """As `sources`, but within a task no kind of question is over twice as frequent as another.

    Otherwise few questions would be about capitals, for example.
    """
    source = sources(part)
    levelled = {task: _levelled(topics) for task, topics in source.topics.items()}
    return replace(source, topics=levelled)


def _levelled(topics: Sequence[Topic]) -> list[Topic]:
    """The topics, those of rare kinds repeated."""
    counts = Counter(topic.kind for topic in topics)
    highest = max(counts.values())
    levelled: list[Topic] = []
    for topic in topics:
        levelled += [topic] * (highest // counts[topic.kind])
    return levelled


def _value(topic: Topic, source: Sources, rng: random.Random) -> str:
    """At times the right answer, if this part of the split may use it, else any of its kind."""
    if rng.random() < RIGHT_ANSWER_SHARE and part_of(topic.answer) == source.values.part:
        return topic.answer
    return source.values.of(topic.kind, topic.language, rng)


def _topic(source: Sources, tasks: Sequence[str], rng: random.Random) -> Topic:
    return rng.choice(source.topics[rng.choice(tasks)])


def _statement(topic: Topic, answer: str, rng: random.Random) -> str:
    """A wording that says what it is about: the subject, or the language of a translation."""
    texts = wordings(topic, answer)
    return rng.choice(texts[2:] if topic.language else texts[2:3])


def _answers(task: str, source: Sources, rng: random.Random) -> tuple[str, str, Label]:
    """Two answers to one question, right or wrong: the same value or another."""
    topic = rng.choice(source.topics[task])
    answer = _value(topic, source, rng)
    other = answer if rng.random() < 0.5 else other_answer(topic, answer, source.values, rng)
    label: Label = "entailment" if equal(answer, other) else "contradiction"
    return worded(topic, answer, rng), worded(topic, other, rng), label


def _one_subject(source: Sources, rng: random.Random) -> tuple[str, str, Label]:
    """Two statements about one subject that differ in value.

    Beside those of `_two_places`, which look like these, the kinds of the values have to decide.
    """
    topic = _topic(source, sorted(source.topics), rng)
    answer = _value(topic, source, rng)
    other = other_answer(topic, answer, source.values, rng)
    label: Label = "entailment" if equal(answer, other) else "contradiction"
    return _statement(topic, answer, rng), _statement(topic, other, rng), label


def _two_places(source: Sources, rng: random.Random) -> tuple[str, str, Label]:
    """Country and continent of one city: "Boston is in France." and "Boston is in Europe.".

    Half of the countries are made up, so that a country that training never named is one, too.
    """
    topic = rng.choice(source.topics["facts"])
    while not topic.kind.startswith("city"):
        topic = rng.choice(source.topics["facts"])
    country = rng.choice(source.values.countries)
    if rng.random() < 0.5:
        country = hybrid(country, rng.choice(source.values.cities), rng)
    continent = rng.choice(source.values.continents)
    texts = [_statement(topic, value, rng) for value in (country, continent)]
    return texts[0], texts[1], "neutral"


def contradicting_statements(source: Sources, count: int, rng: random.Random) -> list[NliPair]:
    """Statements about one subject that differ in value; the family is the kind of question.

    They serve evaluation only: without near misses, and by kind, of which the mixed pairs hold too
    few.
    """
    pairs: list[NliPair] = []
    while len(pairs) < count:
        topic = _topic(source, sorted(source.topics), rng)
        answer, other = _value(topic, source, rng), _value(topic, source, rng)
        if not equal(answer, other):
            texts = _statement(topic, answer, rng), _statement(topic, other, rng)
            pairs.append(NliPair(*texts, "contradiction", topic.kind))
    return pairs


def _made_up(source: Sources, rng: random.Random) -> tuple[str, str, Label]:
    pair = made_up_pair(source, rng)
    return pair.first, pair.second, "entailment" if pair.same else "contradiction"


def _shown_of(topic: Topic) -> tuple[str, str]:
    """The part of the question that a statement shows."""
    return (topic.task, topic.language) if topic.language else (topic.kind, topic.subject)


def _near_question(topic: Topic, source: Sources, rng: random.Random) -> Topic:
    """The topic with its subject misspelt, or another fact about the same subject."""
    if rng.random() < 0.5:
        return replace(topic, subject=near_spelling(topic.subject, rng))
    kinds = next(kinds for kinds in FACTS_ABOUT_ONE_SUBJECT if topic.kind in kinds)
    kind = rng.choice([kind for kind in kinds if kind != topic.kind])
    answer = source.values.of(kind, "", rng)
    return replace(topic, kind=kind, answer=answer, answer_templates=ANSWERS[kind])


def _other_question(source: Sources, rng: random.Random) -> tuple[str, str, Label]:
    """Two statements about different things, with the same value or not."""
    tasks = sorted(source.topics)
    topic = _topic(source, tasks, rng)
    if topic.task == "facts" and rng.random() < 0.6:
        stranger = _near_question(topic, source, rng)
    else:
        stranger = _topic(source, [topic.task, *tasks], rng)
    while _shown_of(stranger) == _shown_of(topic):
        stranger = _topic(source, tasks, rng)
    answer = _value(topic, source, rng)
    repeats_answer = stranger.kind == topic.kind and rng.random() < 0.6
    other = answer if repeats_answer else _value(stranger, source, rng)
    return _statement(topic, answer, rng), _statement(stranger, other, rng), "neutral"


def _other_kind(source: Sources, rng: random.Random) -> tuple[str, str, Label]:
    """An answer in digits with one in words, or any answer with unrelated prose."""
    if rng.random() < 0.5:
        topic = _topic(source, sorted(source.topics), rng)
        second = " ".join(excerpt(source, NUM_WORDS_PROSE, rng))
    else:
        topic = _topic(source, ("facts", "translation"), rng)
        calculation = _topic(source, ("arithmetic",), rng)
        second = worded(calculation, _value(calculation, source, rng), rng)
    return worded(topic, _value(topic, source, rng), rng), second, "neutral"


def _subject(source: Sources, rng: random.Random) -> tuple[str, str, Label]:
    """A statement and the bare subject of its question, which does not contradict it."""
    topic = _topic(source, ("facts", "arithmetic"), rng)
    answer = _value(topic, source, rng)
    same = equal(answer, topic.subject)
    return _statement(topic, answer, rng), topic.subject, "entailment" if same else "neutral"


def _prose(bounds: tuple[int, int], source: Sources, rng: random.Random) -> tuple[str, str, Label]:
    """English outside the three tasks: the same words, one word replaced, or another text."""
    words = excerpt(source, bounds, rng)
    first, choice = " ".join(words), rng.random()
    if choice < 0.4:
        second = with_lead_in(first, rng) if choice < 0.1 else first
        return first, second, "entailment"
    if choice < 0.7:
        second = with_other_word(words, source, rng)
        return first, second, "entailment" if equal(first, second) else "contradiction"
    second = " ".join(excerpt(source, bounds, rng))
    return first, second, "entailment" if equal(first, second) else "neutral"


def _deletion(source: Sources, rng: random.Random) -> tuple[str, str, Label]:
    pair = deletion_pair(source, rng)
    return pair.first, pair.second, "entailment" if pair.same else "neutral"


MAKERS: dict[str, Callable[[Sources, random.Random], tuple[str, str, Label]]] = {
    "facts": partial(_answers, "facts"),
    "arithmetic": partial(_answers, "arithmetic"),
    "translation": partial(_answers, "translation"),
    "made_up": _made_up,
    "one_subject": _one_subject,
    "two_places": _two_places,
    "other_question": _other_question,
    "other_kind": _other_kind,
    "subject": _subject,
    "prose": partial(_prose, NUM_WORDS_PROSE),
    "long_prose": partial(_prose, NUM_WORDS_LONG),
    "deletion": _deletion,
}


def make_nli_pairs(
    source: Sources,
    count: int,
    rng: random.Random,
    shares: Mapping[str, float] = FAMILY_SHARES,
) -> list[NliPair]:
    """`count` pairs with the families in their shares, either text first."""
    families = rng.choices(list(shares), weights=list(shares.values()), k=count)
    pairs = []
    for family in families:
        first, second, label = MAKERS[family](source, rng)
        texts = [cosmetic(first, rng), cosmetic(second, rng)]
        rng.shuffle(texts)
        pairs.append(NliPair(texts[0], texts[1], label, family))
    return pairs
