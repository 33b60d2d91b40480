"""Two vLLMs behind a real router: what their prefix caches spare."""

import asyncio
import os
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from models.records import GenerationRequest, SamplingParams
from tests.chaos.redis_server import free_port
from tests.vllm.server import PYTHON, START_S, serving
from workers.config import GeneratorConfig
from workers.openai.generator import OpenAIGenerator

pytestmark = pytest.mark.anyio

ROUTER = os.environ.get("COCOA_TEST_VLLM_ROUTER", str(Path(PYTHON).with_name("vllm-router")))
HOSTS = ("127.0.0.1", "127.0.0.2")
NUM_PROMPTS, NUM_TIMES, AT_ONCE = 24, 2, 4
# Full blocks of the prompts are most of them.
SENTENCE = " The old house stands beside the river, and nobody has lived in it for years."


@pytest.fixture(scope="module")
async def servers(anyio_backend, tmp_path_factory):
    folder, port = tmp_path_factory.mktemp("routers"), free_port()
    async with (
        serving(folder, "one", "--enforce-eager", host=HOSTS[0], port=port) as one,
        serving(folder, "two", "--enforce-eager", host=HOSTS[1], port=port) as two,
    ):
        yield one, two


@asynccontextmanager
async def routed(servers, policy, folder):
    """The URL of vLLM's own router before both."""
    port = free_port()
    urls = [str(server.client.base_url).rstrip("/") for server in servers]
    command = [ROUTER, "--host", HOSTS[0], "--port", str(port), "--worker-urls", *urls]
    command += ["--policy", policy, "--prometheus-port", str(free_port())]
    with (folder / f"{policy}.log").open("w") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
    url, deadline = f"http://{HOSTS[0]}:{port}", time.monotonic() + START_S
    try:
        async with httpx.AsyncClient() as client:
            while time.monotonic() < deadline:
                with suppress(httpx.TransportError):
                    if (await client.get(f"{url}/v1/models")).status_code == 200:
                        break
                await asyncio.sleep(0.2)
        yield url
    finally:
        process.terminate()
        await process.wait()


async def caches(servers):
    """Prompt tokens that both have looked up, and those that they had."""
    names = ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total")
    return [sum([await server.metric(name) for server in servers]) for name in names]


async def asked(servers, name, url):
    """The share of prompt tokens from the cache, of prompts that come again; and the identity."""
    config = GeneratorConfig(url=url, api="openai", is_routed=True)
    generator = OpenAIGenerator(config.checked())
    await generator.upstream.connect()
    before = await caches(servers)
    requests = []
    for i in range(NUM_PROMPTS):
        prompt = f"{name} {i}." + SENTENCE * 6 + " Who lives there?"
        sampling = SamplingParams(num_samples=1, max_new_tokens=4)
        statistics = frozenset({"answer_token_entropies", "sample_texts"})
        requests.append(GenerationRequest(prompt, sampling=sampling, statistics=statistics))
    replies = []
    for first in range(0, NUM_PROMPTS * NUM_TIMES, AT_ONCE):
        wave = (requests * NUM_TIMES)[first : first + AT_ONCE]
        replies += await asyncio.gather(*map(generator.generate, wave))
    looked_up, found = (
        after - earlier for after, earlier in zip(await caches(servers), before, strict=True)
    )
    await generator.close()
    assert all(len(reply.answer.token_entropies) for reply in replies)
    share = found / looked_up
    print(f"\n[{name}] {share:.3f} of {looked_up:.0f} prompt tokens from the cache", flush=True)
    return share, generator.info.identity


async def test_a_prompt_that_comes_again_is_in_the_cache_of_the_server_that_it_goes_to(
    servers, tmp_path
):
    port = servers[0].client.base_url.port
    async with (
        routed(servers, "consistent_hash", tmp_path) as by_session,
        routed(servers, "round_robin", tmp_path) as in_turn,
    ):
        session, identity = await asked(servers, "session", by_session)
        turns, _ = await asked(servers, "in turn", in_turn)
    _, direct = await asked(servers, "direct", f"http://{HOSTS[0]}:{port}")

    assert session > turns + 0.1
    assert identity == direct
