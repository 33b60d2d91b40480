"""The service as it is without any plugin: the native endpoint and OpenAI's chat."""

import pytest

from app.installed import hand_over, installed
from models.estimators import ESTIMATORS
from models.similarity import PAIR_MODELS
from tests.e2e.embedded_service import embedded_service

pytestmark = pytest.mark.anyio

QUESTION = "What is the capital of France?"
CHAT = {"model": "cocoa", "messages": [{"role": "user", "content": QUESTION}]}


@pytest.fixture
async def client(anyio_backend):
    async with embedded_service(plugins=()) as client:
        yield client
    hand_over(installed())  # for the tests behind these


async def test_the_embedded_models_answer_a_prompt_and_a_chat(client):
    whole = await client.post("/generate-with-uncertainty", json={"prompt": QUESTION})
    assert whole.json()["uncertainty"] >= 0
    chat = await client.post("/v1/chat/completions", json=CHAT)
    assert chat.json()["choices"][0]["uncertainty"]["value"] >= 0


async def test_estimators_and_similarity_functions_are_the_services_own(client):
    listed = (await client.get("/estimators")).json()
    assert [one["name"] for one in listed["estimators"]] == list(ESTIMATORS)
    scorers = client.app.state.service.scorer.workers.similarity_scorers
    assert scorers.keys() <= {*PAIR_MODELS, "nli"}


@pytest.mark.parametrize("path", ["/", "/mcp", "/feedback", "/v1/responses"])
async def test_what_plugins_serve_is_not_found(client, path):
    response = await client.get(path)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")


async def test_what_there_is_to_operate_and_to_read_is_there(client):
    for path in ("/readyz", "/version", "/metrics", "/estimators", "/openapi.json"):
        assert (await client.get(path)).status_code == 200, path
