"""What the adapter makes of prompts that vLLM's plugin compares with a calibration's."""

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from models.records import GivenAnswer
from tests.openai_server import openai_server
from tests.unit.workers.openai.test_generator import REQUEST
from workers.config import GeneratorConfig
from workers.openai.generator import OpenAIGenerator
from workers.openai.requests import COMPLETIONS

pytestmark = pytest.mark.anyio

PROMPTS, OTHERS = "a1" * 32, "b2" * 32
CODE = "prompt_out_of_domain"


@asynccontextmanager
async def over(server, prompts=PROMPTS):
    servers = GeneratorConfig(url=server.url, api="openai").place()
    generator = OpenAIGenerator(servers, prompts=prompts)
    await generator.upstream.connect()
    try:
        yield generator
    finally:
        await generator.close()


def modes(server):
    """Of the calls that asked for a mode, in their order."""
    bodies = [body for body in server.sent(COMPLETIONS) if "vllm_xargs" in body]
    return [body["vllm_xargs"]["cocoa"] for body in bodies]


@pytest.mark.parametrize(("percentile", "is_told"), [(98.9, False), (99.1, True), (None, True)])
async def test_a_prompt_beyond_the_99th_percentile_is_told(percentile, is_told):
    traits = {"probes": (), "prompts": PROMPTS, "prompt_percentile": percentile}
    async with openai_server(**traits) as server, over(server) as generator:
        server.bodies.clear()
        generation = await generator.generate(REQUEST)
        assert generator.info.prompts == PROMPTS
        assert (CODE in generation.warnings) == is_told
        assert modes(server) == ["entropy+prompt"]  # of the answer, not of its samples


async def test_the_prompt_of_a_given_answer_costs_a_token():
    traits = {"probes": (), "prompts": PROMPTS, "prompt_percentile": 100.0}
    given = replace(REQUEST, answer=GivenAnswer("Paris"))
    async with openai_server(**traits) as server, over(server) as generator:
        server.bodies.clear()
        generation = await generator.generate(given)
        assert CODE in generation.warnings
        assert modes(server) == ["entropy+prompt"]
        [body] = [one for one in server.sent(COMPLETIONS) if "vllm_xargs" in one]
        assert body["max_tokens"] == 1


@pytest.mark.parametrize("prompts", ["", OTHERS])
async def test_prompts_of_another_calibration_are_not_compared(prompts):
    traits = {"probes": (), "prompts": PROMPTS, "prompt_percentile": 100.0}
    async with openai_server(**traits) as server, over(server, prompts) as generator:
        generation = await generator.generate(REQUEST)
        assert generator.info.prompts == ""
        assert CODE not in generation.warnings
        assert not any("+prompt" in mode for mode in modes(server))


async def test_a_server_that_compares_with_other_prompts_is_noticed_and_stays_the_same_model():
    traits = {"probes": (), "prompts": PROMPTS, "prompt_percentile": 100.0}
    async with openai_server(**traits) as server, over(server) as generator:
        first = await generator.generate(REQUEST)
        server.prompts = OTHERS
        second = await generator.generate(REQUEST)
        assert (CODE in first.warnings, CODE in second.warnings) == (True, False)
        assert generator.info.prompts == ""
        assert first.identity == second.identity
