"""Questions over documents by rule, of which it is known what each document says.

What documents say and what is true are two things: in some settings a value is exchanged or left
out, so that an answer may stand in the documents, or come from the model's memory, or from nowhere.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from cocoa_lab.atlas.places import known_of_countries
from cocoa_lab.facts import Known

NUM_OF_SETTING = 60
_SEED, _NUM_DOCUMENTS, _NUM_LEFT_OUT, _NUM_ASKED = 69, 5, 2, 90
_SETTINGS = ("true", "distractors", "exchanged", "both", "left_out")
_QUESTIONS = (
    "What is the capital of {name}?",
    "On which continent is {name}?",
    "Which currency is used in {name}?",
    "Which language is official in {name}?",
)
_OF_ALL = (
    "Tell me about {name} in four short sentences: on which continent it lies, what its capital "
    "is, what its currency is, and an official language."
)
# The facts of a country in words, as `known_of_countries` has them: those of one text are one row.
_WORDINGS = (
    (
        "The capital is {value}, where the government sits.",
        "{name} lies in {value}.",
        "People pay there with {value}, the official currency.",
        "The language of offices and schools is {value}.",
    ),
    (
        "Its government has its seat in the capital, {value}.",
        "{name} is a country of {value}.",
        "Prices are in the national currency, which is {value}.",
        "As an official language it has {value}.",
    ),
)
# Sentences that say no value.
_BESIDE = (
    "Visitors come mostly between the rains, when roads are dry and hotels are full.",
    "Most people live near the coast or in the valleys, and the young move to the cities.",
    "Trade has grown over the last years, though less than its government had hoped.",
    "Schools are free for the first years, and most children attend them.",
    "Farmers grow grain and fruit, and sell a part of it abroad.",
    "Buses connect the larger towns, while trains carry goods more than people.",
)
_CURRENCY = 2  # its place among the facts
# Words by which a sentence speaks of each, beside those that a paragraph has.
_ALSO = ((), ("lies", "located"), ("pay", "use"), ("spoken", "speak"))
_MAX_NEW_TOKENS = 100

# A value of each fact as it is accepted, the one that is written first; empty for none.
Values = list[tuple[str, ...]]


def records() -> list[dict[str, Any]]:
    """Lines of `cocoa_lab.parts.examples`, those of each setting one after another.

    - true: the document of the subject among four others.
    - distractors: five others.
    - exchanged: the value that is asked for is another country's, in the document of the subject.
    - both: that beside the document with the true one.
    - left_out: two of four facts are in no document, and all are asked for.
    """
    random, found = Random(_SEED), []  # noqa: S311 - draws questions, and no secrets
    countries = known_of_countries()
    for setting in _SETTINGS:
        for number in range(NUM_OF_SETTING):
            subject = random.choice(countries[:_NUM_ASKED])
            others = [one for one in countries if one is not subject]
            texts = []
            for other in random.sample(others, _NUM_DOCUMENTS):
                texts.append(_text(random, other, _values(other)))
            asked, said = number % len(_QUESTIONS), _values(subject)
            question = _QUESTIONS[asked]
            if setting == "distractors":
                said = [()] * len(said)
            elif setting == "left_out":
                question = _OF_ALL
                for place in random.sample(range(len(said)), _NUM_LEFT_OUT):
                    said[place] = ()
            elif setting != "true":
                said[asked] = _exchanged(random, others, asked, said[asked])
            if setting != "distractors":
                texts[0] = _text(random, subject, said)
            if setting == "both":
                true = _values(subject)
                texts[1] = _text(random, subject, true)
                said[asked] += true[asked]
            random.shuffle(texts)
            name = f"{setting}-{number:02}"
            found.append(_record(name, setting, question, subject, texts, said))
    return found


def _record(
    name: str, setting: str, question: str, subject: Known, texts: list[str], said: Values
) -> dict[str, Any]:
    length = "four short sentences" if question == _OF_ALL else "one sentence"
    return {
        "id": name,
        "task": f"atlas-documents/{setting}",
        "messages": [
            {"role": "system", "content": f"Answer in {length}."},
            {"role": "user", "content": question.format(name=subject.names[0])},
        ],
        "max_new_tokens": _MAX_NEW_TOKENS,
        "documents": texts,
        "judge": "documents",
        "names": subject.names,
        "facts": _facts(subject, said),
        "true_facts": _facts(subject, _values(subject)),
    }


def _facts(subject: Known, values: Values) -> list[tuple[list[str], tuple[str, ...]]]:
    facts = []
    for fact, also, accepted in zip(subject.facts, _ALSO, values, strict=True):
        facts.append((sorted(fact.words.union(also)), accepted))
    return facts


def _values(subject: Known) -> Values:
    values = [fact.accepted for fact in subject.facts]
    full = max(values[_CURRENCY], key=len)  # "Peruvian soles" rather than "Sol"
    values[_CURRENCY] = (full, *values[_CURRENCY])
    return values


def _exchanged(
    random: Random, others: Sequence[Known], asked: int, true: Sequence[str]
) -> tuple[str, ...]:
    """What another country has, none of which is true of the subject."""
    while True:
        values = _values(random.choice(others))[asked]
        if not set(values) & set(true):
            return values


def _text(random: Random, subject: Known, values: Values) -> str:
    name, wording = subject.names[0], random.choice(_WORDINGS)
    sentences = [random.choice(_BESIDE)]
    for pattern, accepted in zip(wording, values, strict=True):
        if accepted:
            sentence = pattern.format(name=name, value=accepted[0])
            sentences.append(sentence[:1].upper() + sentence[1:])
    random.shuffle(sentences)
    return " ".join((f"This is about {name}.", *sentences))
