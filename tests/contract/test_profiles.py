"""One contract over all kinds of servers: what their fakes document is all that they are sent."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import product

import pytest
from pydantic import SecretStr
from starlette.responses import JSONResponse

from models.errors import InvalidRequest, ModelNotLoaded
from models.grammar.grammars import grammar_of
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
REQUEST_OF_TEXT = replace(CHAT, messages=None, prompt="What is the capital of France?")
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
        generator = OpenAIGenerator(GeneratorConfig(**config).checked())
        await generator.upstream.connect()
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
        assert all("authorization" in head for head in server.heads) == (kind != "azure")
        assert len(generation.samples) == LAW.num_samples
        assert len({one.text for one in generation.samples}) > 1
        tells = generator.info.capabilities["max_logprobs"] is not None
        for one in (generation.answer, *generation.samples):
            assert (one.token_logprobs is not None) == tells
        assert tells or generation.absent
        await generator.upstream.check()
        assert server.num_refused == 0


async def test_what_fails_for_a_moment_while_it_is_tried_out_is_no_refusal(kind, monkeypatch):
    # A server that nobody knows may refuse by 500.
    failures = (503,) if kind == "generic" else (500, 503)
    monkeypatch.setattr("workers.remote.retries._FIRST_WAIT_S", 0.001)
    monkeypatch.setattr("workers.remote.upstream._WATCH_S", 0.01)
    async with over(kind, statuses=[0] * 99) as (server, generator):
        known, num_calls = generator.info, 99 - len(server.statuses)
    for place, status in product(range(num_calls), failures):
        async with over(kind, statuses=[0] * place + [status] * 2) as (_, generator):
            assert generator.info == known


async def test_a_call_that_fails_for_good_while_it_is_tried_out_is_a_refusal(kind, monkeypatch):
    monkeypatch.setattr("workers.remote.retries._FIRST_WAIT_S", 0.001)
    monkeypatch.setattr("workers.remote.upstream._WATCH_S", 0.01)
    async with over(kind, tokenizing_status=500) as (_, generator):
        assert generator.info.max_context_tokens


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
        if PROFILES[kind].no_grammar:
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
        asked = replace(CHAT, tools=TOOLS, sampling=sampling)
        max_logprobs = generator.info.max_tops
        generation = await generator.generate(asked, on_token)
        # What it refuses to a stream of calls alone it tells all others.
        assert generator.info.max_tops == max_logprobs
    for one in (generation.answer, *generation.samples):
        [call] = [part for part in read(one.text, NAMES) if isinstance(part, Call)]
        assert call.name in NAMES
        assert json.loads(call.arguments)["city"] in CITIES["enum"]
    assert not is_streamed or "".join(token.text for token in heard) == generation.answer.text
    if SERVERS[kind].get("tool_form") == "joined" and (kind, is_streamed) != ("llama.cpp", True):
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
    for most, status in ((1, 400), (3, 413), (4, 422)):
        several = {"most_samples": most, "many_status": status}
        async with over("generic", **seeded, **several) as (server, generator):
            found = await generator.generate(CHAT)
            num_refused = server.num_refused
            await generator.generate(CHAT)
            assert server.num_refused == num_refused > 0  # refused once, and remembered
        assert [one.text for one in found.samples] == [one.text for one in whole.samples]


FORMS = ["param", "path", "detail", "repeated", "message", "text", "unnamed"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("lacks", ["seed", "top_k", "top_p", "top_logprobs", "max_tokens"])
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
    if form != "unnamed":
        assert ("seed_not_heeded" in found.warnings) == (lacks == "seed")
        assert ("top_k_not_heeded" in found.warnings) == (lacks == "top_k")
    assert found.answer.token_logprobs is not None


async def test_stop_strings_that_are_refused_without_a_name_cost_no_temperature():
    takes = frozenset(SERVERS["vllm"]["takes"] | {"repeat_penalty"}) - {"stop"}
    stopped = replace(CHAT, sampling=replace(LAW, stop=("Rome",)))
    async with over("generic", takes=takes, error_form="unnamed") as (_, generator):
        found = await generator.generate(stopped)
        assert generator.info.capabilities["temperature"]
    assert "temperature_not_heeded" not in found.warnings
    assert not any("Rome" in one.text for one in (found.answer, *found.samples))


# "stream" alone is a word of any message.
@pytest.mark.parametrize(
    ("form", "lacks"),
    [
        *product(["param", "detail", "message"], [("stream_options",)]),
        *product(["param", "detail"], [("stream", "stream_options")]),
    ],
)
async def test_a_server_that_refuses_to_stream_or_its_options_answers_all_the_same(form, lacks):
    takes = frozenset(SERVERS["vllm"]["takes"] | {"repeat_penalty"}) - set(lacks)
    heard = []
    async with over("generic", takes=takes, error_form=form) as (server, generator):
        generation = await generator.generate(CHAT, heard.append)
        num_refused = server.num_refused
        await generator.generate(CHAT, heard.append)
        assert server.num_refused == num_refused
    assert "".join(token.text for token in heard) == 2 * generation.answer.text
    assert len(heard) == 2 * generation.answer.num_tokens


@pytest.mark.parametrize("completes", [True, False])
async def test_log_probs_that_are_denied_are_none_and_all_else_is_served(completes):
    async with over("generic", completes=completes, denies_logprobs=True) as (_, generator):
        found = await generator.generate(CHAT)
        assert generator.info.capabilities["max_logprobs"] is None
    assert len(found.samples) == LAW.num_samples
    assert found.absent["answer_token_logprobs"] == "the server of the model tells no log-probs"


@pytest.mark.parametrize("tells", [False, None], ids=["without them", "refusing them"])
async def test_log_probs_that_completions_do_not_tell_come_from_chats(tells):
    async with over("generic", completion_logprobs=tells) as (_, generator):
        found = await generator.generate(REQUEST_OF_TEXT)
    assert found.answer.token_logprobs is not None
    assert "prompt_as_message" in found.warnings


async def test_a_server_without_temperature_answers_by_draws_and_says_so():
    takes = SERVERS["openai-reasoning"]["takes"]
    traits = {"completes": False, "takes": takes, "max_logprobs": None}
    async with over("generic", **traits) as (server, generator):
        assert generator.info.no_greedy
        await generator.generate(CHAT)
        server.bodies.clear()
        found = await generator.generate(CHAT)
        assert "answer_is_drawn" in found.warnings
        assert len(server.bodies) == 2  # the answer, and the samples beside it
        assert not any("temperature" in body for _, body in server.bodies)


async def test_a_model_whose_reasoning_takes_all_tokens_of_a_trial_is_served():
    takes = SERVERS["openai-reasoning"]["takes"] | {"max_completion_tokens"}
    traits = {"takes": takes, "max_logprobs": None, "least_tokens": 64}
    async with over("azure", **traits) as (_, generator):
        found = await generator.generate(replace(CHAT, sampling=replace(LAW, max_new_tokens=64)))
        cut = await generator.generate(CHAT)
    assert found.answer.text
    assert "answer_is_drawn" in found.warnings
    assert not cut.answer.reasoning.is_finished


@pytest.mark.parametrize("completes", [False, True])
async def test_a_server_that_takes_neither_prompts_nor_chats_is_told_by_its_refusal(completes):
    async with openai_server(takes=frozenset(), completes=completes) as server:
        generator = OpenAIGenerator(GeneratorConfig(url=server.url, api="openai").checked())
        await generator.upstream.check()
        await generator.close()
    told = "it neither completes prompts nor chats (POST /v1/chat/completions: status 400)"
    assert generator.upstream.server.trouble == told


@pytest.mark.parametrize(
    "path", ["/v1", "/api/paas/v4", "/v1beta/openai", "/openai/deployments/mine"]
)
async def test_a_url_may_have_any_path_and_calls_further_headers_and_a_version(path, tmp_path):
    headers = tmp_path / "headers"
    headers.write_text("X-Team: one\n\nHTTP-Referer: https://example.com\n")
    versioned = "deployments" in path
    kind = {"/v1beta/openai": "gemini", "/openai/deployments/mine": "azure"}.get(path, "generic")
    async with openai_server(**SERVERS[kind] | {"prefix": path, "model": "tiny"}) as server:
        settings = {"url": server.url + path, "api": "openai", "model": "tiny"}
        settings |= {"headers_file": str(headers), "server": "" if kind == "generic" else kind}
        settings |= {"api_version": "2024-10-21"} if versioned else {}
        generator = OpenAIGenerator(GeneratorConfig(**settings).checked())
        await generator.upstream.connect()
        await generator.generate(CHAT)
        await generator.close()
        assert {head["x-team"] for head in server.heads} == {"one"}
        versions = {query.get("api-version") for query in server.queries}
    assert versions == {"2024-10-21" if versioned else None}


@pytest.mark.parametrize("lines", ["no header", "X-Team: \u00e9", ""])
def test_a_file_of_headers_that_is_none_is_refused_by_its_setting(lines, tmp_path):
    file = tmp_path / "headers"
    if lines:
        file.write_text(lines)
    config = GeneratorConfig(url="http://a", api="openai", headers_file=str(file))
    with pytest.raises(ModelNotLoaded, match="COCOA_GENERATION__HEADERS_FILE"):
        OpenAIGenerator(config.checked())


def test_a_kind_that_there_is_not_is_refused_with_those_that_there_are():
    config = GeneratorConfig(url="http://a", api="openai", server="gpt")
    with pytest.raises(ModelNotLoaded, match="openai-reasoning"):
        OpenAIGenerator(config.checked())


QUOTA = {"error": {"code": "insufficient_quota", "type": "insufficient_quota", "message": "-"}}


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (JSONResponse(QUOTA, 429), "its quota is used up"),
        (JSONResponse({}, 402), "it wants to be paid"),
        (JSONResponse({}, 401), "it refuses the API key"),
    ],
)
async def test_what_only_its_operator_can_change_is_said_and_asked_again_once_a_minute(
    reply, reason, caplog, monkeypatch
):
    monkeypatch.setattr("workers.remote.upstream._WATCH_S", 0.05)
    async with openai_server(**SERVERS["openai"]) as server:
        config = {"url": server.url, "api": "openai", "server": "openai", "model": "tiny"}
        generator = OpenAIGenerator(GeneratorConfig(**config).checked())
        server.replies += [reply] * 20
        connecting = asyncio.create_task(generator.upstream.connect())
        await asyncio.sleep(0.5)
        connecting.cancel()
        await generator.close()
        assert len(server.bodies) == 1
    assert reason in caplog.text


async def test_a_server_that_fails_before_it_is_known_is_looked_at_ever_more_seldom(monkeypatch):
    monkeypatch.setattr("workers.remote.upstream._WATCH_S", 0.05)
    async with openai_server(**SERVERS["generic"]) as server:
        generator = OpenAIGenerator(GeneratorConfig(url=server.url, api="openai").checked())
        server.replies += [JSONResponse({"choices": []})] * 99
        connecting = asyncio.create_task(generator.upstream.connect())
        await asyncio.sleep(2.0)
        assert generator.upstream.server.num_failed <= 7  # after .05, .1, .2, .4, .8 … seconds
        server.replies.clear()
        await asyncio.wait_for(connecting, 10)
        await generator.close()
