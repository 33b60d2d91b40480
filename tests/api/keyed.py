"""The service with keys."""

from tests.conftest import GENERATE, serving
from tests.made_keys import bearer, keys_in

PROMPT = "What is the capital of France?"
GIVEN = {"answer": "Paris", "samples": [{"text": "Lyon"}], "estimators": ["consistency"]}


def with_keys(folder, shared_rows=32, **limits):
    """The service, where these keys are good."""
    return serving(doors={"keys": keys_in(folder, shared_rows=shared_rows, **limits)})


async def generate(service, name, **body):
    body = {"prompt": PROMPT, "max_new_tokens": 8, **body}
    return await service.client.post(GENERATE, json=body, headers=bearer(name))


async def metric(service, line):
    return f"\n{line}\n" in (await service.client.get("/metrics")).text
