"""The adapter behind routers: they refuse prompts of token ids, drop headers, and balance."""

import asyncio
import itertools
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from models.errors import ModelNotLoaded
from models.probes.protocol import ProbeConfig
from tests.conftest import until
from tests.openai_server import Traits, encode, openai_app, openai_server
from tests.unit.workers.openai.test_generator import REQUEST, UNSEEDED, over
from tests.worker_servers import listening
from workers.config import GeneratorConfig
from workers.hooks import Hooks
from workers.openai.generator import FAIRNESS, OpenAIGenerator
from workers.openai.requests import COMPLETIONS
from workers.probe_reading import probe_infos

pytestmark = pytest.mark.anyio

PROBE = "predicted_dissimilarity"
KNOWN = probe_infos(ProbeConfig())
PLUGIN = {"probes": (KNOWN[PROBE].sha256,)}
WANTED = frozenset(
    {"answer_token_logprobs", "answer_token_entropies", "sample_token_entropies", PROBE}
)
TEXTS = WANTED | {"answer_token_texts"}


async def generated(traits, **changes):
    async with openai_server(**PLUGIN, **traits) as server, over(server, KNOWN) as generator:
        request = replace(REQUEST, **{"statistics": WANTED} | changes)
        return await generator.generate(request), generator.info, server


async def test_a_router_that_refuses_token_ids_costs_what_the_plugin_reads_and_nothing_else():
    direct, *_ = await generated({})
    routed, info, server = await generated({"refuses_ids": True}, statistics=TEXTS)

    assert isinstance(server.sent(COMPLETIONS)[-1]["prompt"], str)
    assert routed.answer.text == direct.answer.text
    expected = direct.answer.token_logprobs
    np.testing.assert_allclose(routed.answer.token_logprobs, expected, atol=1e-9)
    assert "".join(routed.answer.token_texts) == routed.answer.text
    lost = {"answer_token_entropies", "sample_token_entropies", PROBE}
    assert not lost & info.statistics
    assert all("token ids" in info.absent[name] for name in lost)


async def test_weights_that_change_behind_the_router_are_noticed_by_the_plugins_mark():
    async with openai_server(**PLUGIN) as server, over(server, KNOWN) as generator:
        first = await generator.generate(REQUEST)
        server.weights = 1
        assert (await generator.generate(REQUEST)).identity != first.identity


ROUTED = {"routing": "upstream"}


async def identity_over(traits, **settings):
    async with openai_server(**traits) as server, over(server, KNOWN, **settings) as generator:
        return generator.info


@pytest.mark.parametrize("plugin", [PLUGIN, {"probes": None}], ids=["plugin", "plain"])
async def test_a_routers_identity_is_that_of_the_server_behind_it(plugin):
    direct = await identity_over(plugin, **ROUTED)
    hidden = await identity_over({**plugin, "context": 300}, **ROUTED)
    other = await identity_over({**plugin, "weights": 1}, **ROUTED)

    assert hidden.identity == direct.identity
    assert hidden.revision == direct.revision
    assert other.identity != direct.identity


async def test_the_deployment_says_what_a_router_hides():
    said = {"context": 4096, "revision": "abc123", **ROUTED}
    info = await identity_over({"probes": None, "refuses_ids": True}, **said)
    assert (info.max_context_tokens, info.revision) == (4096, "abc123")


async def test_a_revision_that_the_plugin_denies_is_refused(caplog):
    revision = (await identity_over(PLUGIN)).revision
    said = await identity_over(PLUGIN, revision=revision + "0" * 28)
    async with openai_server(**PLUGIN) as server:
        servers = GeneratorConfig(url=server.url, api="openai", revision="abc123").checked()
        generator = OpenAIGenerator(servers)
        waiting = asyncio.create_task(generator.upstream.connect())
        await until(lambda: "another revision than the settings say" in caplog.text)
        waiting.cancel()
        await generator.close()
    assert said.revision == revision


@pytest.mark.parametrize("routing", ["own", "upstream"])
async def test_a_router_is_told_whose_request_it_is(routing):
    async with openai_server(**PLUGIN) as server:
        servers = GeneratorConfig(url=server.url, api="openai", routing=routing).checked()
        generator = OpenAIGenerator(servers, hooks=Hooks(tenant=lambda: "team-a"))
        await generator.upstream.connect()
        server.heads.clear()
        await generator.generate(REQUEST)
        await generator.close()
    told = {head.get(FAIRNESS) for head in server.heads}
    assert told == {"team-a" if routing == "upstream" else None}


async def test_one_lost_replica_leaves_the_router_in_and_asks_it_nothing_anew():
    async with openai_server(**PLUGIN) as server, over(server, KNOWN, **ROUTED) as generator:
        server.bodies.clear()
        server.replies.append(JSONResponse({}, 502))
        assert (await generator.generate(REQUEST)).answer.token_logprobs is not None
        [upstream] = generator.upstream.servers
        assert upstream.is_up
        assert all(body["max_tokens"] == 8 for body in server.sent(COMPLETIONS))


async def test_replicas_may_answer_in_turn():
    plugin = {**PLUGIN, "refuses_ids": True}
    async with (
        openai_server(**plugin) as one,
        openai_server(**plugin) as other,
        balanced([one.url, other.url]) as url,
    ):
        servers = GeneratorConfig(url=url, api="openai", **ROUTED).checked()
        generator = OpenAIGenerator(servers, probes=KNOWN)
        await generator.upstream.connect()
        found = [await generator.generate(REQUEST) for _ in range(3)]
        await generator.close()
    assert one.bodies
    assert other.bodies
    assert len({(reply.identity, reply.answer.text) for reply in found}) == 1


async def test_one_prompt_goes_to_one_of_the_servers_that_a_name_has(monkeypatch):
    monkeypatch.setattr("workers.upstream._RESOLVE_S", 0.0)
    here = ["127.0.0.1", "127.0.0.2"]

    async def resolve(host):
        assert host == "vllm-pods"
        return here

    prompts = [f"What is the capital of {name}?" for name in "ABCDEFGH"]
    async with openai_server() as one, at_another_address(one.url) as other:
        url = one.url.replace("127.0.0.1", "vllm-pods")
        servers = GeneratorConfig(url=url, api="openai", routing="addresses").checked()
        generator = OpenAIGenerator(servers, resolve=resolve)
        await generator.upstream.connect()
        for server in generator.upstream.servers:
            await until(lambda server=server: server.known is not None)
            await generator.upstream.check(server)  # a busy machine left it out at first
        one.bodies.clear()
        other.bodies.clear()
        for prompt in prompts * 2:
            await generator.generate(replace(UNSEEDED, prompt=prompt))
        seen = [prompts_of(one), prompts_of(other)]
        assert seen[0] | seen[1] == {ids_of(prompt) for prompt in prompts}
        assert seen[0] & seen[1] == set()
        assert min(map(len, seen)) > 0
        assert one.heads[-1]["host"] == url.removeprefix("http://")

        here.remove("127.0.0.1")
        await generator.upstream.follow_names()
        one.bodies.clear()
        for prompt in prompts:
            await generator.generate(replace(UNSEEDED, prompt=prompt))
        assert one.bodies == []
        await generator.close()


def prompts_of(server):
    """Of what was generated; those by which it is tried out are shorter."""
    bodies = [body for body in server.sent(COMPLETIONS) if body["max_tokens"] == 8]
    return {tuple(body["prompt"]) for body in bodies}


def ids_of(prompt):
    return tuple(encode(prompt))


@asynccontextmanager
async def at_another_address(url):
    """A second server on the same port."""
    traits = Traits()
    port = int(url.rpartition(":")[2])
    async with listening(openai_app(traits), port=port, host="127.0.0.2"):
        yield traits


@asynccontextmanager
async def balanced(urls):
    """A balancer: each call goes to the next server; what it does not know of headers is gone."""
    turns = itertools.cycle(urls)
    async with httpx.AsyncClient(timeout=30) as client:

        async def forward(request):
            url = f"{next(turns)}{request.url.path}"
            kind = {"content-type": request.headers.get("content-type", "")}
            reply = await client.request(
                request.method, url, content=await request.body(), headers=kind
            )
            return Response(reply.content, reply.status_code, media_type="application/json")

        app = Starlette(routes=[Route("/{path:path}", forward, methods=["GET", "POST"])])
        async with listening(app) as port:
            yield f"http://127.0.0.1:{port}"


def test_several_servers_behind_a_router_are_refused():
    config = GeneratorConfig(api="openai", url="http://a,http://b", routing="upstream")
    with pytest.raises(ModelNotLoaded, match="COCOA_GENERATION__URL names several"):
        config.checked()


@pytest.mark.parametrize("name", ["routing", "context"])
def test_settings_of_routers_are_for_openai_servers(name):
    value = {"routing": "upstream", "context": 5}[name]
    with pytest.raises(ModelNotLoaded, match="GENERATION__API=openai only"):
        GeneratorConfig(url="http://a", **{name: value}).checked()
