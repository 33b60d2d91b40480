"""Names of models: hub ids as they are, folders without what lies above them."""

import pytest

from models.locations import public_name, without_folders


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("org/model", "org/model"),
        ("/data/models/llama", "llama"),
        ("./llama", "llama"),
        ("~/models/llama", "llama"),
    ],
)
def test_a_path_is_told_by_its_last_part_even_where_nothing_is_there(model, name):
    assert public_name(model) == name


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/home/me/data/set.jsonl, 300 labels by nli", "set.jsonl, 300 labels by nli"),
        ("data/set.jsonl, 3 labels", "set.jsonl, 3 labels"),
        ("./runs/one/, 3 labels", ", 3 labels"),
        ("testbed, 2161 labels by exact match", "testbed, 2161 labels by exact match"),
        ("org/set, right / wrong", "org/set, right / wrong"),
    ],
)
def test_a_text_that_names_files_is_told_without_their_folders(text, told):
    assert without_folders(text) == told
