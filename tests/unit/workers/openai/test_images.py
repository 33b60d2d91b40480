"""Images at existing servers: passed on; what a server refuses is named."""

from dataclasses import replace

import pytest

from models.errors import InvalidRequest
from tests.openai_server import openai_server
from tests.unit.workers.openai.test_effort import CHAT, CHATS_ALONE, serving
from tests.unit.workers.openai.test_generator import over
from workers.remote.wire import decode_generate, encode_request

pytestmark = pytest.mark.anyio

RED = "A" * 30 + "CC"
TEXT = {"type": "text", "text": "Hi"}
NUM_TOKENS = 9


def image(encoded=RED):
    url = f"data:image/png;base64,{encoded}"
    return {"type": "image_url", "image_url": {"url": url, "detail": "low"}}


def showing(*images, **changes):
    message = {"role": "user", "content": "Hi", "parts": [*images, TEXT]}
    sampling = replace(CHAT.sampling, max_new_tokens=NUM_TOKENS)
    return replace(CHAT, messages=(message,), sampling=sampling, **changes)


def asked(server):
    """The bodies of requests, without those that try the server out."""
    return [body for _, body in server.bodies if body["max_tokens"] == NUM_TOKENS]


@pytest.mark.parametrize("traits", [{}, CHATS_ALONE], ids=["renders", "chats alone"])
async def test_images_that_a_server_refuses_are_named(traits):
    async with openai_server(images="refused", **traits) as server, over(server) as generator:
        with pytest.raises(InvalidRequest, match="takes no images") as caught:
            await generator.generate(showing(image()))
    assert caught.value.field == "messages.0.content.0.image_url.url"


async def test_tools_and_variables_of_a_template_do_not_go_with_them():
    tool = {"type": "function", "function": {"name": "now", "parameters": {}}}
    async with serving(images="heeded", calls="<tool_call>{}</tool_call>") as (_, generator):
        for changes in ({"tools": (tool,)}, {"chat_template_kwargs": {"thinking": True}}):
            with pytest.raises(InvalidRequest) as caught:
                await generator.generate(showing(image(), **changes))
            assert caught.value.field == next(iter(changes))


def test_workers_elsewhere_get_them():
    request = showing(image(), timeout_s=None)
    read = decode_generate(encode_request(request, streams=False))
    assert (read.request, read.streams) == (request, False)
