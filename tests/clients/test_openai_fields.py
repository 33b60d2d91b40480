"""Every field that OpenAI's client can send is served, without effect, or refused, as told."""

import inspect
import re
from contextlib import asynccontextmanager
from pathlib import Path

import openai
import pytest
from openai import AsyncOpenAI
from openai.resources.chat.completions import Completions as Chats
from openai.resources.completions import Completions as Texts

from tests.chaos.listening import listening

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs/openai.md"
OF_THE_CLIENT = {"self", "extra_headers", "extra_query", "extra_body", "timeout"}
MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]
PARTS = [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]

WITHOUT_EFFECT = {
    "user": "someone",
    "safety_identifier": "someone",
    "metadata": {"team": "a"},
    "prompt_cache_key": "a",
    "prompt_cache_options": {"a": 1},
    "prompt_cache_retention": "24h",
}
REFUSED_IN_CHATS = {
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "logit_bias": {"50": 1},
    "functions": [{"name": "f"}],
    "function_call": {"name": "f"},
    "audio": {"voice": "a", "format": "mp3"},
    "modalities": ["text", "audio"],
    "store": True,
    "service_tier": "flex",
    "prediction": {"type": "content", "content": "Paris"},
    "web_search_options": {},
    "moderation": {"model": "a"},
    "verbosity": "low",
    "messages": [{"role": "user", "content": PARTS}],
}
REFUSED_IN_TEXTS = {"best_of": 2, "suffix": "."}


def rows():
    """First and second cell of each row of the page's tables of fields."""
    section = PAGE.read_text().split("\n## Requests\n")[1].split("\n## ")[0]
    return re.findall(r"^\| (`.+?) \| (.+) \|$", section, re.MULTILINE)


def told(name):
    """What the page says becomes of a field."""
    for first, second in rows():
        if re.search(rf"`{name}[`.]", first):
            return second
    raise AssertionError(f"{name} is in no table")


@asynccontextmanager
async def asking():
    """A client of a service over fake models."""
    async with listening() as (_, port, gate):
        gate.opened.set()
        url = f"http://127.0.0.1:{port}/v1"
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            yield client


@pytest.mark.parametrize("create", [Chats.create, Texts.create], ids=["chat", "text"])
def test_the_page_has_every_field_that_the_client_can_send(create):
    for name in inspect.signature(create).parameters.keys() - OF_THE_CLIENT:
        assert told(name)


async def test_what_concerns_openais_platform_alone_has_no_effect():
    async with asking() as client:
        create = client.chat.completions.create
        plain = await create(model="cocoa", messages=MESSAGES, max_tokens=64)
        for name, value in WITHOUT_EFFECT.items():
            assert told(name).startswith("accepted, no effect"), name
            answered = await create(
                model="cocoa", messages=MESSAGES, max_tokens=64, extra_body={name: value}
            )
            assert answered.choices[0].message.content == plain.choices[0].message.content
            assert answered.choices[0].uncertainty["cached"], name


async def test_what_is_refused_is_refused_by_its_name_and_in_words():
    async with asking() as client:
        chat, text = client.chat.completions.create, client.completions.create
        for name, value in (REFUSED_IN_CHATS | REFUSED_IN_TEXTS).items():
            assert name == "messages" or told(name).startswith("refused"), name
            create, body = text, {"prompt": "The capital"}
            if name in REFUSED_IN_CHATS:
                create, body = chat, {"messages": MESSAGES}
            with pytest.raises(openai.UnprocessableEntityError) as refused:
                await create(model="cocoa", **body | {name: value})
            assert refused.value.param.split(".")[0] == name
            assert refused.value.code == "invalid_request"
            assert "Input should" not in refused.value.message, refused.value.message


async def test_several_choices_are_served():
    async with asking() as client:
        answered = await client.chat.completions.create(
            model="cocoa", messages=MESSAGES, max_tokens=64, n=3, temperature=1.0
        )
    assert [choice.index for choice in answered.choices] == [0, 1, 2]
    assert answered.choices[0].uncertainty["value"] is not None
