"""Tools that a server's own template shows its model, and servers whose calls nobody could read."""

from dataclasses import replace

import pytest

from models.errors import InvalidRequest
from tests.openai_server import decode
from tests.unit.workers.openai.test_effort import CHAT, serving
from tests.unit.workers.openai.test_generator import UNSEEDED

pytestmark = pytest.mark.anyio

HERMES = "<tool_call>{}</tool_call>"
TOOL = {
    "type": "function",
    "function": {"name": "now", "description": "", "parameters": {"type": "object"}},
}


@pytest.mark.parametrize("calls", [HERMES, "[TOOL_CALLS][{}]</s>", "{}"])
async def test_a_server_renders_tools_with_the_messages(calls):
    async with serving(calls=calls) as (server, generator):
        plain = await generator.generate(CHAT)
        told = await generator.generate(replace(CHAT, tools=(TOOL,)))
        asked = []
        for body in server.sent("/v1/completions"):
            if isinstance(body["prompt"][0], int):  # several prompts try a server out
                asked.append(decode(body["prompt"]))

    assert told.prompt_tokens > plain.prompt_tokens
    assert ['"name": "now"' in asked[i] for i in (0, -1)] == [False, True]


@pytest.mark.parametrize(
    "traits", [{}, {"calls": "<function={}>"}], ids=["takes none", "another format"]
)
async def test_tools_are_refused_before_any_work_where_calls_could_not_be_read(traits):
    async with serving(**traits) as (server, generator):
        with pytest.raises(InvalidRequest) as error:
            await generator.generate(
                replace(UNSEEDED, prompt=None, messages=CHAT.messages, tools=(TOOL,))
            )
        assert not server.bodies

    assert error.value.field == "tools"
