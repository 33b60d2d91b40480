"""The shape of errors over HTTP."""

SENTINEL = "zanzibar-sentinel"
JSON = {"content-type": "application/json"}


def assert_error(response, status, code, field=None):
    """The one shape of every error; returns its message."""
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert response.json().keys() == {"error"}
    assert error.keys() == {"code", "message", "field", "details", "request_id"}
    assert (error["code"], error["field"]) == (code, field), error
    assert error["request_id"] == response.headers["x-request-id"]
    assert error["message"]
    assert status != 503 or int(response.headers["retry-after"]) >= 1
    return error["message"]
