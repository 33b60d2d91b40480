"""The application keeps what its OpenAPI document promises.

This covers statuses, shapes and media types of every response.
"""

import re
import threading
import time

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance

from app.main import create_app
from app.settings import Settings
from tests.fakes.settings import FAKES

SETTINGS = Settings(**FAKES)
# A request that the document allows may still not fit the model, which is a documented 422; 504 is
# looked at below.
NOT_PROMISED = [positive_data_acceptance, not_a_server_error]

# What is wrong with a field by itself, which the document tells of every field.
OF_SHAPE = re.compile(r"Input should|Field required|Extra inputs|String should|List should|Value ")
# But for what a string holds, and a bound that is rounded where the document is written.
NOT_IN_SCHEMAS = {
    f"Input should be less than {2**63}",
    "Input should be a JSON object, as a string, nested at most 200 deep",
    "Input should be data:image/png;base64,… (or of jpeg, gif, webp), or begin with https://",
    "Input should be a valid string, without lone surrogates",
}

# Generated examples only: a case for each bound of each field is thousands a route, and minutes.
CONFIG = schemathesis.Config.from_dict({"phases": {"coverage": {"enabled": False}}})
schema = schemathesis.openapi.from_dict(create_app(SETTINGS).openapi(), config=CONFIG)


@pytest.fixture(scope="module")
def url():
    """The service over fake models on a free port, on a thread of its own."""
    app = create_app(SETTINGS)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    give_up_at = time.monotonic() + 60
    while not (server.started and app.state.service.supervisor.ready.is_set()):
        assert time.monotonic() < give_up_at
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


@schema.parametrize()
@settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=100,  # of each route with parameters
    suppress_health_check=list(HealthCheck),
)
def test_every_response_is_as_documented(case, url):
    if case.meta.generation.mode.is_positive and isinstance(case.body, dict):
        # Only a deployment knows these names; made-up ones would end every case here.
        case.body.pop("similarity", None)
        if "model" in case.body:
            case.body["model"] = "cocoa"
    response = case.call(base_url=url)
    case.validate_response(response, excluded_checks=NOT_PROMISED)
    if case.meta.generation.mode.is_positive and response.status_code == 422:
        error = response.json()["error"]
        assert not OF_SHAPE.match(error["message"]) or error["message"] in NOT_IN_SCHEMAS, error
    if response.status_code >= 500:
        assert response.json()["error"]["code"] == "deadline_exceeded"
