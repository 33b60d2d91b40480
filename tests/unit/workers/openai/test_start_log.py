"""What a process says of its server at its start."""

import logging

import pytest

from models.probes.protocol import ProbeConfig
from tests.openai_server import openai_server
from workers.config import GeneratorConfig
from workers.hooks import Hooks
from workers.openai.generator import connect_generator

pytestmark = pytest.mark.anyio


async def test_what_the_server_can_and_cannot_is_logged_with_the_reasons(caplog):
    caplog.set_level(logging.INFO)
    async with openai_server(probes=()) as server:
        servers = GeneratorConfig(url=server.url, api="openai").place()
        generator = await connect_generator(servers, Hooks(), ProbeConfig())
        await generator.close()
    found = [one for one in caplog.records if one.name == "workers.openai.start_log"]
    lines = [one.message for one in found]

    assert "entropy_method=exact" in lines[0]
    assert "images=not tried yet" in lines[0]
    assert "max_reasoning_tokens: the model is not known to reason" in lines[1]
    assert "predicted_dissimilarity" in lines[1]
