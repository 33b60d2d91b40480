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
from tests.openai_server import openai_server
from tests.unit.workers.openai.test_generator import REQUEST, over
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


ROUTED = {"is_routed": True}


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


@pytest.mark.parametrize("is_routed", [False, True])
async def test_a_router_is_told_whose_request_it_is(is_routed):
    async with openai_server(**PLUGIN) as server:
        servers = GeneratorConfig(url=server.url, api="openai", is_routed=is_routed).checked()
        generator = OpenAIGenerator(servers, hooks=Hooks(tenant=lambda: "team-a"))
        await generator.upstream.connect()
        server.heads.clear()
        await generator.generate(REQUEST)
        await generator.close()
    told = {head.get(FAIRNESS) for head in server.heads}
    assert told == {"team-a" if is_routed else None}


async def test_one_lost_replica_leaves_the_router_in_and_asks_it_nothing_anew():
    async with openai_server(**PLUGIN) as server, over(server, KNOWN, **ROUTED) as generator:
        server.bodies.clear()
        server.replies.append(JSONResponse({}, 502))
        assert (await generator.generate(REQUEST)).answer.token_logprobs is not None
        assert generator.upstream.server.is_up
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


@pytest.mark.parametrize("name", ["is_routed", "context"])
def test_settings_of_routers_are_for_openai_servers(name):
    value = {"is_routed": True, "context": 5}[name]
    with pytest.raises(ModelNotLoaded, match="GENERATION__API=openai only"):
        GeneratorConfig(url="http://a", **{name: value}).checked()
