# ruff: noqa: RUF001 - other languages have signs like ours
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.units.sentences import language_of, sentence_spans, without_sentences

MARKDOWN = """# Paris

Paris is the capital of France. It has 2.1 million people,
e.g. in the 15th district.

Sights
======
1. The tower. It is tall.
   It has stairs.
2. - [ ] The Louvre

> A quote over
> two lines. Ok.

| City | People |
|---|---|
| Berlin | 3.6 m |
| Paris | 2.1 m |

```python
print("Hi. There.")
```
* * *
End. 😀 ...
"""
SENTENCES = [
    "Paris is the capital of France.",
    "It has 2.1 million people,\ne.g. in the 15th district.",
    "The tower.",
    "It is tall.",
    "It has stairs.",
    "The Louvre",
    "A quote over\n> two lines.",
    "Ok.",
    "| Berlin | 3.6 m |",
    "| Paris | 2.1 m |",
    "End.",
]


def said(text):
    return [text[start:end] for start, end in sentence_spans(text)]


def test_sentences_of_markdown_are_those_that_say_something():
    assert said(MARKDOWN) == SENTENCES


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "Er kam am 3. Mai 2020 z. B. nach Berlin. Dr. Müller blieb ca. 2,5 Std. dort.",
            [
                "Er kam am 3. Mai 2020 z. B. nach Berlin.",
                "Dr. Müller blieb ca. 2,5 Std. dort.",
            ],
        ),
        (
            "巴黎是法国的首都。它有2.1百万人口！你知道吗？",
            ["巴黎是法国的首都。", "它有2.1百万人口！", "你知道吗？"],
        ),
        (
            "باريس هي عاصمة فرنسا. هل تعرف ذلك؟ نعم.",
            ["باريس هي عاصمة فرنسا.", "هل تعرف ذلك؟", "نعم."],
        ),
        ("पेरिस राजधानी है। क्या आप जानते हैं?", ["पेरिस राजधानी है।", "क्या आप जानते हैं?"]),
        # Thai has no mark at a sentence's end; its lines in a list are told apart.
        (
            "- ปารีสเป็นเมืองหลวง มีคน 2 ล้านคน\n- โรมเป็นเมืองหลวง",
            ["ปารีสเป็นเมืองหลวง มีคน 2 ล้านคน", "โรมเป็นเมืองหลวง"],
        ),
        (
            "Dr. Smith of the U.S. paid 3.14 dollars, i.e. little. 1. One. 2. Two.",
            ["Dr. Smith of the U.S. paid 3.14 dollars, i.e. little.", "1. One.", "2. Two."],
        ),
        ("Wait\u2028.\x00Bob is. Yes!", ["Wait\u2028.\x00", "Bob is.", "Yes!"]),
        ("42", ["42"]),
        (" \n\t ", []),
        ("... 😀", []),
        ("```\nx = 1. Y.\n```", []),
        ("Code:\n~~~\nnever ends. So.", ["Code:"]),
    ],
    ids=[
        "German",
        "Chinese",
        "Arabic",
        "Hindi",
        "Thai",
        "abbreviations, decimals, numbers",
        "odd white space",
        "no stop",
        "white space",
        "no letters",
        "code",
        "code without an end",
    ],
)
def test_sentences_end_where_their_language_ends_them(text, sentences):
    assert said(text) == sentences


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Der Hund ist nicht da.", "de"),
        ("Le chien est dans la rue.", "fr"),
        ("Собака дома.", "ru"),
        ("", "en"),
    ],
)
def test_a_language_is_told_by_its_frequent_words(text, language):
    assert language_of(text) == language


TEXTS = st.text() | st.lists(
    st.sampled_from(
        [*"aB.!?-*>|#`~ \n\r\t1()。？؟😀\x00\u2028\u200b", "Dr. ", "\n```", "\n- ", "1. ", "|---|"]
    )
).map("".join)


@given(TEXTS)
def test_sentences_joined_with_what_lies_between_are_the_text(text):
    spans = sentence_spans(text)

    position, joined = 0, ""
    for start, end in spans:
        assert position <= start < end <= len(text)
        assert text[start:end] == text[start:end].strip()
        joined += text[position:start] + text[start:end]
        position = end
    assert joined + text[position:] == text


@given(TEXTS, st.data())
def test_a_text_without_sentences_holds_the_others_as_they_were(text, data):
    spans = sentence_spans(text)
    removed = data.draw(st.sets(st.sampled_from(spans))) if spans else set()

    refined = without_sentences(text, removed)

    position = 0
    for start, end in spans:
        if (start, end) not in removed:
            found = refined.find(text[start:end], position)
            assert found >= 0
            position = found + end - start
    if not removed:
        assert refined == text


def test_headings_stay_and_an_item_that_loses_all_goes_with_its_marker():
    spans = sentence_spans(MARKDOWN)
    removed = [spans[i] for i in (0, 3, 5, 8, 10)]

    refined = without_sentences(MARKDOWN, removed)

    assert said(refined) == [one for i, one in enumerate(SENTENCES) if i not in (0, 3, 5, 8, 10)]
    assert "# Paris\n" in refined
    assert "1. The tower. It has stairs.\n\n" in refined
    assert "[ ]" not in refined
    assert "|---|---|\n| Paris | 2.1 m |\n" in refined
    assert "\n 😀 ...\n" not in refined


@pytest.mark.parametrize(
    ("text", "count"),
    [("a " * 16_000, 1), ("It is so. " * 1000, 1000), ("。" * 32_000, 0), ("a\n\n" * 8_000, 8_000)],
    ids=["one sentence", "many", "stops", "paragraphs"],
)
def test_long_texts_are_split(text, count):
    assert len(sentence_spans(text)) == count
