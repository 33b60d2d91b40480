"""Which run may take the place of results."""

import json

import pytest

from cocoa_lab.log import AnotherRun
from cocoa_lab.overwriting import RESULTS, check_replaceable

SETTINGS = {"command": "evaluate", "seed": 3}


def found(folder, num_prompts=10, **changes):
    settings = SETTINGS | {"model": "fake"} | changes
    text = json.dumps({"settings": settings, "num_prompts": num_prompts})
    (folder / RESULTS).write_text(text)


def test_nothing_and_a_file_that_was_cut_off_may_be_replaced(tmp_path):
    check_replaceable(tmp_path, SETTINGS, 1)
    (tmp_path / RESULTS).write_text('{"settings": {')
    check_replaceable(tmp_path, SETTINGS, 1)


@pytest.mark.parametrize("num_prompts", [10, 11])
def test_an_equal_or_larger_run_replaces_its_like(tmp_path, num_prompts):
    found(tmp_path)
    check_replaceable(tmp_path, SETTINGS, num_prompts)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"num_prompts": 11}, "has 11 prompts, this run only 10"),
        ({"seed": 4}, "has seed = 4, this run has 3"),
        ({"command": "probe evaluate"}, "command = 'probe evaluate'"),
    ],
    ids=["larger", "seed", "command"],
)
def test_a_larger_or_another_run_is_kept(tmp_path, changes, named):
    found(tmp_path, **changes)
    with pytest.raises(AnotherRun, match=named) as caught:
        check_replaceable(tmp_path, SETTINGS, 10)
    assert "--force" in str(caught.value)


@pytest.mark.parametrize("text", ["[]", '{"mine": 1}'])
def test_a_file_of_somebody_else_is_kept(tmp_path, text):
    (tmp_path / RESULTS).write_text(text)
    with pytest.raises(AnotherRun, match="none of this command's"):
        check_replaceable(tmp_path, SETTINGS, 10)
