"""The named datasets are tried on small local files of the hub's schema.

The rows of the files were written for these tests.
"""

import json
from pathlib import Path

import pytest

from app.lab.datasets import NAMED, Example, load, read_jsonl

DATA = Path(__file__).parents[3] / "data"


def named(name, **options):
    return load(name, limit=None, data_dir=DATA, **options)


def write(path, *rows):
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def test_the_testbed_has_all_three_tasks():
    examples = load("testbed", limit=None)

    assert {e.task for e in examples} == {"facts", "arithmetic", "translation"}
    assert len(examples) == 2161
    assert len({e.id for e in examples}) == 2161


def test_a_task_of_the_testbed():
    first = load("testbed/facts", limit=None)[0]

    assert first == Example(
        id="facts-testbed-0000",
        task="facts",
        prompt="Tell me the capital of Cuba.",
        references=(
            "Havana",
            "It is Havana.",
            "The capital of Cuba is Havana.",
            "The answer is Havana.",
        ),
        fame=7.0545,
    )


def test_a_limit_draws_with_the_seed_and_keeps_the_order():
    everything = load("testbed/facts", limit=None)
    drawn = load("testbed/facts", limit=20, seed=1)

    assert drawn == load("testbed/facts", limit=20, seed=1)
    assert drawn != load("testbed/facts", limit=20, seed=2)
    assert drawn != everything[:20]
    assert drawn == [e for e in everything if e in drawn]
    assert len(drawn) == 20


def test_any_jsonl_file_is_a_dataset(tmp_path):
    path = write(
        tmp_path / "mine.jsonl",
        {"prompt": "2 + 2?", "reference": "4"},
        "",
        {
            "prompt": "Name a prime.",
            "references": ["2", "3"],
            "reference": "3",
            "task": "primes",
            "id": "p",
            "kind": 1,
        },
        {
            "prompt": "Sum up.",
            "reference": "s",
            "context": "text",
            "max_new_tokens": 9,
            "stop": ["."],
            "fame": 1,
        },
    )

    assert load(str(path), limit=None) == [
        Example("mine-1", "mine", "2 + 2?", ("4",)),
        Example("p", "primes", "Name a prime.", ("3", "2")),
        Example(
            "mine-4",
            "mine",
            "Sum up.",
            ("s",),
            context="text",
            max_new_tokens=9,
            stop=(".",),
            fame=1,
        ),
    ]


GOOD = {"prompt": "p", "reference": "r"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("{", "no JSON", id="no json"),
        pytest.param("[1]", "no JSON object", id="no object"),
        pytest.param({"reference": "r"}, "field 'prompt' is missing", id="no prompt"),
        pytest.param(
            {"prompt": "", "reference": "r"},
            "field 'prompt' is missing or empty",
            id="empty prompt",
        ),
        pytest.param(
            {"prompt": 3, "reference": "r"}, "field 'prompt' is not a string", id="number as prompt"
        ),
        pytest.param(
            {"prompt": "p"}, "field 'reference' or 'references' is missing", id="no reference"
        ),
        pytest.param(
            {"prompt": "p", "references": []},
            "'references' is missing or empty",
            id="empty references",
        ),
        pytest.param(
            {"prompt": "p", "references": "r"},
            "field 'references' is not a list",
            id="text as references",
        ),
        pytest.param(
            {"prompt": "p", "reference": ["r"]},
            "field 'reference' is not a string",
            id="list as reference",
        ),
        pytest.param(
            GOOD | {"context": 1}, "field 'context' is not a string", id="number as context"
        ),
        pytest.param(GOOD | {"stop": "\n"}, "field 'stop' is not a list", id="text as stop"),
        pytest.param(
            GOOD | {"max_new_tokens": "9"},
            "field 'max_new_tokens' is not a number",
            id="text as limit",
        ),
        pytest.param(
            GOOD | {"max_new_tokens": True},
            "field 'max_new_tokens' is not a number",
            id="bool as limit",
        ),
        pytest.param(
            GOOD | {"max_new_tokens": 0}, "field 'max_new_tokens' is below 1", id="no new tokens"
        ),
        pytest.param(GOOD | {"fame": "high"}, "field 'fame' is not a number", id="text as fame"),
        pytest.param(
            GOOD | {"id": "mine-1"}, "field 'id': 'mine-1' occurs twice", id="repeated id"
        ),
    ],
)
def test_a_bad_line_is_named_with_its_file_its_number_and_its_field(tmp_path, line, message):
    path = write(tmp_path / "mine.jsonl", GOOD, "", line)

    with pytest.raises(ValueError, match=r"mine\.jsonl, line 3: ") as caught:
        read_jsonl(path)

    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["nothing", "testbed/nothing", "mine.csv"])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(ValueError, match=r"^unknown "):
        load(name, limit=None)


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
    assert lines[:10:2] == [
        f"Question: What is the capital of {c}?"
        for c in ("Ghana", "Peru", "Italy", "Norway", "Cuba")
    ]
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
    assert sorted(line for line in anatomy.prompt.split("\n") if " of anatomy?" in line) == [
        f"Q:{n} plus one of anatomy?" for n in range(1, 6)
    ]
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


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_local_files_may_be_json_or_parquet(tmp_path, kind):
    from datasets import Dataset

    rows = [
        json.loads(line) for line in (DATA / "coqa" / "validation.jsonl").read_text().splitlines()
    ]
    (tmp_path / "coqa").mkdir()
    path = tmp_path / "coqa" / f"validation.{kind}"
    if kind == "json":
        path.write_text(json.dumps(rows))
    else:
        Dataset.from_list(rows).to_parquet(path)

    assert load("coqa", limit=None, data_dir=tmp_path) == named("coqa")


def test_a_missing_local_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"no coqa/validation\.jsonl"):
        load("coqa", limit=None, data_dir=tmp_path)


def test_without_a_folder_the_hubs_split_is_asked_for(monkeypatch):
    asked = []

    def load_dataset(path, config, *, split, revision):
        asked.append((path, config, split, revision))
        return [{"document": "d", "summary": "s", "id": "1"}]

    monkeypatch.setattr("datasets.load_dataset", load_dataset)

    assert load("xsum", limit=None)[0].references == ("s",)
    assert asked == [("EdinburghNLP/xsum", None, "test", "refs/convert/parquet")]
