"""Datasets by name, drawn with a seed, and named ones from local files of each kind."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cocoa_lab.datasets import load
from cocoa_lab.examples import Example

DATA = Path(__file__).parents[2] / "data"


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


def test_the_second_testbed_asks_the_same_in_the_form_of_the_second_language_model():
    first, second = load("testbed", limit=None), load("testbed-second", limit=None)

    assert second[0].prompt == "Question: Tell me the capital of Cuba.\nAnswer:"
    assert second == [replace(e, prompt=f"Question: {e.prompt}\nAnswer:") for e in first]
    assert load("testbed-second/arithmetic", limit=None) == second[720:1441]


def test_the_testbed_as_chats_has_the_same_prompts_under_the_same_ids():
    prompts, chats = load("testbed/facts", limit=9), load("testbed-chat/facts", limit=9)

    for prompt, chat in zip(prompts, chats, strict=True):
        assert chat.messages == ({"role": "user", "content": prompt.prompt},)
        shown = f"user: {prompt.prompt}"
        assert replace(prompt, prompt=shown, messages=chat.messages) == chat


def test_a_limit_draws_with_the_seed_and_keeps_the_order():
    everything = load("testbed/facts", limit=None)
    drawn = load("testbed/facts", limit=20, seed=1)

    assert drawn == load("testbed/facts", limit=20, seed=1)
    assert drawn != load("testbed/facts", limit=20, seed=2)
    assert drawn != everything[:20]
    assert drawn == [e for e in everything if e in drawn]
    assert len(drawn) == 20


@pytest.mark.parametrize(
    "name", ["nothing", "testbed/nothing", "testbed/", "testbed-third", "mine.csv"]
)
def test_an_unknown_name_is_refused(name):
    with pytest.raises(ValueError, match=r"^unknown "):
        load(name, limit=None)


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_local_files_may_be_json_or_parquet(tmp_path, kind):
    from datasets import Dataset

    lines = (DATA / "coqa" / "validation.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    (tmp_path / "coqa").mkdir()
    path = tmp_path / "coqa" / f"validation.{kind}"
    if kind == "json":
        path.write_text(json.dumps(rows))
    else:
        Dataset.from_list(rows).to_parquet(path)

    assert load("coqa", limit=None, data_dir=tmp_path) == load("coqa", limit=None, data_dir=DATA)


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
