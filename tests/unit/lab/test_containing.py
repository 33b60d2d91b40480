"""The tolerant measure: a reference as whole words of the answer."""

import pytest

from cocoa_lab.containing import contains
from cocoa_lab.examples import Example


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
        pytest.param("It is a dog", ["A"], 0, id="a reference that is an article"),
        pytest.param(" a ", ["A"], 1, id="equal to a reference that is an article"),
        pytest.param("Why?", ["?"], 0, id="a reference of punctuation"),
        pytest.param("", [""], 1, id="empty both"),
    ],
)
def test_a_reference_occurs_as_whole_words(output, references, expected):
    assert contains(output, Example("id", "task", "prompt", tuple(references))) == expected
