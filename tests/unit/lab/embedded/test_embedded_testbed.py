"""The shipped testbed: its prompts are distinct, and its references hold the answer."""

import pytest

from cocoa_lab.datasets import load
from cocoa_lab.embedded import TASKS, held_out_path


@pytest.mark.parametrize("task", TASKS)
def test_the_shipped_testbed_has_600_prompts_a_task_with_unique_ids_and_prompts(task):
    lines = load(f"testbed/{task}", limit=None)
    assert len(lines) >= 600
    assert len({line.id for line in lines}) == len({line.prompt for line in lines}) == len(lines)
    assert {line.task for line in lines} == {task}


@pytest.mark.parametrize("task", TASKS)
def test_references_begin_with_the_answer_and_hold_it_in_every_wording(task):
    for line in load(f"testbed/{task}", limit=None):
        assert all(line.references[0] in text for text in line.references)
        assert len(line.references) >= 3


def test_an_unknown_task_is_refused():
    with pytest.raises(ValueError, match="unknown task 'poetry'"):
        held_out_path("poetry")
