"""What the served model is called."""

import pytest

from app.http.openai.requests import is_light, served_names
from models.statistics import PROBE_STATISTICS
from workers.protocol import GeneratorInfo

BARE = GeneratorInfo("id", "org/model", "1", "float32", frozenset(), 512)
PROBED = GeneratorInfo("id", "org/model", "1", "float32", PROBE_STATISTICS, 512)


def test_light_names_are_listed_where_there_is_a_probe():
    assert served_names(BARE) == ["org/model", "cocoa"]
    assert served_names(PROBED) == ["org/model", "cocoa", "org/model:light", "cocoa:light"]


@pytest.mark.parametrize("generator", [BARE, PROBED], ids=["without a probe", "with one"])
def test_a_name_says_which_mode_it_asks_for(generator):
    assert not is_light("org/model", generator)
    assert is_light("org/model:light", generator), "without a probe the plan says what is missing"
    assert is_light("cocoa:light", generator)
