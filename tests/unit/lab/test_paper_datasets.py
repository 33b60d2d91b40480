"""The named datasets are tried on small local files of the hub's schema.

The rows of the files were written for these tests.
"""

from pathlib import Path

import pytest

from cocoa_lab.datasets import load
from cocoa_lab.paper_datasets import NAMED

DATA = Path(__file__).parents[2] / "data"


def named(name, **options):
    return load(name, limit=None, data_dir=DATA, **options)


@pytest.mark.parametrize(
    ("name", "max_new_tokens"),
    [
        ("trivia_qa", 20),
        ("gsm8k", 256),
        ("wmt14_fren", 107),
        ("coqa", 30),
        ("mmlu", 3),
        ("wmt19_deen", 107),
        ("xsum", 56),
    ],
)
def test_a_named_dataset_has_the_papers_limit(name, max_new_tokens):
    examples = named(name)

    assert {e.max_new_tokens for e in examples} == {max_new_tokens}
    assert {e.task for e in examples} == {name}
    assert {e.stop for e in examples} == {("\n",)}
    assert len({e.id for e in examples}) == len(examples)


def test_every_named_dataset_has_a_local_file():
    assert {path.name for path in DATA.iterdir()} >= set(NAMED)


def test_trivia_qa_has_five_shots_and_all_aliases():
    first, second = named("trivia_qa")
    lines = first.prompt.split("\n")

    # RandomState(1).choice(7, 5, replace=False) draws rows 6, 2, 1, 0, 4.
    countries = ("Ghana", "Peru", "Italy", "Norway", "Cuba")
    assert lines[:10:2] == [f"Question: What is the capital of {c}?" for c in countries]
    assert lines[1:10:2] == [
        "Answer:accra",
        "Answer:lima",
        "Answer:rome",
        "Answer:oslo",
        "Answer:havana",
    ]
    assert lines[10:] == ["Question: Which river flows through Paris?", "Answer:"]
    assert first.references == ("Seine", "The Seine", "River Seine", "seine")
    assert second.prompt.split("\n")[:10] == lines[:10]


def test_gsm8k_has_eight_worked_examples():
    first = named("gsm8k")[0]

    assert first.prompt.count("Q: ") == 9
    assert first.prompt.count("The answer is ") == 8
    assert first.prompt.endswith(
        "23 - 15 is 8. The answer is 8.\n\nQ: A box holds 6 eggs. How many eggs are in 7 boxes?\nA:"
    )
    assert first.references[0].endswith("#### 42")


@pytest.mark.parametrize(
    ("name", "source", "sentence", "translation"),
    [
        ("wmt14_fren", "French", "Le chat dort.", "The cat is sleeping."),
        ("wmt19_deen", "German", "Der Hund schläft.", "The dog is sleeping."),
    ],
)
def test_wmt_asks_for_a_translation_of_its_context(name, source, sentence, translation):
    first = named(name)[0]

    assert first.prompt == (
        f"Here is a sentence in {source} language and its translation in English language.\n\n"
        f"Original:\n{sentence}\nTranslation:\n"
    )
    assert first.references == (translation,)
    assert first.context == sentence


def test_coqa_asks_each_question_after_the_earlier_ones_with_their_answers():
    first, second, third = named("coqa")

    assert first.prompt == (
        "The following are stories and questions about them. Each story is followed by a question "
        "and answer to a given question.\n\nStory: Mia has a white cat. "
        "The cat sleeps in a basket.\n\n"
        "Question: What colour is the cat?\nAnswer:"
    )
    assert second.prompt == first.prompt + "white\n\nQuestion: Where does it sleep?\nAnswer:"
    assert second.references == ("in a basket",)
    assert third.prompt.count("Question:") == 1
    assert third.context == "Tom went home."


def test_mmlu_has_five_shots_of_its_subject():
    anatomy, physics = named("mmlu")

    assert physics.prompt.startswith(
        "The following are multiple choice questions (with answers) about high school physics."
        "\n\nQ:"
    )
    assert physics.prompt.endswith(
        "\nQ:What is the unit of force?\nA. joule\nB. newton\nC. watt\nD. pascal\nAnswer:"
    )
    assert physics.references == ("B",)
    assert anatomy.prompt.count("Answer:") == 6
    shots = [line for line in anatomy.prompt.split("\n") if " of anatomy?" in line]
    assert sorted(shots) == [f"Q:{n} plus one of anatomy?" for n in range(1, 6)]
    assert "high_school_physics" not in anatomy.prompt


def test_mmlu_takes_100_questions_of_a_subject():
    row = {"question": "q", "subject": "anatomy", "choices": ["a", "b", "c", "d"], "answer": 0}

    assert len(NAMED["mmlu"].build([row] * 120, [row] * 5)) == 100


def test_xsum_asks_for_one_sentence_about_its_article():
    (only,) = named("xsum")

    assert only.prompt == (
        "Here's the text and it's short one-sentence summary.\n\n"
        "Text:\nThe town council met on Monday.\n"
        "It decided to repair the old bridge.\n\nSummary (one sentence):\n"
    )
    assert only.context.startswith("The town council")
    assert only.references == ("A town will repair its old bridge.",)
