"""No prompt of the testbed is trained on; every fact of it is trained in another wording."""

import json
import random
from collections import Counter

import numpy as np
import pytest

from cocoa_lab.embedded import TASKS, as_question, held_out_path
from cocoa_lab.embedded.corpus import (
    QUESTION_COURSE,
    Course,
    all_topics,
    examples_of,
    exposures,
    training_examples,
    training_prompts,
)
from cocoa_lab.embedded.language_model import RECIPES
from cocoa_lab.embedded.testbed import HeldOut, is_correct, read_testbed, write_probe_prompts
from cocoa_lab.embedded.topics import prompts, prompts_in, split, wordings
from models.embedded import TESTBED_DIR


@pytest.fixture(scope="module")
def testbed() -> dict[str, list[HeldOut]]:
    return read_testbed(TESTBED_DIR)


@pytest.fixture(scope="module")
def trained() -> set[str]:
    return set(training_prompts())


@pytest.fixture(scope="module", params=RECIPES, ids=lambda recipe: recipe.folder)
def course(request) -> Course:
    return request.param.course


@pytest.fixture(scope="module")
def trained_on(course) -> set[str]:
    return set(training_prompts(course))


@pytest.mark.parametrize("task", TASKS)
def test_no_prompt_of_the_testbed_occurs_in_training(task, testbed, course, trained_on):
    asked = {course.prompt_form(line.prompt) for line in testbed[task]}
    assert len(asked) == len(testbed[task])
    assert not asked & trained_on


def test_training_shows_only_prompts_from_its_list(course, trained_on):
    shown = {example.prompt for example in training_examples(3000, 1, course)}
    assert shown <= trained_on


def test_the_second_language_model_is_shown_the_split_of_the_first_in_its_own_form(trained):
    assert set(training_prompts(QUESTION_COURSE)) == {as_question(prompt) for prompt in trained}


def test_answers_are_worded_in_the_shares_of_the_course(course):
    topic = next(topic for topic in all_topics()["facts"] if any(prompts_in(topic, "train")))
    examples = examples_of(topic, random.Random(0), 4000, course)
    counts = Counter(example.answer for example in examples)
    shares = [counts[text] / 4000 for text in wordings(topic)]
    assert shares == pytest.approx(course.answer_shares, abs=0.03)


def test_the_probe_pool_is_large_and_overlaps_neither_training_nor_testbed(
    testbed, trained, tmp_path
):
    write_probe_prompts(tmp_path / "prompts.jsonl")
    pools = {task: [] for task in TASKS}
    for line in (tmp_path / "prompts.jsonl").read_text("utf-8").splitlines():
        prompt = json.loads(line)
        pools[prompt["task"]].append(prompt["prompt"])
    for task, pool in pools.items():
        assert len(set(pool)) == len(pool) >= 2600, task
        assert not set(pool) & trained
        assert not set(pool) & {line.prompt for line in testbed[task]}


def test_every_fact_of_the_testbed_is_trained_in_another_wording(testbed):
    prompts_of_trained_facts = set()
    for topic in all_topics()["facts"]:
        if any(prompts_in(topic, "train")):
            prompts_of_trained_facts.update(prompts(topic))
    assert {line.prompt for line in testbed["facts"]} <= prompts_of_trained_facts


@pytest.mark.parametrize("task", ["arithmetic", "translation"])
def test_operands_and_words_of_the_testbed_are_trained_in_no_wording(task, testbed, trained):
    prompts_of_testbed = {line.prompt for line in testbed[task]}
    for topic in all_topics()[task]:
        if prompts_of_testbed & set(prompts_in(topic, "testbed")):
            assert not trained & set(prompts(topic)), topic.subject


@pytest.mark.parametrize("task", TASKS)
def test_the_shipped_testbed_has_600_prompts_a_task_with_unique_ids_and_prompts(task, testbed):
    lines = testbed[task]
    assert len(lines) >= 600
    assert len({line.id for line in lines}) == len({line.prompt for line in lines}) == len(lines)
    assert {line.task for line in lines} == {task}


@pytest.mark.parametrize("task", TASKS)
def test_references_begin_with_the_reference_and_hold_every_wording(task, testbed):
    for line in testbed[task]:
        assert line.references[0] == line.reference
        assert all(line.reference in text for text in line.references)
        assert len(line.references) >= 3


@pytest.mark.parametrize("task", TASKS)
def test_every_topic_words_its_answer_around_the_answer(task):
    for topic in all_topics()[task]:
        texts = wordings(topic)
        assert texts[0] == topic.answer
        assert all(topic.answer in text for text in texts)
        assert topic.weight > 0


@pytest.mark.parametrize("task", TASKS)
def test_the_weights_of_a_task_sum_to_one(task):
    assert sum(topic.weight for topic in all_topics()[task]) == pytest.approx(1.0)


def test_the_split_is_the_same_on_every_machine():
    parts = [split(f"key {n}") for n in range(8)]
    assert parts == ["train", "train", "probe", "testbed", "train", "probe", "train", "testbed"]


def test_the_split_keeps_a_tenth_for_the_testbed_and_more_for_probes():
    shares = Counter(split(str(n)) for n in range(20_000))
    assert shares["testbed"] / 20_000 == pytest.approx(0.10, abs=0.01)
    assert shares["probe"] / 20_000 == pytest.approx(0.15, abs=0.01)


@pytest.mark.parametrize("total", [10, 1000, 100_000])
def test_every_topic_is_trained_at_least_once_and_the_famous_more_often(total):
    counts = exposures(np.array([1e-6, 1e-3, 1.0]), total)
    assert counts.min() >= 1
    assert counts.sum() <= max(total, 3)
    assert list(counts) == sorted(counts)


def test_a_training_is_the_same_for_the_same_seed_and_another_for_another():
    first, again, other = (training_examples(200, seed) for seed in (3, 3, 4))
    assert first == again != other


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (" Paris", True),
        ("It is Paris.\n", True),
        ("paris", False),
        ("Paris, of course", False),
        ("", False),
    ],
)
def test_an_answer_is_right_when_stripped_it_is_an_accepted_wording(text, right):
    assert is_correct(text, ["Paris", "It is Paris."]) is right


def test_an_unknown_task_is_refused():
    with pytest.raises(ValueError, match="unknown task 'poetry'"):
        held_out_path("poetry")
