"""Files of FActScore, LongFact and CONSTRUCT are read as they are published."""

import json

import pytest

from cocoa_lab.judges import Verdict
from cocoa_lab.parts.examples import read_parts


@pytest.fixture
def written(tmp_path):
    """The path of a file with these lines."""

    def written(name, *lines):
        path = tmp_path / name
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    return written


def annotation(text, *labels, is_relevant=True):
    facts = [{"text": f"Fact {i}.", "label": label} for i, label in enumerate(labels)] or None
    model_facts = [{"text": "Another fact."}]
    return {
        "text": text,
        "is-relevant": is_relevant,
        "human-atomic-facts": facts,
        "model-atomic-facts": model_facts,
    }


BIO = {
    "input": "Question: Tell me a bio of Ada Byron.",
    "output": "She was born in 1815. She wrote. She sang. The end.",
    "topic": "Ada Byron",
    "cat": ["rare", "Europe/Middle East"],
    "annotations": [
        annotation("She was born in 1815.", "S", "NS"),
        annotation("She wrote.", "S", "IR"),
        annotation("She sang.", "IR"),
        annotation("The end.", is_relevant=False),
    ],
}


def test_a_sentence_of_factscore_is_right_whose_facts_are_all_supported(written):
    [one] = read_parts(written("ChatGPT.jsonl", BIO), "sentences")

    assert (one.example.prompt, one.output) == (BIO["input"], BIO["output"])
    assert one.labels == [
        ("She was born in 1815.", Verdict(is_right=False)),
        ("She wrote.", Verdict(is_right=True)),
    ]


def test_its_facts_are_claims_that_quote_their_sentence(written):
    [one] = read_parts(written("ChatGPT.jsonl", BIO), "claims")

    assert [right.is_right for _, right in one.labels] == [True, False, True]
    assert [claim.quotes for claim in one.claims] == [
        ("She was born in 1815.",),
        ("She was born in 1815.",),
        ("She wrote.",),
    ]


def test_sentences_of_factscore_are_found_behind_citations_and_spaces(written):
    cited = {
        **BIO,
        "output": "She was born in\n1815[1][2]. She wrote[3]. She wrote .",
        "annotations": [
            annotation("She was born in 1815.", "S"),
            annotation("She wrote.", "NS"),
            annotation("She wrote[4].", "S"),
            annotation("She sang.", "S"),
        ],
    }
    [one] = read_parts(written("PerplexityAI.jsonl", cited), "sentences")

    assert [text for text, _ in one.labels] == [
        "She was born in\n1815[1][2].",
        "She wrote[3].",
        "She wrote .",
        "She sang.",
    ]


def test_answers_of_factscore_without_annotations_abstained(written):
    silent = {"topic": "Nobody", "output": "", "annotations": None}
    asking = {"topic": "Chief", "output": "Which Chief do you mean?", "annotations": None}
    path = written("ChatGPT.jsonl", silent, asking, {**BIO, "input": None})
    [one] = read_parts(path, "sentences")

    assert one.example.prompt == "Question: Tell me a bio of Ada Byron."


@pytest.mark.parametrize(
    "line",
    [{"topic": "Ada", "output": "She wrote."}, {"prompt": "Who was Ada?", "canary": "GUID"}],
    ids=["FActScore", "LongFact"],
)
def test_published_files_without_labels_say_what_they_lack(written, line):
    with pytest.raises(ValueError, match="line 1: exactly one of the fields 'units' and 'judge'"):
        read_parts(written("theirs.jsonl", line), "sentences")


def test_other_annotations_than_those_of_factscore_are_refused(written):
    path = written("mine.jsonl", {**BIO, "annotations": [{"text": "She wrote."}]})
    with pytest.raises(ValueError, match="line 1: field 'annotations'"):
        read_parts(path, "sentences")


def test_prompts_of_longfact_with_a_judge_are_ours(written):
    line = {"prompt": "Where is Lima?", "canary": "GUID", "judge": "world", "subject": "Lima"}
    [one] = read_parts(written("theirs.jsonl", line), "sentences")

    assert one.judge is not None


SCHEMA = {"type": "object", "properties": {"name": {"type": ["string", "null"]}}}
TABLE = """text,ground_truth
"Ada, of London","{'name': 'Ada'}"
Nobody,"{""name"": null}"
"""


def test_a_table_of_construct_has_texts_truths_and_a_schema_beside_it(tmp_path):
    (tmp_path / "pii.csv").write_text(TABLE)
    (tmp_path / "pii.schema.json").write_text(json.dumps(SCHEMA))
    first, second = read_parts(tmp_path / "pii.csv", "fields")

    assert (first.reference, second.reference) == ({"name": "Ada"}, {"name": None})
    assert first.json_schema == SCHEMA
    assert first.example.prompt.endswith("\n\nAda, of London")
    assert json.dumps(SCHEMA) in first.example.prompt
    assert first.example.max_new_tokens >= 1000, "a record of many fields is not cut"


BAD = {
    "no schema": (TABLE, None, "its JSON schema is not beside it"),
    "no truth": ("text,truth\na,b\n", SCHEMA, "needs the columns ground_truth and one of text"),
    "a truth that is code": (
        "text,ground_truth\na,len()\n",
        SCHEMA,
        "line 2: field 'ground_truth'",
    ),
}


@pytest.mark.parametrize(("table", "schema", "said"), BAD.values(), ids=list(BAD))
def test_a_table_that_lacks_something_is_refused(tmp_path, table, schema, said):
    (tmp_path / "pii.csv").write_text(table)
    if schema is not None:
        (tmp_path / "pii.schema.json").write_text(json.dumps(schema))
    with pytest.raises(ValueError, match=r"pii\.csv") as caught:
        read_parts(tmp_path / "pii.csv", "fields")
    assert said in str(caught.value)
