"""Settings of labels, and records: what was kept comes back equal, and nothing else does."""

import orjson
import pytest
from pydantic import TypeAdapter, ValidationError

from app.plugins.labels.protocol import FeedbackConfig, answer_from_json, label_from_json
from models.codec import to_json
from tests.made_labels import a_label, an_answer

CONFIG = TypeAdapter(FeedbackConfig)


def test_without_settings_there_is_no_place_for_labels():
    config = CONFIG.validate_python({})
    assert (config.path, config.url, config.keep_texts) == ("", None, False)
    assert config.require_fsync


@pytest.mark.parametrize(
    "bad",
    [
        {"path": "a", "url": "redis://localhost"},
        {"url": "http://localhost"},
        {"url": "redis://localhost?ssl_cert_reqs=none"},
        {"ttl_s": 0},
        {"max_answers": 0},
        {"timeout_s": 0.1},
        {"timeout_s": 31},
        {"namespace": "a b"},
    ],
    ids=str,
)
def test_a_setting_out_of_its_bounds_is_refused(bad):
    with pytest.raises(ValidationError):
        CONFIG.validate_python(bad)


def test_an_empty_url_beside_a_path_is_none():
    assert CONFIG.validate_python({"path": "a", "url": ""}).path == "a"


@pytest.mark.parametrize(
    "answer",
    [an_answer(), an_answer(binding=None, calibrator=None), an_answer(text="a\nb")],
    ids=["bound", "unbound", "with its text"],
)
def test_an_answer_comes_back_as_one_line(answer):
    content = to_json(answer)
    assert b"\n" not in content
    assert answer_from_json(content) == answer


def test_a_label_comes_back():
    label = a_label("a", 0.5, "task")
    assert label_from_json(to_json(label)) == label


def changed(**changes):
    value = orjson.loads(to_json(a_label()))
    for path, new in changes.items():
        *parts, last = path.split("__")
        inner = value
        for part in parts:
            inner = inner[part]
        inner[last] = new
    return orjson.dumps(value)


BAD = {
    "nothing": b"",
    "half": to_json(a_label())[:-20],
    "a list": b"[]",
    "a quality above 1": changed(quality=1.5),
    "no quality": changed(quality=None),
    "a score that is none": changed(answer__scores={"sp": "high"}),
    "another format": changed(answer__format=2),
    "half a binding": changed(answer__binding={"model_id": "a"}),
    "a number for an id": changed(answer__id=3),
    "infinity": to_json(a_label()).replace(b"0.25", b"1e999"),
}


@pytest.mark.parametrize("content", BAD.values(), ids=list(BAD))
def test_what_is_no_label_is_refused(content):
    with pytest.raises(ValueError, match=r"\w"):
        label_from_json(content)
