"""Settings of labels."""

import pytest
from pydantic import TypeAdapter, ValidationError

from app.feedback.protocol import FeedbackConfig

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
