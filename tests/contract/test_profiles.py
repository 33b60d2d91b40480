"""One contract over all kinds of servers: what their fakes document is all that they are sent."""

import json
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from pydantic import SecretStr

from models.errors import InvalidRequest
from models.grammars import grammar_of
from models.records import GenerationRequest, SamplingParams
from models.units.tool_calls import Call, read, schema_of_one
from tests.contract.profiles import RECOGNISED, SERVERS
from tests.openai_server import openai_server
from workers.config import GeneratorConfig
from workers.openai.generator import OpenAIGenerator
from workers.openai.profiles import PROFILES

pytestmark = pytest.mark.anyio

KEY = "secret-of-the-tests"
LAW = SamplingParams(num_samples=10, max_new_tokens=24, seed=7)
CHAT = GenerationRequest(
    messages=({"role": "user", "content": "What is the capital of France?"},),
    sampling=LAW,
    statistics=frozenset({"answer_token_logprobs", "sample_texts", "sample_token_logprobs"}),
    timeout_s=60.0,
)
CITIES = {"type": "string", "enum": ["Paris", "Rome"]}
TOOLS = tuple(
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "",
            "parameters": {"type": "object", "properties": {"city": CITIES}},
        },
    }
    for name in ("weather", "time")
)
NAMES = ["weather", "time"]


@asynccontextmanager
async def over(name, **changes):
    """A generator over the fake of a kind, and the fake."""
    async with openai_server(**SERVERS[name] | changes) as server:
        config = {"url": server.url, "api": "openai", "api_key": SecretStr(KEY)}
        if name not in RECOGNISED:
            config |= {"server": name, "model": "tiny"}
        if name == "azure":
            config["server"] = name
        generator = OpenAIGenerator(GeneratorConfig(**config).place())
        await generator.connect()
        try:
            yield server, generator
        finally:
            await generator.close()


@pytest.fixture(params=SERVERS)
def kind(request):
    return request.param


def test_every_profile_has_a_fake():
    assert SERVERS.keys() == PROFILES.keys()


async def test_it_is_known_by_few_calls_and_asked_nothing_that_it_refuses(kind):
    async with over(kind) as (server, generator):
        assert generator.info.capabilities["server"] == kind
        assert len(server.bodies) <= 6
        generation = await generator.generate(CHAT)
        assert server.num_refused == 0
        assert server.keys == {KEY if kind == "azure" else f"Bearer {KEY}"}
        assert len(generation.samples) == LAW.num_samples
        assert len({one.text for one in generation.samples}) > 1
        tells = generator.info.capabilities["max_logprobs"] is not None
        assert (generation.answer.token_logprobs is not None) == tells
        assert tells or generation.absent
        await generator.upstream._look_at(generator.upstream.servers[0])
        assert server.num_refused == 0


async def test_the_same_seed_draws_the_same_and_else_that_is_told(kind):
    async with over(kind) as (_, generator):
        first, again = [await generator.generate(CHAT) for _ in range(2)]
    texts = [[one.text for one in found.samples] for found in (first, again)]
    if "seed_not_heeded" not in first.warnings:
        assert texts[0] == texts[1]
    assert first.identity == again.identity


async def test_a_schema_is_held_or_refused_by_its_field(kind):
    held = replace(CHAT, grammar=grammar_of({"enum": ["Rome", 7]}))
    async with over(kind) as (_, generator):
        if not PROFILES[kind].formats:
            with pytest.raises(InvalidRequest) as caught:
                await generator.generate(held)
            assert caught.value.field == "grammar"
            return
        generation = await generator.generate(held)
    for one in (generation.answer, *generation.samples):
        assert json.loads(one.text) in ("Rome", 7)


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_tools_are_called_by_the_answer_and_its_samples(kind, is_streamed):
    if kind == "vllm":
        pytest.skip("shows tools by its template, and writes calls as text")
    heard = []
    on_token = heard.append if is_streamed else None
    sampling = replace(LAW, max_new_tokens=80)
    async with over(kind) as (_, generator):
        streamed = int(bool(generator.info.no_greedy))
        asked = replace(CHAT, tools=TOOLS, sampling=sampling, streamed=streamed)
        generation = await generator.generate(asked, on_token)
    shown = (generation.answer, *generation.samples)[streamed]
    for one in (generation.answer, *generation.samples):
        [call] = [part for part in read(one.text, NAMES) if isinstance(part, Call)]
        assert call.name in NAMES
        assert json.loads(call.arguments)["city"] in CITIES["enum"]
    assert not is_streamed or "".join(token.text for token in heard) == shown.text
    if SERVERS[kind].get("tool_form") == "joined":
        assert len(generation.answer.token_logprobs) == generation.answer.num_tokens
    else:
        assert generation.answer.token_logprobs is None
        assert generation.absent["answer_token_logprobs"]


async def test_a_call_that_has_to_come_is_asked_for_as_the_server_knows_it(kind):
    if kind == "vllm":
        pytest.skip("is held by a grammar")
    required = replace(CHAT, tools=TOOLS, sampling=replace(LAW, max_new_tokens=80))
    for allowed, choice in ((TOOLS, "required"), (TOOLS[1:], {"function": {"name": "time"}})):
        grammar = grammar_of(schema_of_one(allowed))
        async with over(kind) as (server, generator):
            await generator.generate(replace(required, grammar=grammar))
            sent = next(body for _, body in server.bodies if "tools" in body)
        assert "response_format" not in sent
        told = sent["tool_choice"]
        assert told == choice if choice == "required" else told["function"] == choice["function"]


async def test_more_samples_than_a_call_may_draw_are_those_of_one_call():
    seeded = {"tokenizes": False, "owner": "llamacpp"}
    async with over("generic", **seeded) as (_, generator):
        whole = await generator.generate(CHAT)
    for most in (1, 3, 4):
        async with over("generic", **seeded, most_samples=most) as (server, generator):
            found = await generator.generate(CHAT)
            num_refused = server.num_refused
            await generator.generate(CHAT)
            assert server.num_refused == num_refused > 0  # refused once, and remembered
        assert [one.text for one in found.samples] == [one.text for one in whole.samples]


@pytest.mark.parametrize("form", ["param", "detail", "message", "unnamed"])
@pytest.mark.parametrize("lacks", ["seed", "top_k", "top_logprobs", "max_tokens"])
async def test_what_an_unknown_server_refuses_is_left_out_or_renamed(form, lacks):
    if (form, lacks) == ("unnamed", "max_tokens"):
        pytest.skip("nobody could know")
    takes = frozenset(SERVERS["vllm"]["takes"] | {"max_completion_tokens"}) - {lacks}
    traits = {"completes": False, "takes": takes | {"repeat_penalty"}, "error_form": form}
    async with over("generic", **traits) as (server, generator):
        found = await generator.generate(CHAT)
        num_refused = server.num_refused
        await generator.generate(CHAT)
        assert server.num_refused == num_refused
    assert len(found.samples) == LAW.num_samples
    assert ("seed_not_heeded" in found.warnings) == (lacks == "seed")


@pytest.mark.parametrize("completes", [True, False])
async def test_log_probs_that_are_denied_are_none_and_all_else_is_served(completes):
    async with over("generic", completes=completes, denies_logprobs=True) as (_, generator):
        found = await generator.generate(CHAT)
        assert generator.info.capabilities["max_logprobs"] is None
    assert len(found.samples) == LAW.num_samples
    assert found.absent["answer_token_logprobs"]


async def test_a_server_without_temperature_answers_by_draws_and_says_so():
    takes = SERVERS["openai-reasoning"]["takes"]
    traits = {"completes": False, "takes": takes, "max_logprobs": None}
    async with over("generic", **traits) as (server, generator):
        assert generator.info.no_greedy
        await generator.generate(CHAT)
        server.bodies.clear()
        found = await generator.generate(CHAT)
        assert "answer_is_drawn" in found.warnings
        assert found.answer.text == found.samples[0].text
        assert len(server.bodies) == 1  # no greedy answer is asked for beside the draws
