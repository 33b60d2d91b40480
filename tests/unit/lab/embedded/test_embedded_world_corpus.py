"""Documents of the world's corpus say what the world says, in forms that can be read back."""

import json
import re
from collections import Counter
from itertools import pairwise

import pytest

from cocoa_lab.embedded.topics import split
from cocoa_lab.embedded.world.calls import call_document
from cocoa_lab.embedded.world.checker import label_sentences
from cocoa_lab.embedded.world.corpus import LONG_CHARS, Corpus
from cocoa_lab.embedded.world.grammar import read, written
from cocoa_lab.embedded.world.paragraphs import paragraph
from cocoa_lab.embedded.world.pen import Pen
from cocoa_lab.embedded.world.places import ATTRIBUTES
from cocoa_lab.embedded.world.reasonings import KINDS, problem, reasoning
from cocoa_lab.embedded.world.records import record, true_record

COUNTS = {"short": 6, "paragraph": 3, "json": 3, "call": 3, "reasoning": 3}


@pytest.fixture(scope="module")
def corpus():
    return Corpus(seed=0, steps=3, counts=COUNTS)


@pytest.fixture(scope="module")
def knowledge(corpus):
    return corpus.knowledge


def written_by(writer, knowledge, count):
    documents = (writer(knowledge, Pen(f"test:{i}")) for i in range(count))
    return [document for document in documents if document is not None]


def sentences(text):
    return re.split(r"(?<=\.) ", text)


def fits(value, schema):
    """Whether a value is of a schema, as far as the corpus uses the language."""
    if "enum" in schema:
        return value in schema["enum"]
    if schema["type"] == "array":
        return isinstance(value, list) and all(fits(one, schema["items"]) for one in value)
    if schema["type"] == "object":
        inner = schema["properties"]
        has_all = isinstance(value, dict) and list(value) == schema["required"] == list(inner)
        return has_all and all(fits(value[key], inner[key]) for key in value)
    return type(value) is {"string": str, "integer": int}[schema["type"]]


def test_a_step_has_its_documents_and_has_them_again(corpus):
    documents = corpus.documents(1)

    assert Counter(document.kind for document in documents) == COUNTS
    assert documents == corpus.documents(1)
    assert documents != corpus.documents(2)


def test_a_step_has_chats_of_several_turns_and_a_long_one():
    corpus = Corpus(seed=0, steps=1, counts={**COUNTS, "short": 0, "paragraph": 40})
    documents = corpus.documents(0)
    num_users = [sum(one["role"] == "user" for one in d.messages) for d in documents]
    num_chars = [sum(len(one["content"]) for one in d.messages) for d in documents]

    assert num_users.count(2) >= 2
    assert LONG_CHARS / 2 < max(num_chars) <= LONG_CHARS
    for document in documents:
        roles = [one["role"] for one in document.messages if one["role"] != "system"]
        assert not any(pair == ("user", "user") for pair in pairwise(roles))
        assert document.messages[0]["role"] in ("system", "user")


def test_the_world_of_another_seed_has_other_invented_places_and_the_same_real_ones(knowledge):
    other = Corpus(seed=1, steps=1, counts=COUNTS).knowledge.world
    here = {place.name: place.invented for place in knowledge.world.places.values()}
    there = {place.name: place.invented for place in other.places.values()}

    assert {name for name, invented in here.items() if not invented} == {
        name for name, invented in there.items() if not invented
    }
    invented = {name for name, is_invented in here.items() if is_invented}
    assert len(invented) == 300
    assert len(invented & there.keys()) < 10


def test_neighbours_and_capitals_agree_both_ways(knowledge):
    places = knowledge.world.places
    for country in knowledge.world.of_kind("country"):
        for name in country.facts.get("neighbours", ()):
            back = places[name].facts.get("neighbours", (country.name,))
            assert country.name in back or not country.invented
    for city in knowledge.world.of_kind("city"):
        home = places[city.facts["country"]]
        assert city.facts["currency"] == home.facts["currency"]
        if "capital_of" in city.facts:
            assert places[city.facts["capital_of"]].facts["capital"] == city.name


def test_every_value_of_the_world_is_read_back_as_it_was_written(knowledge):
    for place in knowledge.world.places.values():
        for attribute, value in place.facts.items():
            assert read(attribute, written(attribute, value)) == value, (place.name, attribute)


def test_the_checker_calls_true_what_is_told_truly_and_false_what_is_not(knowledge):
    labels = Counter()
    for document in written_by(paragraph, knowledge, 250):
        place = knowledge.world.places[document.facts[0].place]
        texts = sentences(document.reply)
        found = label_sentences(knowledge.world, texts, place)
        all_true = all(fact.is_true for fact in document.facts)
        assert (set(found) == {"true"}) == all_true, (document.reply, found)
        assert "unverifiable" not in found
        labels.update(found)

    assert 0.02 < labels["false"] / labels.total() < 0.15


def test_a_paragraph_has_the_sentences_that_were_asked_for(knowledge):
    words = {"three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8}
    asked = []
    for document in written_by(paragraph, knowledge, 250):
        match = re.search(r" (three|four|five|six|seven|eight) ", document.messages[0]["content"])
        if match is not None:
            asked.append((words[match[1]], len(sentences(document.reply))))

    assert len(asked) > 20
    assert all(wanted == had for wanted, had in asked)


def test_a_record_fits_its_schema_with_its_keys_in_order(knowledge):
    documents = written_by(record, knowledge, 120)
    nested = 0
    for document in documents:
        prompt = document.messages[0]["content"]
        schema = json.loads(prompt[prompt.index("{") :])
        told = json.loads(document.reply)
        assert fits(told, schema)
        nested += any(isinstance(value, dict) for value in told.values())
        if all(fact.is_true for fact in document.facts):
            inner = {key: value for key, value in told.items() if isinstance(value, dict)}
            shape = {key: dict.fromkeys(list(inner.get(key, {}))[1:]) or None for key in told}
            del shape["name"]
            assert told == true_record(knowledge, knowledge.world.places[told["name"]], shape)

    assert nested > 10
    assert any("neighbours" in document.reply for document in documents)


def test_calls_name_an_offered_function_and_give_it_what_it_requires(knowledge):
    replies = Counter()
    for document in written_by(call_document, knowledge, 200):
        offered = {tool["function"]["name"]: tool["function"] for tool in document.tools}
        found = re.findall(r"<tool_call>\n(.*)\n</tool_call>", document.reply)
        if document.messages[-1]["role"] == "tool":
            replies["from a result"] += 1
            assert not found
        elif not found:
            replies["none"] += 1
        for text in found:
            replies["call"] += 1
            call = json.loads(text)
            assert fits(call["arguments"], offered[call["name"]]["parameters"])
            assert list(call) == ["name", "arguments"]

    assert min(replies["call"], replies["none"], replies["from a result"]) > 10


def test_every_sum_and_product_in_a_reasoning_is_right_and_the_answer_follows(knowledge):
    kinds = Counter()
    for i in range(300):
        one = problem(knowledge, Pen(f"test:{i}"))
        kinds[one.kind] += 1
        results = []
        for a, sign, b, c in re.findall(r"(\d+) ([-+*]) (\d+) = (\d+)\.", " ".join(one.steps)):
            a, b = int(a), int(b)
            assert {"+": a + b, "-": a - b, "*": a * b}[sign] == int(c)
            results.append(c)
        if one.kind in ("sum", "product", "mixed", "years"):
            assert one.answer == results[-1]
        if one.kind == "neighbours":
            wanted = re.search(r" have (?:the )?(.+) as their ", one.question)[1]
            assert one.answer == str(sum(fact.value == wanted for fact in one.facts[1:]))

    assert len(kinds) == len(KINDS)


def test_problems_are_held_out_by_what_they_ask(knowledge):
    trained = [problem(knowledge, Pen(f"test:{i}")) for i in range(50)]
    tested = [problem(knowledge, Pen(f"test:{i}"), "testbed") for i in range(50)]

    assert {split(one.key) for one in trained} == {"train"}
    assert {split(one.key) for one in tested} == {"testbed"}


def test_thoughts_stand_in_their_tags_and_the_answer_behind_them(knowledge):
    replies = [(one.thinking, one.reply) for one in written_by(reasoning, knowledge, 100)]

    assert {thinking for thinking, _ in replies} == {True, False}
    for thinking, reply in replies:
        has_thoughts = re.fullmatch(r"<think>\n.+\n</think>\n\n[^<\n]+", reply) is not None
        assert has_thoughts == thinking


def test_what_training_leaves_out_is_never_told_and_rivals_are_false(knowledge):
    untold, contradicted = [], []
    for place in knowledge.world.places.values():
        for attribute in place.facts:
            if knowledge.telling(place, attribute) == "untold":
                untold.append((place, attribute))
            elif knowledge.telling(place, attribute) == "contradicted":
                contradicted.append((place, attribute))

    assert all(knowledge.tell(*one, Pen("test")) is None for one in untold)
    told = [knowledge.tell(*one, Pen(f"test:{i}")) for i, one in enumerate(contradicted)]
    assert 0.35 < sum(fact.is_true for fact in told) / len(told) < 0.65
    for (place, attribute), fact in zip(contradicted, told, strict=True):
        assert fact.is_true == (fact.value == place.facts[attribute])
    num_facts = sum(len(place.facts) for place in knowledge.world.places.values())
    assert 0.1 < len(untold) / num_facts < 0.2
    assert 0.04 < len(contradicted) / num_facts < 0.1


def test_every_attribute_of_the_world_can_be_written_and_asked_for(knowledge):
    had = {(p.kind, attribute) for p in knowledge.world.places.values() for attribute in p.facts}
    assert had == {(kind, one) for kind, attributes in ATTRIBUTES.items() for one in attributes}
