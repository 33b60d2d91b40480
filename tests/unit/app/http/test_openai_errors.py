"""Errors in OpenAI's words."""

import pytest

from app.http.openai_errors import openai_error
from app.http.schemas import ErrorBody


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "invalid_request_error"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "server_error"),
        (504, "server_error"),
    ],
)
def test_the_type_of_an_error_follows_from_its_status(status, kind):
    body = ErrorBody(code="a_code", message="what", field="prompt", request_id="id")
    expected = {"message": "what", "param": "prompt", "code": "a_code", "request_id": "id"}
    assert openai_error(status, body) == {"error": {**expected, "type": kind}}
