# ruff: noqa: RUF001 - other languages have signs like ours
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.units import sentences
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
SENTENCES = ["Paris is the capital of France."]
SENTENCES += ["It has 2.1 million people,\ne.g. in the 15th district.", "The tower.", "It is tall."]
SENTENCES += ["It has stairs.", "The Louvre", "A quote over\n> two lines.", "Ok."]
SENTENCES += ["| Berlin | 3.6 m |", "| Paris | 2.1 m |", "End."]


def said(text):
    return [text[start:end] for start, end in sentence_spans(text)]


def test_sentences_of_markdown_are_those_that_say_something():
    assert said(MARKDOWN) == SENTENCES


OF_LISTS_AND_NOTES = {
    "北京很大。2023年它更大。（它很老。）好。": [
        "北京很大。",
        "2023年它更大。",
        "（它很老。）",
        "好。",
    ],
    "**Capital:** Paris\n**River**: Seine": ["**Capital:** Paris", "**River**: Seine"],
    "首都：巴黎\n河流：塞纳河": ["首都：巴黎", "河流：塞纳河"],
    "✓ Fast\n✓ Cheap\n→ Good": ["✓ Fast", "✓ Cheap", "→ Good"],
    "Paris 🎉\n🎉 It is big.": ["Paris 🎉\n🎉 It is big."],
    "> It is big.\n> It is\n> old.": ["It is big.", "It is\n> old."],
    "- ```sh\n  ls. Go.\n  ```\n- It is big.": ["It is big."],
    "$x = 1.$ Then $$y = 2.$$\nSo it is.": ["$x = 1.$", "Then $$y = 2.$$", "So it is."],
    "It is big.^1 It is old.^[2] It is.": ["It is big.^1", "It is old.^[2]", "It is."],
    "It is big.[citation needed] It is.": ["It is big.[citation needed]", "It is."],
    "Le 3 févr. 2020, il est né. En déc. 2019 aussi.": [
        "Le 3 févr. 2020, il est né.",
        "En déc. 2019 aussi.",
    ],
    "El 3 de ene. 2020 llegó. Se fue en dic. En abr. 2019 era.": [
        "El 3 de ene. 2020 llegó.",
        "Se fue en dic.",
        "En abr. 2019 era.",
    ],
    "(It is big.) (It is old.)": ["(It is big.)", "(It is old.)"],
    "It is big. [doc1] It is old. [a](https://a.b)": [
        "It is big. [doc1]",
        "It is old. [a](https://a.b)",
    ],
    "It is big. ¹ It is. (Doe, 2001)": ["It is big. ¹", "It is. (Doe, 2001)"],
    "它很大。【1】它很老。": ["它很大。【1】", "它很老。"],
    "It was late. (In 1999) He left. (So.)": ["It was late. (In 1999)", "He left.", "(So.)"],
    "[a] It is big. [b] It is old.": ["[a] It is big.", "[b] It is old."],
    "It is big. [Rome](https://a.b) is old.": ["It is big.", "[Rome](https://a.b) is old."],
    "At 3 p.m. ET it fell at 5 p.m. NASA is.": ["At 3 p.m. ET it fell at 5 p.m.", "NASA is."],
    "It is <5 km. It is > 3 km. Use .NET.": ["It is <5 km.", "It is > 3 km.", "Use .NET."],
    "ASP.NET is old. It costs 5. $6 is more.": [
        "ASP.NET is old.",
        "It costs 5.",
        "$6 is more.",
    ],
}


@pytest.mark.parametrize("text", OF_LISTS_AND_NOTES)
def test_lines_of_lists_and_signs_behind_an_end_are_told_apart(text):
    assert said(text) == OF_LISTS_AND_NOTES[text]


@pytest.mark.parametrize("mark", ["\u2020", "\u00b9", "^1", "[1]", "\u30101\u3011"])
def test_any_number_of_notes_behind_an_end_is_read_in_one_way(mark):
    text = f"It is so. {mark * 500} and on. So it was."
    assert said(text)[-1] == "So it was."


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It is old. (It was late.) She left.", ["It is old.", "(It was late.)", "She left."]),
        ("It was found.[3] Then it went.", ["It was found.[3]", "Then it went."]),
        ("「はい。」彼は帰った。", ["「はい。」", "彼は帰った。"]),
        (
            "Sie feierte ihren 50. Geburtstag im 20. Jahrhundert. Der 2. Weltkrieg war aus.",
            ["Sie feierte ihren 50. Geburtstag im 20. Jahrhundert.", "Der 2. Weltkrieg war aus."],
        ),
        ("Es waren 12. Danach kam keiner.", ["Es waren 12.", "Danach kam keiner."]),
        ("Vive en EE. UU. Trabaja allí.", ["Vive en EE. UU.", "Trabaja allí."]),
        (
            "Er kam am 3. Mai 2020 z. B. nach Berlin. Dr. Müller blieb ca. 2,5 Std. dort.",
            ["Er kam am 3. Mai 2020 z. B. nach Berlin.", "Dr. Müller blieb ca. 2,5 Std. dort."],
        ),
        (
            "巴黎是法国的首都。它有2.1百万人口！你知道吗？",
            ["巴黎是法国的首都。", "它有2.1百万人口！"],
        ),
        ("باريس هي عاصمة فرنسا. هل تعرف ذلك؟ نعم.", ["باريس هي عاصمة فرنسا.", "نعم."]),
        ("पेरिस राजधानी है। यह बड़ा है।", ["पेरिस राजधानी है।", "यह बड़ा है।"]),
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
        ("Code is.\n~~~\nnever ends. So.", ["Code is."]),
    ],
    ids=[
        "bracket",
        "note",
        "quotation",
        "German ordinals",
        "German number",
        "Spanish",
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
    "text",
    [
        "*1.* Paris is big.\n*2.* Rome is old.",
        "1.1. Paris is big.\n1.2. Rome is old.",
        "1．パリは大きい。\n2．ローマは古い。",
        "a.Paris\nb.Rome",
        "<ul>\n<li>Rome</li>\n<li>Paris</li>\n</ul>",
        "1\\. Paris is big.\n2\\. Rome is old.",
        "#1. Paris is big.\n#2. Rome is old.",
        "[1] Paris is big.\n[2] Rome is old.",
        "> 1. Paris\n> 2. Rome",
        "\u2014 Paris\n\u2014 Rome",
        "1 - Paris\n2 - **Rome**",
        "1\u3001巴黎\n2\u3001罗马",
        "\u30fbパリ\n\u30fbローマ",
        "Step 1. Mix it.\n**Day 2.** Rest.",
        "Paris is\n- big\n\u2014 and old, as\n1990 - 2000.",
        "Rome is old.[^1] Paris is big.[^2]",
        "Rome is old.[1],[2] Paris is big.[3]",
        "Rome is old.\u00b9,\u00b2 Paris is big.\u00b3",
        "~~Rome is old.~~ Paris is big.\u2020",
        "**Do not take both.**\n\nThey interact.",
        "Rome is old.【1】 Paris is big.【4:1†source】",
        "Rome is old.<sup>1</sup> Paris is big.(2)",
        "Open README.md. Rome is old.",
        "It has apples, pears, etc. Rome is old.",
        "Und so weiter, usw. Rom ist alt.",
        "и т. д. Рим стар.",
        "Wait… Rome is old.",
        "រ៉ូមចាស់។ ប៉ារីសធំ។",
        "རོམ་རྙིང་པ། པ་རི་ཆེན་པོ།",
        "Sra. López vino. Roma es vieja.",
        "Sig. Rossi è qui. Roma è vecchia.",
        "Ash et al. found it, i.e. here. It is e.g. old.",
    ],
)
def test_items_notes_and_abbreviations_leave_two_sentences(text):
    assert len(said(text)) == 2


def test_lines_with_labels_are_sentences_of_their_own():
    text = "Name: Peru\nCapital: Lima. It is big,\nand old.\nMain language: Spanish"
    lines = ["Name: Peru", "Capital: Lima.", "It is big,\nand old.", "Main language: Spanish"]
    assert said(text) == lines
    start, end = sentence_spans(text)[0]
    assert without_sentences(text, [(start, end)]) == text.removeprefix("Name: Peru\n")


@pytest.mark.parametrize(
    "sentence",
    [
        "They signed at approx. 3.30 p.m. in Geneva.",
        "Smith et al. [12] showed that it is so.",
        "See Ref. [3] for details.",
        "Paris est la capitale, c.-à-d. la ville principale.",
        "彼は「はい。」と言った。",
        "「行く。」って言ってた。",
        "The firm (Apple Inc.) Tim Cook leads is big.",
        "Die Fa. Siemens sitzt in Berlin.",
        "Sie wohnt in der Ul. Lenina 5.",
        "The match was Spain vs. Italy.",
        "It is incl. Rome and cf. Milan.",
        "See No. 5, Sec. 4 and Fig. 3b.",
        "It is in Vol. 3, pp. 20-30, ed. Jones, est. 1990.",
        "Art. 5 and para. 3 of Ch. 2, Eq. 4, App. B and Tab. IV hold.",
        "Op. 27 No. 2 is by Beethoven.",
        "Mass. is a state, e.g. of the U.S. and of old.",
        "They met at 5 p.m. on Monday.",
        "A. Smith wrote it with J. Doe.",
        "Hi Bob, Rome is old.",
        "Sure, Rome.",
        "Yes!",
        'He asked: "Why?"',
        "**Note:** Rome is old.",
        "**Rome**",
        "Nous avons vu M. Dupont et Mme. Durand dans la rue.",
        "The reason is\nsimple: it is old.",
    ],
)
def test_it_is_one_sentence_and_the_next_is_another(sentence):
    assert said(sentence) == [sentence]
    assert said(f"{sentence}\n\nThen he left.")[-1] == "Then he left."
    if sentence[-1] == ".":
        assert said(f"It is so. {sentence} Then he left.") == [
            "It is so.",
            sentence,
            "Then he left.",
        ]


PAIRS = {
    "5 p.m. They talked.": ["5 p.m.", "They talked."],
    "They met at 5 p.m. They talked.": ["They met at 5 p.m.", "They talked."],
    "It is 7:30 a.m. The sun is up.": ["It is 7:30 a.m.", "The sun is up."],
    "At 5 p.m. Monday they met. It rained.": ["At 5 p.m. Monday they met.", "It rained."],
    "See https://a.b/c. Rome is old.": ["See https://a.b/c.", "Rome is old."],
    "See http://a.b/. Rome is old.": ["See http://a.b/.", "Rome is old."],
    "A. Paris\nB. Rome": ["A. Paris", "B. Rome"],
    "a. Paris\nb. Rome": ["a. Paris", "b. Rome"],
    "They are:\nb) Paris\nc) Rome": ["b) Paris", "c) Rome"],
    "i. Paris\nii. Rome": ["i. Paris", "ii. Rome"],
    "**A.** Paris\n**B.** Rome": ["**A.** Paris", "**B.** Rome"],
    "1.Paris\n2.Rome": ["Paris", "Rome"],
    "**1.** Paris is big.\n**2.** Rome is old.": ["Paris is big.", "Rome is old."],
    "__1)__ Paris is big.\n__2)__ Rome is old.": ["Paris is big.", "Rome is old."],
    "**Paris.** It is big.": ["**Paris.**", "It is big."],
    "_Paris._ It is big.": ["_Paris._", "It is big."],
    "Rome is old.\u00b9 Paris is big.\u00b2": ["Rome is old.\u00b9", "Paris is big.\u00b2"],
    "$$\nHere a is not zero.\n\\]\nSo is b.": ["Here a is not zero.", "So is b."],
    "Rome is old.\u2020 ~~Paris is big.~~": ["Rome is old.\u2020", "~~Paris is big.~~"],
    "1\\. Rome is old.\n[2] Paris\n\u2014 Bonn": ["Rome is old.", "Paris", "Bonn"],
    "Step 1. Mix it. Stir.\n**Rest!**\nEat.": ["Step 1. Mix it.", "Stir.", "**Rest!**", "Eat."],
    "<p>Rome is old.</p>\n<br/>\n<p class='a'>\n\nIt is.": ["<p>Rome is old.", "It is."],
}


@pytest.mark.parametrize(("text", "sentences"), PAIRS.items(), ids=PAIRS)
def test_marks_around_sentences_neither_join_them_nor_are_any(text, sentences):
    assert said(text) == sentences


@pytest.mark.parametrize(
    "text", ["<!-- note -->", "&nbsp;", "<br/>", "<p class='a'>", "$$", "\\[", "</div>\n</p>"]
)
def test_markup_alone_is_no_sentence(text):
    assert said(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Is it so? No. It is not.",
        "He lives in the U.S. He is old.",
        "it is so. then he left.",
    ],
)
def test_two_sentences_stay_two(text):
    assert len(said(text)) == 2


@pytest.mark.parametrize(
    "text",
    [
        "Is it large?",
        "¿Dónde está?",
        "**Is it?**",
        '"Is it so?"',
        "Hello! How can I help you today?",
        "Hi there!",
        "Good morning, Bob!",
        "Great question!",
        "You're welcome!",
        "I hope this helps! Let me know if you need more.",
        "Here are three facts:",
        "**Overview**\n\n# Rome",
    ],
)
def test_questions_greetings_and_headings_claim_nothing(text):
    assert said(text) == []
    assert said(f"{text}\n\nParis is large.") == ["Paris is large."]


@pytest.mark.parametrize("heading", ["**Overview**", "__A b__:", "Overview:", "The answer is:"])
def test_a_line_above_others_is_a_heading_of_them(heading):
    assert said(f"{heading}\nParis is large.\n\n{heading}\n- It is old.") == [
        "Paris is large.",
        "It is old.",
    ]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Der Hund ist nicht da.", "de"),
        ("Le chien est dans la rue.", "fr"),
        ("i.e. Rome. Mr. X and Mrs. Y.", "en"),
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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("| a |\n|---|\nIt is Lima.", ["It is Lima."]),
        ("See:\n| a |\n|---|\n| x |\nIt is.", ["| x |", "It is."]),
    ],
)
def test_what_follows_the_head_of_a_table_is_its_own(text, said):
    assert [text[start:end] for start, end in sentence_spans(text)] == said


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
    [("a " * 16_000, 1), ("It is so. " * 1000, 1000), ("。" * 32_000, 0), ("a\n\n" * 8_000, 8_000)]
    + [(mark * 32_000 + "x", 1) for mark in "?:*"],
    ids=["one sentence", "many", "stops", "paragraphs", "questions", "colons", "stars"],
)
def test_long_texts_are_split(text, count):
    assert len(sentence_spans(text)) == count


def test_a_text_without_line_breaks_is_split_in_parts_of_whole_sentences(monkeypatch):
    sizes, split = [], sentences.get_sentence_boundaries

    def noting(language, text):
        sizes.append(len(text))
        return split(language, text)

    monkeypatch.setattr(sentences, "get_sentence_boundaries", noting)
    chinese, english = "这是一个关于城市的句子。", "It has 3.5 cats and Dr. Ash. "
    for text, size, num in ((chinese, 12, 5000), (english, 29, 2000)):
        spans = sentences.sentence_spans(text * num)
        assert len(spans) == num
        assert {start % size for start, _ in spans} == {0}
    assert sentences.sentence_spans("a" * 50_000) == [(0, 50_000)]
    # The splitter takes time with the square of this.
    assert max(sizes) == 10_000
