"""The tolerant measure: a reference as whole words of the answer."""

import pytest

from cocoa_lab.examples import Example
from cocoa_lab.quality import contains


@pytest.mark.parametrize(
    ("output", "references", "expected"),
    [
        pytest.param("The capital of Italy is Rome.", ["Rome"], 1, id="in a sentence"),
        pytest.param("ROME", ["rome"], 1, id="case"),
        pytest.param("STRASSE", ["Straße"], 1, id="case of other alphabets"),
        pytest.param("In Romeo and Juliet", ["Rome"], 0, id="part of a word"),
        pytest.param("Rome", ["The capital is Rome"], 0, id="less than the reference"),
        pytest.param("Beatles", ["The Beatles"], 1, id="article of the reference"),
        pytest.param("lord of the rings", ["Lord of Rings"], 1, id="article between"),
        pytest.param("New (York)", ["New York!"], 1, id="punctuation"),
        pytest.param("York, New", ["New York"], 0, id="another order"),
        pytest.param("It was the U.S.", ["U.S."], 1, id="initials"),
        pytest.param("the king\u2019s men", ["king's"], 1, id="apostrophes"),
        pytest.param("\u0045\u0301mile", ["\u00e9mile"], 1, id="composed and decomposed"),
        pytest.param("It is 12.5 m", ["12"], 0, id="part of a number"),
        pytest.param("It is -5 degrees", ["5"], 0, id="sign"),
        pytest.param("It is \u22125.", ["-5"], 1, id="typographic minus"),
        pytest.param("17-5", ["5"], 1, id="minus between operands"),
        pytest.param("$1,200", ["1200"], 1, id="grouping commas"),
        pytest.param("1,200", ["1"], 0, id="part of a grouped number"),
        pytest.param("the 2nd", ["2"], 0, id="part of an ordinal"),
        pytest.param("Oslo", ["Paris", "Oslo"], 1, id="any reference"),
        pytest.param("", ["Paris"], 0, id="empty answer"),
        pytest.param("It is a dog", ["A"], 0, id="an article is no letter"),
        pytest.param(" a ", ["A"], 1, id="nothing but a letter"),
        pytest.param("Why?", ["?"], 0, id="a reference of punctuation"),
        pytest.param("", [""], 1, id="empty both"),
        pytest.param("It is hepatitis B.", ["Hepatitis A"], 0, id="another letter"),
        pytest.param("It is hepatitis A.", ["Hepatitis A"], 1, id="a letter at the end"),
        pytest.param("Hepatitis A is a disease", ["Hepatitis A"], 1, id="a letter before a verb"),
        pytest.param("Vitamin A helps", ["Vitamin A"], 1, id="a letter in a sentence"),
        pytest.param("Option B", ["Option A"], 0, id="another option"),
        pytest.param("Vitamin C", ["Vitamin A"], 0, id="another vitamin"),
        pytest.param("The answer is A.", ["A"], 1, id="a letter that is the answer"),
        pytest.param("A) Paris", ["A"], 1, id="a letter before a bracket"),
        pytest.param("A is right", ["A"], 1, id="a letter that is the subject"),
        pytest.param("The answer is B. A dog barks.", ["B"], 1, id="a letter before an article"),
        pytest.param("The Who", ["The Who"], 1, id="an article of a name"),
        pytest.param("It was The The.", ["The The"], 1, id="an article that is a name"),
        pytest.param("Like a Rolling Stone", ["Like A Rolling Stone"], 1, id="a title"),
        pytest.param("LIKE A ROLLING STONE", ["Like a Rolling Stone"], 1, id="capitals"),
        pytest.param("C", ["C++"], 0, id="a sign that is missing"),
        pytest.param("It is C++.", ["C"], 0, id="a sign of another word"),
        pytest.param("In C#, then", ["C#"], 1, id="a sign behind a word"),
        pytest.param("blood group O-", ["O+"], 0, id="another sign"),
        pytest.param("Paris - or Rome", ["Paris"], 1, id="a dash"),
        pytest.param("It is \u20ac5", ["$5"], 0, id="another currency"),
        pytest.param("It is 5", ["-5"], 0, id="a sign of the reference"),
        pytest.param("It fell by -$5", ["$5"], 0, id="sign before a currency"),
        pytest.param("about 10 percent", ["10%"], 1, id="a unit in words"),
        pytest.param("about 10 % of it", ["10"], 1, id="a unit that was not asked for"),
        pytest.param("10", ["10%"], 0, id="a unit that is missing"),
        pytest.param("0.5", [".5"], 1, id="a decimal point in front"),
        pytest.param("5", [".5"], 0, id="no decimal point"),
    ],
)
def test_a_reference_occurs_as_whole_words(output, references, expected):
    assert contains(output, Example("id", "task", "prompt", tuple(references))) == expected
