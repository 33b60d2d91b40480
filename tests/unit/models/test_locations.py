"""Names of models: hub ids as they are, folders without what lies above them."""

import pytest

from models.locations import public_name


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
