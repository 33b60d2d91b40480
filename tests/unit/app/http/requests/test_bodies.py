"""Null is the default of a field of a body, for those who send it and in the document."""

import pytest

from app.http.requests.bodies import GenerateRequest, ScoreRequest


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
