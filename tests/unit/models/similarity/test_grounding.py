"""What documents say of the sentences of an answer, by words alone."""

import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import InvalidRequest
from models.similarity.grounding import grounded
from models.units.parts import split
from models.units.steps import WorkBudget
from models.units.unit import Unit

LIMA = "Lima is the capital of Peru. Francisco Pizarro founded it in 1535. 10 million live there."


def unit(text):
    return Unit("claim", text, np.arange(0))


def document(text, doc_id="7", title=""):
    return {"doc_id": doc_id, "title": title, "text": text}


def beside(text, *documents, prompt=""):
    documents = [document(one) if isinstance(one, str) else one for one in documents]
    grounds = grounded([unit(text)], documents, prompt, WorkBudget())
    (told,) = grounds.units
    assert grounds.share == told.grounded
    return told


@pytest.mark.parametrize(
    ("answer", "share", "missing"),
    [
        ("Lima is the capital of Peru.", 1.0, ()),
        ("Lima was founded by Francisco Pizarro.", 1.0, ()),
        ("Lima was founded in 1535.", 1.0, ()),
        ("Lima was founded in 1975.", 2 / 3 / 2, ("1975",)),
        ("Lima was founded by Diego Pizarro.", 3 / 4 / 2, ("Diego",)),
        ("Lima was founded by Diego in 1975.", 2 / 4 / 4, ("Diego", "1975")),
        ("Ten million live in Lima.", 1.0, ()),
        ("Quito is cold.", 0.0, ()),
        ("NASA is cold.", 0.0, ("NASA",)),
        ("I don't know.", 0.0, ()),
        ("Yes.", 0.0, ()),
        ("", 0.0, ()),
    ],
)
def test_a_sentence_has_the_share_of_its_words_that_stand_in_a_document(answer, share, missing):
    told = beside(answer, LIMA)

    assert told.grounded == pytest.approx(share)
    assert told.missing == missing
    assert (told.document is None) == (share == 0) == (told.document_span is None)


@pytest.mark.parametrize(
    "mark",
    [
        " [1].",
        ".[1]",
        " [1][0].",
        " [0, 1].",
        " [1-1].",
        " [^1].",
        " [7].",
        " [Document 1].",
        " [doc 7].",
        " (doc 7).",
        " (source 1).",
        "\u30101\u2020source\u3011.",
    ],
)
def test_a_mark_that_names_a_document_is_no_number_that_is_missing(mark):
    told = beside(f"Lima is the capital of Peru{mark}", LIMA)
    assert (told.grounded, told.missing, told.document_span) == (1.0, (), (0, 27))
    assert told.text.endswith(mark)


def test_a_mark_that_names_no_document_is_a_number():
    assert beside("Lima has [9] people.", LIMA).missing == ("9",)
    assert beside("Lima is the capital of Peru [2].", LIMA).missing == ("2",)
    assert beside("Lima is the capital of Peru [2].", LIMA, "Quito.").missing == ()
    assert beside("[1]", LIMA).grounded == 0.0


def test_a_sentence_that_stands_in_a_document_word_by_word_has_its_place_there():
    long = "; ".join(f"clause {i} names place {i}" for i in range(60))
    told = beside(f"{long}.", "Nothing.", document(f"First. {long}, they say.", "9"))

    assert (told.grounded, told.document) == (1.0, "9")
    assert told.document_span == (7, 7 + len(long))


def test_the_document_that_says_most_is_named_and_its_best_sentence():
    peru = document("Peru has a coast. Its capital is Lima.", "a")
    told = beside("The capital of Peru is Lima.", document("Lima grows.", "b"), peru)

    assert told.document == "a"
    start, end = told.document_span
    assert peru["text"][start:end] == "Its capital is Lima."
    assert told.grounded == 1.0


def test_words_of_two_documents_do_not_add_up_and_those_of_a_fourth_sentence_neither():
    assert beside("Lima bakes cake.", "Lima bakes.", "They eat cake.").grounded == 2 / 3
    apart = ["Red paint.", "Green paint.", "Blue paint.", "White paint."]
    assert beside("Red, green, blue, white.", " ".join(apart)).grounded == 3 / 4


def test_a_name_in_another_document_is_not_missing_and_halves_nothing():
    told = beside("Lima envies Quito.", "Lima grows.", "Quito shrinks.")

    assert (told.grounded, told.missing) == (1 / 3, ())
    assert beside("Lima envies Quito.", "Lima grows.").grounded == 1 / 3 / 2


def test_a_document_of_something_else_counts_half():
    spain, italy = document("Spain is in Europe.", "es"), document("Italy has a coast.", "it")
    asked = "On which continent is Italy?"
    told = beside("It is in Europe.", spain, italy, prompt=asked)
    assert (told.grounded, told.document) == (0.5, "es")
    assert beside("It is in Europe.", spain, prompt=asked).grounded == 1.0  # nobody knows better
    number = document('{"continents": 1}', "n")  # speaks of nothing by name
    assert beside("It has 1 of the continents.", italy, number, prompt=asked).grounded == 1.0
    both = "Where are Spain and Italy?"
    assert beside("Spain is in Europe.", spain, italy, prompt=both).grounded == 1.0


def test_a_title_stands_in_each_sentence_of_its_document_and_alone_says_nothing():
    titled = document("It was founded in 1535.", title="Lima")
    assert beside("Lima was founded in 1535.", titled).grounded == 1.0
    assert beside("Lima was founded.", document("", title="Lima")).grounded == 0.0


@pytest.mark.parametrize("text", ["", " \n", "…", "```\n```"])
def test_an_empty_document_says_nothing(text):
    assert beside("Lima is the capital of Peru.", text).grounded == 0.0


def test_what_the_question_says_already_counts_for_nothing():
    question = "Which river does Lima lie on?"
    assert beside("Lima lies on the Rimac.", "The Rimac is a stream.").grounded < 1.0
    told = beside("Lima lies on the Rimac.", "The Rimac is a stream.", prompt=question)
    assert (told.grounded, told.missing) == (1.0, ())
    # One that adds nothing says it all again.
    assert beside("Lima lies on a river.", "Lima lies on a river.", prompt=question).grounded == 1.0


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("They sold 1,000 cars.", "1000 cars were sold; they sold 1.000 more."),
        ("It is 2.50 long.", "It is long: 2,5."),
        ("Twelve of them left.", "12 of them left."),
        ("Zoë\u2019s kittens sleep.", "A kitten of ZOE sleeps."),
        ("Die Stadt hat Brücken.", "In der Stadt sind viele Brücken."),
        ("北京是中国的首都。", "中国的首都是北京市。北京是大城市。"),
    ],
)
def test_numbers_and_words_are_the_same_however_they_are_written(answer, text):
    told = beside(answer, text)
    assert told.missing == ()
    assert told.grounded >= 0.75


def test_german_nouns_are_no_names():
    assert beside("Das ist der Bürgermeister der Stadt.", "Es ist die Stadt.").missing == ()
    assert beside("This is the Mayor of town.", "It is the town.").missing == ("Mayor",)


def test_a_mean_leaves_out_sentences_that_say_nothing():
    said = list(map(unit, ["Yes.", "Lima is the capital.", "Lima is blue."]))
    grounds = grounded(said, [document(LIMA)], "", WorkBudget())

    assert [one.grounded for one in grounds.units] == [0.0, 1.0, 0.5]
    assert grounds.share == 0.75


def test_an_nli_model_judges_by_the_sentences_that_fit_best_of_three_documents():
    said = list(map(unit, ["Yes.", "Lima is the capital of Peru.", "Lima is not the capital."]))
    coast = document("Lima lies at the sea. It rains. Its capital!", "8", title="Coast")
    documents = [document(LIMA), coast, *(document(f"Lima {word}.", word) for word in "abc")]
    grounds = grounded(said, documents, "What is the capital of Peru?", WorkBudget())
    pairs = grounds.pairs()

    # What stands in a document word by word needs no judgement.
    texts = ["Lima is the capital of Peru.", "Coast. Lima lies at the sea. Its capital!", "Lima a."]
    assert pairs == [(text, said[2].text) for text in texts]
    values = [(0.1, 0.2, 0.7), (0.3, 0.6, 0.1), (0.2, 0.4, 0.4)]
    told = grounds.judged(dict(zip(pairs, values, strict=True)))
    assert [one.grounded for one in told.units] == [0.0, 1.0, 0.3]
    assert told.share == pytest.approx(0.65)
    assert (told.units[2].document, told.units[2].document_span) == ("8", (0, 21))
    assert [one.denied_by_documents for one in told.units] == [(), (), ("7",)]
    assert [one.denied_by_documents for one in grounds.units] == [None] * 3


def test_looking_for_words_is_bounded_and_can_be_ended():
    documents = [document("Lima grows. " * 100)]
    with pytest.raises(InvalidRequest) as refused:
        grounded([unit("Lima grows.")] * 20, documents, "", WorkBudget(1000, field="documents"))
    assert refused.value.field == "documents"
    steps = WorkBudget()
    steps.end()
    with pytest.raises(InvalidRequest):
        grounded([unit("Lima.")], documents, "", steps)


@given(st.text(), st.lists(st.text(), max_size=3), st.text())
def test_any_texts_have_a_share_and_a_place_within_their_document(answer, texts, prompt):
    documents = [document(text, str(number)) for number, text in enumerate(texts)]
    grounds = grounded([unit(answer)], documents, prompt, WorkBudget())
    (told,) = grounds.units

    assert 0 <= told.grounded == grounds.share <= 1
    assert all(premise.strip() and asked == answer for premise, asked in grounds.pairs())
    if told.document is not None:
        start, end = told.document_span
        assert 0 <= start < end <= len(texts[int(told.document)])
    for name in told.missing:
        assert name.casefold() not in "".join(texts).casefold().split()


# A collection by rule: places with facts, told in documents in one way and in answers in others.
SYLLABLES = [
    "ba",
    "de",
    "fi",
    "go",
    "lu",
    "ma",
    "ne",
    "po",
    "ri",
    "sa",
    "ta",
    "ve",
    "wo",
    "zu",
    "ka",
    "lo",
]
TOLD = [
    (
        "{town} was founded in {year} by {first} {last}.",
        "In {year}, {first} {last} founded {town}.",
    ),
    (
        "{number} people live in {town}.",
        "{town} has {number} inhabitants, so many people live there.",
    ),
    ("The river {river} flows through {town}.", "Through {town} flows the {river}, a river."),
    (
        "In {year} the mayor {first} {last} opened a museum of glass in {town}.",
        "A museum of glass in {town} was opened by its mayor, {first} {last}, in {year}.",
    ),
    (
        "The railway from {town} to {other} was built in {year} and closed after {few} years.",
        "Built in {year}, the railway between {town} and {other} closed {few} years later.",
    ),
    (
        "Farmers around {town} grow {number} tons of barley and sell most of it in {other}.",
        "Most of the {number} tons of barley grown by farmers around {town} are sold in {other}.",
    ),
]
EDITS = ("number", "name", "addition", "negation")


def collection(seed, num_towns=40):
    """Documents, and of each fact the paraphrase, and what it becomes by each edit."""
    draw = random.Random(seed)

    def name():
        return "".join(draw.sample(SYLLABLES, 3)).capitalize()

    documents, facts = [], []
    for number in range(num_towns):
        town, sentences = name(), []
        for told, paraphrase in TOLD:
            values = {
                "town": town,
                "other": name(),
                "river": name(),
                "first": name(),
                "last": name(),
                "year": draw.randrange(1100, 2000),
                "number": draw.randrange(2000, 90_000),
                "few": draw.randrange(30, 90),
            }
            sentences.append(told.format(**values))
            others = {
                "number": {key: draw.randrange(100_000, 999_999) for key in ("year", "number")},
                "name": {key: f"{name()}xy" for key in ("last", "river", "other")},
            }
            edited = {edit: paraphrase.format(**values | others[edit]) for edit in others}
            plain = paraphrase.format(**values)
            edited["addition"] = f"{plain.removesuffix('.')}, which won a prize for its gardens."
            edited["negation"] = plain.replace(town, f"not {town}")
            facts.append((plain, edited))  # of which a number, or a name, may be none
        documents.append(document(" ".join(sentences), str(number)))
    return documents, facts


@pytest.mark.parametrize("seed", range(3))
def test_edited_sentences_are_less_grounded_than_their_originals_and_paraphrases_stay(seed):
    documents, facts = collection(seed)
    paraphrases = list(map(unit, [plain for plain, _ in facts]))
    originals = grounded(paraphrases, documents, "", WorkBudget()).units
    stay = [one.grounded >= 0.5 for one in originals]
    assert np.mean(stay) >= 0.9

    for edit in EDITS:
        said = [unit(told[edit]) for _, told in facts]
        edited = grounded(said, documents, "", WorkBudget()).units
        is_less = []
        for old, new in zip(originals, edited, strict=True):
            if old.text != new.text:
                is_less.append(new.grounded < old.grounded)
        share = np.mean(is_less)
        assert len(is_less) >= 100
        if edit == "negation":  # has all words of what it denies
            assert share == 0
        else:
            assert share >= 0.98, edit


def test_a_document_is_read_in_whole_sentences_and_lines_between_them():
    text = "# Opening hours\n\nWe open at 9. Do you close?\n\n- Closed on Mondays\n"
    assert beside("The opening hours.", text).grounded == 1.0
    assert beside("It is closed on Mondays.", text).grounded == 1.0
    # A line without an end is no one sentence that says everything.
    listed = ", ".join(f"thing{i:03}" for i in range(1000))
    said = beside("Thing001 and thing300 and thing600 and thing900.", listed)
    assert said.grounded == 3 / 4


def test_sentences_of_an_answer_keep_all_else_that_is_known_of_them():
    units = split_of("Lima is the capital of Peru. It is blue.")
    told = grounded(units, [document(LIMA)], "", WorkBudget()).units
    assert [one.spans for one in told] == [one.spans for one in units]
    assert [one.kind for one in told] == ["sentence"] * 2


def split_of(text):
    from models.records import Sequence

    return split(Sequence(text, text, 0, "given"), "sentences").units


def test_json_that_a_tool_gave_is_read_as_the_text_that_it_holds():
    given = json.dumps({"city": "Bogot\u00e1", "text": 'It grew.\nLima "shrank" in 1990.'})
    assert "\\u00e1" in given
    told = beside("Bogot\u00e1 grew.", given)
    assert (told.grounded, told.missing) == (1.0, ())
    told = beside("Lima shrank in 1990.", given)
    assert (told.grounded, told.missing) == (1.0, ())
    start, end = told.document_span
    assert given[start:end] == 'Lima \\"shrank\\" in 1990."}'
    assert beside("Nice is big.", "C:\\nice").grounded == 0.0  # no JSON, and nothing is escaped
