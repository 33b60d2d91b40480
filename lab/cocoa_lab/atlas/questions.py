"""All questions of the atlas, and the forms in which a model is asked."""

from collections.abc import Callable, Mapping
from typing import Any

from cocoa_lab.atlas import Question, computed, places
from cocoa_lab.examples import Example, in_words

KINDS: Mapping[str, Callable[[], list[Question]]] = {
    "capital": places.capitals,
    "city_country": places.countries_of_cities,
    "continent": places.continents,
    "currency": places.currencies,
    "language": places.languages,
    "neighbour": places.neighbours,
    "larger": places.larger_cities,
    "element": computed.elements,
    "arithmetic": computed.sums,
    "date": computed.dates,
    "unit": computed.units,
    "program": computed.programs,
}
_NUM_SHOTS = 4
_FEW_WORDS = "Answer with the name, the word or the number alone."
_SENTENCE = "Answer in one sentence."
_SHORT, _LONG = 12, 40


def task_of(kind: str) -> str:
    """The task of a kind's examples."""
    return f"atlas/{kind}"


def few_words(kind: str) -> list[Example]:
    """Each question as a chat that asks for few words."""
    return [_chat(question, i, _FEW_WORDS, _SHORT) for i, question in enumerate(KINDS[kind]())]


def sentence(kind: str) -> list[Example]:
    """Each question as a chat that asks for a sentence."""
    return [_chat(question, i, _SENTENCE, _LONG) for i, question in enumerate(KINDS[kind]())]


def raw(kind: str) -> list[Example]:
    """Each question behind four others of its kind with their answers, for models without chats.

    The four are spread over the kind, and are not asked themselves.
    """
    every = KINDS[kind]()
    step = len(every) // _NUM_SHOTS
    shots = every[step // 2 :: step][:_NUM_SHOTS]
    before = "".join(f"Question: {one.text}\nAnswer: {one.answers[0]}\n\n" for one in shots)
    found = []
    for i, question in enumerate(every):
        if question not in shots:
            example = Example(
                id=f"{kind}-{i:03}",
                task=task_of(kind),
                prompt=f"{before}Question: {question.text}\nAnswer:",
                references=question.answers,
                max_new_tokens=_SHORT,
                stop=("\n",),
            )
            found.append(example)
    return found


FORMS: Mapping[str, Callable[[str], list[Example]]] = {
    "atlas": few_words,
    "atlas-sentence": sentence,
    "atlas-raw": raw,
}


def records() -> list[dict[str, Any]]:
    """Countries whose facts are asked for as a JSON object: lines of `cocoa_lab.parts.examples`."""
    found = []
    for name, facts in places.facts_of_countries():
        schema = {
            "type": "object",
            "properties": {key: {"type": "string", "maxLength": 40} for key in facts},
            "required": list(facts),
            "additionalProperties": False,
        }
        text = f"Tell {', '.join(facts).replace('_', ' ')} of {name} as a JSON object."
        line = {
            "id": name,
            "messages": [{"role": "user", "content": text}],
            "json_schema": schema,
            "reference": dict(facts),
            "max_new_tokens": 80,
        }
        found.append(line)
    return found


def _chat(question: Question, i: int, system: str, max_new_tokens: int) -> Example:
    messages = (
        {"role": "system", "content": system},
        {"role": "user", "content": question.text},
    )
    return Example(
        id=f"{question.kind}-{i:03}",
        task=task_of(question.kind),
        prompt=in_words(messages),
        messages=messages,
        references=question.answers,
        max_new_tokens=max_new_tokens,
    )
