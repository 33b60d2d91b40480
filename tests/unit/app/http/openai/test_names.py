"""What the served model is called."""

from app.http.openai.requests import served_names
from models.statistics import supplied_by
from workers.protocol import GeneratorInfo

BARE = GeneratorInfo("id", "org/model", "1", "float32", frozenset(), 512)
PROBED = GeneratorInfo("id", "org/model", "1", "float32", supplied_by("probe"), 512)


def test_light_names_are_listed_where_there_is_a_probe():
    assert served_names(BARE) == ["org/model", "cocoa"]
    assert served_names(PROBED) == ["org/model", "cocoa", "org/model:light", "cocoa:light"]
