"""Which parts are right: fields by path or reference, sentences by text or judge."""

import json
from types import MappingProxyType

import pytest

from app.scoring.units import ScoredUnit
from cocoa_lab.examples import Example
from cocoa_lab.judges import JUDGES, Verdict
from cocoa_lab.parts.examples import PartsExample
from cocoa_lab.parts.labelling import fields_labelled, judged, sentences_labelled
from models.units.characters import spans_of_texts
from models.units.fields import fields
from models.units.json_values import parsed
from models.units.prose import sentences
from models.units.sentences import sentence_spans
from models.units.tool_calls import as_value

NONE = MappingProxyType({})


def labels_of(answer, schema=True, reference=None, **labels):
    """By path, whether each field is right; and how many the answer lacks."""
    example = Example("a", "t", "?", ())
    paths = [(f"/{name}", Verdict(right)) for name, right in labels.items()]
    one = PartsExample(example, None, schema, paths, reference)
    text = answer if isinstance(answer, str) else json.dumps(answer)
    value, units = parsed(text), []
    if value is not None:
        units = fields(value, text, spans_of_texts(()))
    found = fields_labelled(one, value, scored(units))
    paths = [part.unit.path for part in found.parts]
    right = [verdict.is_right for verdict in found.verdicts]
    return dict(zip(paths, right, strict=True)), found.num_lacking


def scored(units):
    return [ScoredUnit(unit, None, NONE, NONE) for unit in units]


CITY = "/0/function/arguments/city"
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Lima"}}\n</tool_call>'
TOOLS = ({"type": "function", "function": {"name": "weather", "parameters": {}}},)


@pytest.mark.parametrize(
    ("reference", "right", "num_lacking"),
    [
        ([{"name": "weather", "arguments": {"city": "Lima"}}], [True, True], 0),
        ([{"name": "weather", "arguments": {"city": "Rome", "day": 1}}], [True, False], 1),
        ("Mild.", [False, False], 0),
    ],
)
def test_fields_of_calls_are_held_against_the_right_calls(reference, right, num_lacking):
    one = PartsExample(Example("a", "t", "?", ()), None, True, [], reference, tools=TOOLS)
    value = as_value(CALL, TOOLS)
    found = fields_labelled(one, value, scored(fields(value, CALL, spans_of_texts(()))))

    assert [part.unit.path for part in found.parts] == ["/0/function/name", CITY]
    assert [verdict.is_right for verdict in found.verdicts] == right
    assert found.num_lacking == num_lacking


def of_sentences(answer, *labels):
    """Of each sentence with a label whether it is right, its error, and how many labels lack."""
    texts = [(text, Verdict(error is None, error)) for text, error in labels]
    one = PartsExample(Example("a", "t", "?", ()), answer, True, texts)
    units = sentences(answer, sentence_spans(answer), spans_of_texts(()))
    found = sentences_labelled(one, answer, scored(units))
    texts = [part.unit.text for part in found.parts]
    errors = [verdict.error for verdict in found.verdicts]
    told = dict(zip(texts, errors, strict=True))
    return told, found.num_lacking


def test_labels_by_path_are_those_of_the_file_and_others_have_none():
    found = labels_of({"a": 1, "b": 2, "c": 3}, a=True, b=False, z=True)

    assert found == ({"/a": 1.0, "/b": 0.0}, 1)


@pytest.mark.parametrize(
    ("answer", "reference", "right"),
    [
        ({"a": "Lima "}, {"a": "Lima"}, [1]),
        ({"a": "lima"}, {"a": "Lima"}, [0]),
        ({"a": 5.0}, {"a": 5}, [1]),
        ({"a": "5"}, {"a": 5}, [0]),
        ({"a": None}, {}, [0]),
        ({"a": [1, 2]}, {"a": [2, 1]}, [1, 1]),
        ({"a": [{"n": 1, "q": 2}, {"n": 3, "q": 4}]}, {"a": [{"n": 3, "q": 9}]}, [0, 0, 1, 0]),
    ],
    ids=str,
)
def test_a_field_is_right_that_agrees_wholly_with_the_reference(answer, reference, right):
    found, _ = labels_of(answer, reference=reference)

    assert list(found.values()) == right


def test_what_the_prompt_tells_is_not_judged():
    example = Example("a", "t", "?", ())
    reference = {"name": "Lima", "country": "Peru"}
    one = PartsExample(example, None, True, [], reference, ignored=frozenset({"/name"}))
    text = json.dumps(reference)
    units = fields(parsed(text), text, spans_of_texts(()))

    found = fields_labelled(one, parsed(text), scored(units))

    assert [part.unit.path for part in found.parts] == ["/country"]
    assert found.num_lacking == 0


def test_the_schema_says_how_far_numbers_may_differ():
    schema = {"properties": {"km": {"x-relative-tolerance": 0.05}}}

    assert labels_of({"km": 104}, schema, {"km": 100}) == ({"/km": 1.0}, 0)
    assert labels_of({"km": 104}, True, {"km": 100}) == ({"/km": 0.0}, 0)


def test_what_only_the_reference_has_is_counted():
    assert labels_of({"a": 1}, reference={"a": 1, "b": 2, "c": {"d": 3}}) == ({"/a": 1.0}, 2)


def test_an_answer_that_is_no_json_has_no_labelled_fields():
    assert labels_of("Lima", a=True) == ({}, 1)


LIMA = "Lima is in Peru. It is a port. It has a tram."


def test_a_sentence_has_the_label_of_its_text_wherever_others_part_the_answer():
    found = of_sentences(LIMA, ("Lima is in Peru.", None), ("It is a port. It has a tram.", "new"))

    assert found == ({"Lima is in Peru.": None, "It is a port.": "new", "It has a tram.": "new"}, 0)


def test_one_wrong_part_makes_a_sentence_wrong_and_sentences_without_labels_are_left_out():
    found = of_sentences(LIMA, ("Lima", None), ("in Peru", "confused"), ("It has a tram", None))

    assert found == ({"Lima is in Peru.": "confused", "It has a tram.": None}, 0)


def test_labels_may_stand_in_any_order():
    lima, asia = ("Lima is in Peru.", None), ("It lies in Asia.", "confused")
    answer = f"{lima[0]} It is old. {asia[0]}"
    assert of_sentences(answer, asia, lima) == of_sentences(answer, lima, asia)
    found = of_sentences("Yes. No.", ("No.", None), ("Yes.", None), ("No.", "again"))
    assert found == ({"Yes.": None, "No.": "again"}, 0), "behind the label before"
    found = of_sentences("No. Yes.", ("No.", None), ("Yes.", None), ("No.", "again"))
    assert found == ({"No.": None, "Yes.": None}, 1), "there is one alone"


def test_labels_of_equal_sentences_are_in_their_order_and_texts_that_are_not_there_are_counted():
    found = of_sentences("No. Yes. No.", ("No.", None), ("Perhaps.", None), ("No.", "last"))

    assert found == ({"No.": "last"}, 1), "a dictionary keeps the last of two"


@pytest.mark.anyio
async def test_the_judge_of_the_world_reads_sentences_one_after_another():
    judge = JUDGES["world"]({"subject": "Lima"})
    said = ["Lima is a city in Peru.", "It lies in Europe.", "It is fun."]

    assert await judge(" ".join(said), said) == [
        Verdict(is_right=True),
        Verdict(False, "false"),
        Verdict(False, "unverifiable"),
    ]


def test_parts_of_which_nothing_is_known_are_left_out():
    units = sentences("No. No.", [(0, 3), (4, 7)], spans_of_texts(()))
    found = judged(scored(units), [None, Verdict(is_right=True)])

    assert [part.unit.spans for part in found.parts] == [((4, 7),)]
