"""The service with keys."""

import httpx

from app.http.middleware import at_ops_port
from tests.conftest import GENERATE, serving
from tests.made_keys import bearer, keys_in

PROMPT = "What is the capital of France?"
GIVEN = {"answer": "Paris", "samples": [{"text": "Lyon"}], "estimators": ["inconsistency"]}


def with_keys(folder, shared_rows=32, **limits):
    """The service, where these keys are good."""
    return serving(access={"keys": keys_in(folder, shared_rows=shared_rows, **limits)})


async def generate(service, name, **body):
    body = {"prompt": PROMPT, "max_new_tokens": 8, **body}
    return await service.client.post(GENERATE, json=body, headers=bearer(name))


async def ops_metrics(service):
    """The metrics as the ops port tells them, with the names of keys."""
    transport = httpx.ASGITransport(at_ops_port(service.app))
    async with httpx.AsyncClient(transport=transport, base_url="http://ops") as ops:
        return (await ops.get("/metrics")).text


async def metric(service, line):
    return f"\n{line}\n" in await ops_metrics(service)
