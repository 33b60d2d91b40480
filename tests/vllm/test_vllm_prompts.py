"""Prompts compared with a calibration's by the plugin, held to the same in process."""

import asyncio
import math
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import pytest

from app.cache.protocol import CacheConfig
from app.main import create_app
from app.settings import Settings
from cocoa_lab.calibration.calibrating import to_json
from models.calibration import Calibrator
from models.embedded import CALIBRATOR_PATH
from models.probes.domain import PromptDomain, beside
from models.probes.protocol import ProbeConfig
from models.records import GenerationRequest, SamplingParams
from tests.conftest import GENERATE
from tests.made_calibrators import ALL, calibration, calibrator
from tests.vllm import reference
from tests.vllm.agreement import TOLERANCE, at_once
from tests.vllm.server import PROBES, columns, serving
from workers.build import build_workers
from workers.config import ComparerConfig, GeneratorConfig, WorkerConfig
from workers.supervision import running_workers

pytestmark = pytest.mark.anyio
PROMPTS_FILE = beside(CALIBRATOR_PATH)
ENTROPY, PROMPTS_MARK, PERCENTILE, VALUE = 1, 2, 3, 4
NO_NUMBER = -9999.0
ASKED = {"logprobs": 8, "max_tokens": 8}
SCORE = "/score"
TARGET = {"target_error": 0.05, "max_new_tokens": 16}
LIGHT = {"mode": "light", "max_new_tokens": 16}


def foreign_prompts(count):
    """Pieces of this project's code, which the embedded model never saw."""
    lines = Path("models/records.py").read_text(encoding="utf-8").splitlines()
    return ["\n".join(lines[4 * i : 4 * i + 4]) for i in range(count)]


@pytest.fixture(scope="module")
def domain():
    return PromptDomain.load(PROMPTS_FILE, Calibrator.load(CALIBRATOR_PATH).prompts)


@pytest.fixture(scope="module")
async def compared(anyio_backend, domain):
    """Prompts with their ids and percentiles in process: familiar, foreign and long ones."""
    found = []
    prompts = reference.testbed_prompts(60) + foreign_prompts(40) + reference.long_prompts(24)
    config = WorkerConfig(generation=GeneratorConfig(threads=2))
    async with running_workers(build_workers(config)) as workers:

        async def read(prompt):
            law = SamplingParams(max_new_tokens=1, seed=0)
            request = GenerationRequest(prompt, sampling=law, prompt_layer=domain.layer)
            return await workers.generator.generate(request)

        told = await asyncio.gather(*map(read, prompts))
        for prompt, generation in zip(prompts, told, strict=True):
            found.append((prompt, domain.percentile(generation.prompt_state)))
    percentiles = np.array([percentile for _, percentile in found])
    assert (percentiles[:60] <= 99).mean() > 0.9
    assert (percentiles[60:100] > 99).mean() > 0.3
    return found


@pytest.fixture(scope="module")
async def server(anyio_backend, tmp_path_factory):
    folder = tmp_path_factory.mktemp("prompts")
    async with serving(folder, "prompts", "--enforce-eager", prompts=PROMPTS_FILE) as running:
        yield running


async def test_percentiles_are_those_in_process_with_and_without_cached_blocks(server, compared):
    first = await farthest(server, compared)
    again = await farthest(server, compared)
    hits = await server.metric("vllm:prefix_cache_hits_total")
    print(
        f"\n{len(compared)} prompts, full and light beside samples at concurrency 16, twice, "
        f"{hits:.0f} tokens from the prefix cache: percentiles at most {first:.1e}, then "
        f"{again:.1e} from those in process"
    )
    assert hits > 0
    assert max(first, again) <= 100 * TOLERANCE


async def farthest(server, compared):
    """The largest difference of a percentile, of full and light requests beside samples."""
    differences = []

    async def ask(prompt, percentile, mode):
        first, *rest = columns(await server.one(prompt, mode, **ASKED))
        differences.append(abs(first[PERCENTILE] - percentile))
        assert all(column[PERCENTILE] == NO_NUMBER for column in rest)
        assert all(column[PROMPTS_MARK] == first[PROMPTS_MARK] for column in rest)
        if mode == "light+prompt":
            assert first.keys() == set(range(8))
            assert all(0 <= column[VALUE] <= 1 for column in (first, *rest))

    async def sample(prompt):
        law = {"n": 3, "temperature": 1, "ignore_eos": True, "max_tokens": 16, "logprobs": 2}
        for choice in await server.choices(prompt, "entropy", **law):
            assert all(column.keys() == {0, ENTROPY} for column in columns(choice))

    calls = []
    for prompt, percentile in compared:
        calls.append(partial(ask, prompt, percentile, "entropy+prompt"))
        calls.append(partial(sample, prompt))
        calls.append(partial(ask, prompt, percentile, "light+prompt"))
    await at_once(16, calls)
    assert len(differences) == 2 * len(compared)
    assert all(map(math.isfinite, differences))
    return max(differences)


async def test_the_service_tells_a_foreign_prompt_as_in_process(server, compared, domain, tmp_path):
    familiar = [prompt for prompt, percentile in compared[:60] if percentile < 98]
    foreign = [prompt for prompt, percentile in compared[60:100] if percentile > 99.5]
    path = tmp_path / "calibrator.json"
    await calibrated_for(server, domain, path)
    async with service(server, path) as client:
        version = (await client.get("/version")).json()
        assert version["calibrator"]["compares_prompts"] is True
        reasons: dict[str, str] = {}
        for prompt in foreign[:8]:
            body = await answered(client, prompt, **TARGET)
            assert "prompt_out_of_domain" in body["warnings"]
            assert (body["confidence"], body["decision"]["accept"]) == (None, False)
            if body["text"].strip():  # else it is that which is told
                reasons[prompt] = body["reasons"]["confidence"].split(":")[0]
        assert set(reasons.values()) == {"prompt_out_of_domain"}
        light = await answered(client, foreign[0], **LIGHT)
        assert "prompt_out_of_domain" in light["warnings"]
        given = {"prompt": foreign[0], "answer": "No.", "num_samples": 2}
        scored = await client.post(SCORE, json=given)
        assert scored.status_code == 200, scored.text
        assert "prompt_out_of_domain" in scored.json()["warnings"]
        for prompt in familiar[:8]:
            body = await answered(client, prompt, **TARGET)
            assert "prompt_out_of_domain" not in body["warnings"]
            assert body["decision"]["accept"] is True
    async with service(server, path, prompt_out_of_domain="warn") as client:
        body = await answered(client, next(iter(reasons)), **TARGET)
        assert "prompt_out_of_domain" in body["warnings"]
        assert body["decision"]["accept"] is True


async def calibrated_for(server, domain, path):
    """Write a calibrator of the server's deployment under which everything passes."""
    config = WorkerConfig(
        generation=place_of(server), similarity=ComparerConfig(model="embedded", threads=1)
    )
    async with running_workers(build_workers(config)) as workers:
        info, pair_model = workers.generator.info, workers.comparers["cross_encoder"].info
        nli = workers.nli and workers.nli.info.identity
    made = calibrator(
        {ALL: {"rb_cocoa_root_sp": calibration(1e6)}},
        model_id=info.model_id,
        revision=info.revision,
        generator=info.identity,
        similarity="cross_encoder",
        comparer=pair_model.identity,
        nli=nli,
        max_new_tokens=TARGET["max_new_tokens"],
    )
    beside(path).write_bytes(PROMPTS_FILE.read_bytes())
    path.write_text(to_json(replace(made, prompts=domain.sha256)))


def place_of(server):
    return GeneratorConfig(url=str(server.client.base_url), api="openai")


@asynccontextmanager
async def service(server, path, **settings):
    """A gateway before the server that serves the calibrator."""
    settings = Settings(
        generation=place_of(server),
        similarity=ComparerConfig(threads=1, model="embedded"),
        probes=ProbeConfig(*map(str, PROBES)),
        cache=CacheConfig(enabled=False),
        calibrator=str(path),
        **settings,
    )
    app = create_app(settings, on_death=lambda: None)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://cocoa", timeout=300) as client,
    ):
        await app.state.service.supervisor.ready.wait()
        yield client


async def answered(client, prompt, **asked):
    response = await client.post(GENERATE, json={"prompt": prompt} | asked)
    assert response.status_code == 200, response.text
    return response.json()
