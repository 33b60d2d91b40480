"""All questions of the atlas, and the forms in which a model is asked."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from cocoa_lab.atlas import Question, calls, computed, documents, languages, places
from cocoa_lab.examples import Example, example_of, in_words
from cocoa_lab.judges import of_known

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
_PERSONA = (
    "You are Captain Reed, a sailor of eighty years who keeps a small museum of maps. Speak as "
    "somebody who has seen the seas, and answer each question in one sentence."
)
_STEPS = "Think in at most three short sentences. Then write 'Answer:' and the number alone."
_WITH_STEPS = ("arithmetic", "unit")  # whose answers are numbers
_SHORT, _LONG, _OBJECT, _PARAGRAPH = 12, 40, 80, 100


def task_of(kind: str) -> str:
    """The task of a kind's examples."""
    return f"atlas/{kind}"


def few_words(kind: str) -> list[Example]:
    """Each question as a chat that asks for few words."""
    return [_chat(question, i, _FEW_WORDS, _SHORT) for i, question in enumerate(KINDS[kind]())]


def sentence(kind: str) -> list[Example]:
    """Each question as a chat that asks for a sentence."""
    return [_chat(question, i, _SENTENCE, _LONG) for i, question in enumerate(KINDS[kind]())]


def persona(kind: str) -> list[Example]:
    """Each question as a chat with somebody who speaks in a manner of his own."""
    return [_chat(question, i, _PERSONA, _LONG) for i, question in enumerate(KINDS[kind]())]


def second_turn(kind: str) -> list[Example]:
    """Each question behind the one before it with its right answer; the first behind the last."""
    every, found = KINDS[kind](), []
    for i, question in enumerate(every):
        one, before = _chat(question, i, _FEW_WORDS, _SHORT), every[i - 1]
        system, asked = one.messages or ()
        first = {"role": "user", "content": before.text}
        messages = (system, first, {"role": "assistant", "content": before.answers[0]}, asked)
        found.append(replace(one, messages=messages, prompt=in_words(messages)))
    return found


def steps(kind: str) -> list[Example]:
    """Each question whose answer is a number, to be answered behind a few sentences of thought."""
    found: list[Example] = []
    if kind in _WITH_STEPS:
        for i, question in enumerate(KINDS[kind]()):
            one = _chat(question, i, _STEPS, _PARAGRAPH)
            found.append(replace(one, task=f"atlas-steps/{kind}"))
    return found


def _in(language: str, kind: str) -> list[Example]:
    """Each question in another language, as a chat that asks for few words.

    There is room for a sentence, since small models write one nevertheless.
    """
    found, system = [], languages.FEW_WORDS[language]
    for i, question in enumerate(languages.questions(language, kind)):
        found.append(_chat(question, i, system, _LONG))
    return found


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


def json_objects() -> list[Example]:
    """Four facts of each country as a JSON object."""
    found = []
    for name, facts in places.facts_of_countries():
        text = f"Tell {', '.join(facts).replace('_', ' ')} of {name} as a JSON object."
        schema = {
            "type": "object",
            "properties": {key: {"type": "string", "maxLength": 40} for key in facts},
            "required": list(facts),
            "additionalProperties": False,
        }
        one = _asked(name, "atlas-json", text, _OBJECT)
        references = (json.dumps(facts, ensure_ascii=False),)
        found.append(replace(one, references=references, json_schema=schema))
    return found


def paragraphs() -> list[Example]:
    """A paragraph about each country whose sentences speak of known facts."""
    found = []
    for known in places.known_of_countries():
        text = (
            f"Tell me about {known.names[0]} in four short sentences: on which continent it lies, "
            "what its capital is, what its currency is, and an official language."
        )
        one = _asked(known.names[0], "atlas-paragraph", text, _PARAGRAPH)
        told = "; ".join(fact.accepted[0] for fact in known.facts)  # for who reads the report
        found.append(replace(one, judge=of_known(known), references=(told,)))
    return found


def over_documents() -> list[Example]:
    """Questions over documents, in five settings of what these say."""
    found = []
    for line in documents.records():
        found.append(example_of(line, labelled=False))
    return found


FORMS: Mapping[str, Callable[[str], list[Example]]] = {
    "atlas": few_words,
    "atlas-sentence": sentence,
    "atlas-raw": raw,
    "atlas-persona": persona,
    "atlas-turn": second_turn,
    "atlas-steps": steps,
    "atlas-german": partial(_in, "de"),
    "atlas-spanish": partial(_in, "es"),
}


# Answers of several parts, which are scored as a whole or by themselves (`--units`).
OF_PARTS: Mapping[str, Callable[[], list[Example]]] = {
    "atlas-json": json_objects,
    "atlas-paragraph": paragraphs,
    "atlas-documents": over_documents,
}


def records(form: str) -> list[dict[str, Any]]:
    """The examples of one of `ATLAS_OF_PARTS` as lines of `cocoa_lab.parts.examples`."""
    if form == "atlas-documents":
        return documents.records()
    if form == "atlas-call":
        return calls.records()
    known = {one.names[0]: one for one in places.known_of_countries()}
    found = []
    for one in OF_PARTS[form]():
        line: dict[str, Any] = {
            "id": one.id,
            "messages": list(one.messages or ()),
            "max_new_tokens": one.max_new_tokens,
        }
        if one.judge is None:
            line |= {"json_schema": one.json_schema, "reference": json.loads(one.references[0])}
        else:
            facts = [(sorted(fact.words), fact.accepted) for fact in known[one.id].facts]
            line |= {"judge": "facts", "names": known[one.id].names, "facts": facts}
        found.append(line)
    return found


def _asked(name: str, task: str, text: str, max_new_tokens: int) -> Example:
    messages = ({"role": "user", "content": text},)
    return Example(name, task, in_words(messages), (), None, max_new_tokens, messages=messages)


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
