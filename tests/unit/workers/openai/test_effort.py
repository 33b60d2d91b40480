"""How long a model may reason, told to servers that read it and to those that do not."""

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from models.errors import InvalidRequest
from tests.openai_server import openai_server
from tests.unit.workers.openai.test_generator import REQUEST, over

pytestmark = pytest.mark.anyio

CHAT = replace(REQUEST, prompt=None, messages=({"role": "user", "content": "Hi"},))
ALL = ("none", "minimal", "low", "medium", "high")
CHATS_ALONE = {"tokenizes": False, "completes": False}


@asynccontextmanager
async def serving(**traits):
    async with openai_server(**traits) as server, over(server) as generator:
        server.bodies.clear()
        yield server, generator


def with_effort(effort, **variables):
    return replace(CHAT, chat_template_kwargs={"reasoning_effort": effort, **variables})


@pytest.mark.parametrize("efforts", [ALL, ("low", "high"), ("low",)], ids=["all", "two", "one"])
@pytest.mark.parametrize("effort", ["low", "high"])
async def test_a_server_that_renders_gets_it_as_a_variable_of_its_template(efforts, effort):
    async with serving(efforts=efforts) as (_, generator):
        plain = await generator.generate(CHAT)
        if effort not in efforts:
            with pytest.raises(InvalidRequest):
                await generator.generate(with_effort(effort))
            return
        told = await generator.generate(with_effort(effort))

    assert told.prompt_tokens == plain.prompt_tokens + len(f"[{effort}]")


async def test_a_server_of_chats_gets_it_in_the_body():
    async with serving(efforts=ALL, **CHATS_ALONE) as (server, generator):
        await generator.generate(with_effort("low"))
        bodies = server.sent("/v1/chat/completions")
        efforts = [body["reasoning_effort"] for body in bodies if "reasoning_effort" in body]
        server.bodies.clear()
        await generator.generate(CHAT)

    assert set(efforts) == {"low"}
    assert not any("reasoning_effort" in body for _, body in server.bodies)


async def test_a_template_that_would_pass_it_over_is_not_asked_with_it():
    async with serving() as (_, generator):
        with pytest.raises(InvalidRequest, match="does not read reasoning_effort") as error:
            await generator.generate(with_effort("low"))

    assert error.value.field == "reasoning_effort"


async def test_other_variables_go_to_servers_that_render_alone():
    async with serving(efforts=ALL, **CHATS_ALONE) as (_, generator):
        with pytest.raises(InvalidRequest) as error:
            await generator.generate(with_effort("low", thinking=True))

    assert error.value.field == "chat_template_kwargs"


async def test_what_such_a_server_refuses_all_the_same_is_named():
    async with serving(efforts=("high",), **CHATS_ALONE) as (_, generator):
        with pytest.raises(InvalidRequest, match="refuses this reasoning_effort") as error:
            await generator.generate(with_effort("low"))

    assert error.value.field == "reasoning_effort"


@pytest.mark.parametrize("name", ["tokenize", "conversation", "return_dict", "bos_token", "tools"])
async def test_a_variable_cannot_replace_the_rendering_of_a_server(name):
    async with serving() as (_, generator):
        with pytest.raises(InvalidRequest, match=f"reserved names: {name}"):
            await generator.generate(replace(CHAT, chat_template_kwargs={name: "x"}))
