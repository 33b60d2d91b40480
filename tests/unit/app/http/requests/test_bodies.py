"""Every field of a body reaches the ask; nothing is lost on the way and nothing invented."""

import pytest
from pydantic import ValidationError

from app.http.requests.bodies import GenerateRequest, ScoreRequest, ask_of
from app.scoring.ask import Ask
from models.records import SamplingParams

SHARED = {
    "estimators": ["sp", "cocoa_sp"],
    "estimator": "mte",
    "similarity": "added",
    "num_samples": 3,
    "max_new_tokens": 5,
    "temperature": 0.5,
    "top_k": 7,
    "top_p": 0.9,
    "stop": ["\n", "Q:"],
    "seed": 11,
    "return_samples": True,
    "return_tokens": True,
    "timeout_s": 2.5,
    "cache": False,
}
EXPECTED = {
    "sampling": SamplingParams(3, 5, 0.5, 7, 0.9, ("\n", "Q:"), 11),
    "estimators": ("sp", "cocoa_sp"),
    "primary": "mte",
    "similarity": "added",
    "return_samples": True,
    "return_tokens": True,
    "timeout_s": 2.5,
    "cache": False,
}


def test_a_prompt_becomes_an_ask_with_every_field():
    request = GenerateRequest(prompt="Where?", strategy="mbr", **SHARED)
    assert ask_of(request) == Ask(prompt="Where?", strategy="mbr", **EXPECTED)


@pytest.mark.parametrize(
    ("model", "required"),
    [
        (GenerateRequest, {"prompt": "Where?"}),
        (ScoreRequest, {"prompt": "Where?", "answer": "Paris"}),
    ],
)
def test_null_is_the_default_of_every_field_that_has_one_and_the_document_says_so(model, required):
    optional = model.model_fields.keys() - required.keys()
    nulls = dict.fromkeys(optional)
    assert model.model_validate(required | nulls) == model.model_validate(required)

    properties = model.model_json_schema()["properties"]
    for name in optional:
        assert {"type": "null"} in properties[name]["anyOf"], name
        assert properties[name]["default"] == model.model_fields[name].default
    assert properties["num_samples"]["anyOf"][0]["maximum"] == 64


@pytest.mark.parametrize("change", [{"answer": None}, {"n": None}])
def test_null_is_no_value_of_a_required_field_or_an_unknown_one(change):
    with pytest.raises(ValidationError):
        ScoreRequest.model_validate({"prompt": "Where?", "answer": "Paris"} | change)
