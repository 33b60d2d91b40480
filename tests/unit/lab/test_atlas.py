"""Questions whose answers follow by rule: their truth by other ways, their forms, their labels."""

import asyncio
import datetime
import io
import math
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from cocoa_lab.atlas.places import known_of_countries
from cocoa_lab.atlas.questions import FORMS, KINDS, records
from cocoa_lab.datasets import load
from cocoa_lab.judges import Verdict, judge_of
from cocoa_lab.parts.examples import read_parts
from cocoa_lab.quality import contains, facts, fields, gsm8k, quality_names


def truth(kind):
    return {question.text: question.answers for question in KINDS[kind]()}


def test_there_are_twelve_kinds_with_as_many_questions_each():
    sizes = [len(set(truth(kind))) for kind in KINDS]
    assert len(KINDS) == 12
    assert sum(sizes) >= 1500
    assert min(sizes) > 110


@pytest.mark.parametrize(
    ("kind", "text", "right", "wrong"),
    [
        ("capital", "What is the capital of Peru?", "The capital is Lima.", "It is Cusco, Peru."),
        ("capital", "What is the capital of Panama?", "Panama City", "Panama"),
        ("capital", "What is the capital of Colombia?", "bogota", "Colombo"),
        ("continent", "On which continent is Chad?", "Chad is in Africa.", "Asia"),
        ("currency", "What is the currency of Peru?", "The Peruvian sol", "the peso"),
        ("currency", "What is the currency of France?", "Euros.", "Franc"),
        ("language", "Name an official language of Bangladesh.", "It is Bengali.", "Hindi"),
        ("neighbour", "Name one country that borders Portugal.", "Spain borders it.", "France"),
        ("neighbour", "Name one country that borders Canada.", "the USA", "Mexico"),
        ("element", "What is the atomic number of iron?", "n/a", "n/a"),
        ("element", "Which chemical element has the atomic number 26?", "Iron (Fe)", "Gold"),
        ("element", "Which chemical element has the atomic number 16?", "sulphur", "oxygen"),
    ],
)
def test_known_facts_are_right_in_the_words_of_an_answer(kind, text, right, wrong):
    examples = {one.prompt.rpartition("user: ")[2]: one for one in FORMS["atlas"](kind)}
    if text not in examples:
        assert right == "n/a"  # every second element is asked for by its number
        return
    assert contains(right, examples[text]) == 1.0
    assert contains(wrong, examples[text]) == 0.0


def test_sums_are_what_the_interpreter_says():
    for text, (answer,) in truth("arithmetic").items():
        assert answer == str(eval(re.fullmatch(r"What is (.*)\?", text)[1]))


def test_programs_print_what_they_print():
    for text, (answer,) in truth("program").items():
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(text.partition("\n\n")[2], {})
        assert printed.getvalue().strip() == answer


def test_dates_are_those_of_the_calendar():
    def day(text):
        return datetime.datetime.strptime(text, "%d %B %Y").date()

    told = r"(\d+ \w+ \d{4})"
    for text, (answer,) in truth("date").items():
        if found := re.fullmatch(rf"How many days after {told} is {told}\?", text):
            assert int(answer) == (day(found[2]) - day(found[1])).days > 0
            continue
        found = re.fullmatch(rf"{told} was a (\w+)\. Which day of the week was {told}\?", text)
        assert f"{day(found[1]):%A}" == found[2]
        assert f"{day(found[3]):%A}" == answer


def test_units_are_those_of_a_table_of_metres_seconds_and_grams():
    si = {
        "kilometres": 1000, "metres": 1, "feet": 0.3048, "inches": 0.0254, "centimetres": 0.01,
        "yards": 0.9144, "miles": 1609.344, "nautical miles": 1852, "hours": 3600, "minutes": 60,
        "weeks": 604800, "days": 86400, "tonnes": 1e6, "kilograms": 1e3, "pounds": 453.59237,
        "ounces": 453.59237 / 16, "stone": 14 * 453.59237, "litres": 1, "millilitres": 0.001,
        "square metres": 1, "square centimetres": 1e-4, "hectares": 1e4,
    }  # fmt: skip
    for text, (answer,) in truth("unit").items():
        found = re.fullmatch(r"How many (.*) are ([\d.]+) (.*)\?", text)
        expected = float(found[2]) * si[found[3]] / si[found[1]]
        assert float(answer) == pytest.approx(expected, rel=1e-9)


def test_no_answer_stands_in_its_own_question():
    for kind in set(KINDS) - {"larger", "date", "arithmetic", "unit", "program"}:
        for example in FORMS["atlas"](kind):
            question = example.messages[1]["content"]
            assert not contains(question, example), question


def test_examples_in_front_of_a_raw_question_are_not_asked():
    for kind in KINDS:
        examples = FORMS["atlas-raw"](kind)
        shots = set(re.findall(r"Question: (.*)\nAnswer: ", examples[0].prompt))
        asked = {
            one.prompt.rpartition("Question: ")[2].removesuffix("\nAnswer:") for one in examples
        }
        assert not shots & asked
        assert len(examples) == len(KINDS[kind]()) - 4


def test_it_is_loaded_by_name_whole_and_by_kind_and_labelled_by_what_answers_contain():
    every = load("atlas-sentence", limit=None)
    assert len({one.id for one in every}) == len(every) > 1500
    assert load("atlas-sentence/unit", limit=None) == [
        one for one in every if one.task == "atlas/unit"
    ]
    assert set(quality_names(every, None).values()) == {"contains"}
    with pytest.raises(ValueError, match="no questions of kind 'cheese', but capital"):
        load("atlas/cheese", limit=None)


def test_other_forms_ask_the_same_and_have_the_same_truth():
    (first, *_, last), turns = FORMS["atlas"]("capital"), FORMS["atlas-turn"]("capital")
    question, answer = turns[1].messages[1:3]
    assert (question, answer["content"]) == (first.messages[1], first.references[0])
    assert turns[0].messages[1] == last.messages[1]
    assert [one.references for one in turns] == [
        one.references for one in FORMS["atlas-persona"]("capital")
    ]


def test_numbers_behind_a_few_sentences_are_the_last_ones():
    found = load("atlas-steps", limit=None)
    assert len(found) == 260
    assert set(quality_names(found, None).values()) == {"gsm8k"}
    assert gsm8k("8 and 9 make 17. Answer: 18", found[0]) == 0.0
    assert gsm8k("8 and 9 make 18, less 1. Answer: 17", found[0]) == 1.0


@pytest.mark.parametrize(
    ("form", "text", "right", "wrong"),
    [
        ("atlas-german", "Welches Land grenzt an dieses Land: Portugal?", "Spanien", "Frankreich"),
        ("atlas-german", "Wie heißt die Währung dieses Landes: Polen?", "Der Złoty.", "Euro"),
        ("atlas-spanish", "¿En qué continente está este país: Perú?", "América del Sur", "Asia"),
        ("atlas-spanish", "¿Qué idioma es oficial en este país: Perú?", "El español", "portugués"),
    ],
)
def test_questions_in_other_languages_have_the_names_of_these(form, text, right, wrong):
    examples = {one.messages[1]["content"]: one for one in load(form, limit=None)}
    assert len(examples) > 400
    assert contains(right, examples[text]) == 1.0
    assert contains(wrong, examples[text]) == 0.0


def test_a_call_has_the_arguments_that_its_words_say():
    found = read_parts(Path("atlas-call"), "fields")
    assert len(found) > 100
    for one in found:
        (call,), text = one.reference, one.example.messages[0]["content"]
        arguments = call["arguments"]
        days = [datetime.date.fromisoformat(arguments[key]) for key in ("arrival", "departure")]
        numbers = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
        nights, adults, children = (
            numbers.index(word) for word in re.findall(r"(\w+) (?:nights|adults|children)", text)
        )
        assert f"{days[0].day} {days[0]:%B %Y}" in text
        assert (days[1] - days[0]).days == nights
        assert arguments["guests"] == adults + children
    with pytest.raises(ValueError, match="add --units"):
        load("atlas-call", limit=None)


def test_records_are_lines_with_a_schema_that_their_reference_follows(tmp_path):
    from pathlib import Path

    found = read_parts(Path("atlas-json"), "fields")
    assert len(found) == len(records("atlas-json")) > 100
    peru = next(one for one in found if one.example.id == "Peru")
    assert peru.reference == {
        "capital": "Lima",
        "continent": "South America",
        "currency_code": "PEN",
        "internet_domain": ".pe",
    }
    assert list(peru.json_schema["properties"]) == peru.json_schema["required"]


@pytest.mark.parametrize(
    ("name", "sentence", "is_right"),
    [
        ("Peru", "Peru lies in South America.", True),
        ("Peru", "It is a country in Asia.", False),
        ("Peru", "Its capital is Lima.", True),
        ("Peru", "The capital of Peru is Cusco.", False),
        ("Peru", "The currencies are the Peruvian sol and the dollar.", True),
        ("Peru", "Spanish and Quechua are official languages.", True),
        ("Peru", "Its capital Lima lies in Africa.", False),
        ("Peru", "It is known for its mountains.", None),
        # Its own name says nothing of its continent.
        ("the United States", "The capital of the United States of America is Washington.", True),
        ("South Africa", None, None),  # has several capitals, and is not asked for
    ],
)
def test_a_sentence_is_right_that_says_what_is_known_of_what_it_speaks(name, sentence, is_right):
    by_name = {one.names[0]: one for one in known_of_countries()}
    if sentence is None:
        assert name not in by_name
    else:
        assert by_name[name].verdict(sentence) is is_right


def test_a_paragraph_has_the_share_of_its_sentences_that_is_right():
    examples = {one.id: one for one in load("atlas-paragraph", limit=None)}
    assert len(examples) > 100
    peru = examples["Peru"]
    text = "Peru lies in South America. Its capital is Cusco. It is beautiful."
    [share] = asyncio.run(facts([text], [peru], None))
    assert share == 0.5
    assert peru.references[0].startswith("Lima; South America; ")
    assert math.isnan(asyncio.run(facts(["It is beautiful."], [peru], None))[0])
    assert set(quality_names(examples.values(), None).values()) == {"facts"}


def test_an_object_has_the_share_of_its_fields_that_is_right():
    peru = next(one for one in load("atlas-json", limit=None) if one.id == "Peru")
    right = peru.references[0]
    assert fields(right, peru) == 1.0
    assert fields(right.replace("Lima", "Cusco").replace(".pe", ".pu"), peru) == 0.5
    assert fields('{"capital": "Lima"}', peru) == 0.25
    assert fields("Lima", peru) == 0.0


def test_sentences_of_paragraphs_are_judged_by_the_same_facts():
    from pathlib import Path

    peru = next(
        one for one in read_parts(Path("atlas-paragraph"), "sentences") if one.example.id == "Peru"
    )
    verdicts = asyncio.run(
        peru.judge("", ["Its capital is Lima.", "It lies in Asia.", "It is nice."])
    )
    assert [one and one.is_right for one in verdicts] == [True, False, None]


def over_documents(setting):
    return [one for one in records("atlas-documents") if one["task"].endswith(f"/{setting}")]


@pytest.mark.parametrize("setting", ["true", "distractors", "exchanged", "both", "left_out"])
def test_documents_say_exactly_what_an_answer_over_them_is_held_to(setting):
    lines = over_documents(setting)
    assert len(lines) == 60
    for line in lines:
        assert len(line["documents"]) == 5
        of_subject = "\n".join(text for text in line["documents"] if is_about(text, line))
        for (_, said), (_, true) in zip(line["facts"], line["true_facts"], strict=True):
            assert bool(said) == bool(said and said[0] in of_subject)
            if setting in ("distractors", "left_out"):
                assert not said or set(said) == set(true)
        differ = [said != true for (_, said), (_, true) in of_facts(line)]
        expected = {"true": 0, "distractors": 4, "left_out": 2}.get(setting, 1)
        assert sum(differ) == expected


def is_about(text, line):
    return text.startswith(f"This is about {line['names'][0]}.")


def of_facts(line):
    return zip(line["facts"], line["true_facts"], strict=True)


def test_a_sentence_is_told_by_where_it_has_its_value_from():
    facts = [[["capital"], ["Quito"]], [["currency"], []]]
    true = [[["capital"], ["Lima"]], [["currency"], ["sol"]]]
    line = {"judge": "documents", "names": ["Peru"], "facts": facts, "true_facts": true}
    sentences = {
        "The capital is Quito.": Verdict(True),
        "The capital is Lima.": Verdict(False, "memory"),
        "The capital is Rome.": Verdict(False, "nowhere"),
        "Its currency is the sol.": Verdict(False, "memory"),
        "The documents do not mention the currency.": None,
        "It is warm there.": None,
    }
    found = asyncio.run(judge_of(line)("", list(sentences)))
    assert found == list(sentences.values())


def test_the_records_over_documents_are_read_as_a_file_is():
    [first, *_] = read_parts(Path("atlas-documents"), "sentences")
    assert first.example.documents == tuple(
        {"doc_id": str(number), "title": "", "text": text}
        for number, text in enumerate(records("atlas-documents")[0]["documents"])
    )
    assert load("atlas-documents", limit=None)[0].documents == first.example.documents
