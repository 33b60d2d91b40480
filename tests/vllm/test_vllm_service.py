"""Our service before a real vLLM: what it answers, how long it takes, how well it ranks."""

import asyncio
import time
from functools import partial

import httpx
import numpy as np
import pytest

from app.cache.protocol import CacheConfig
from app.main import create_app
from app.settings import Settings
from cocoa_lab.datasets import load
from cocoa_lab.evaluation import EvaluationSpec, evaluate
from cocoa_lab.metrics import bootstrap, prr
from cocoa_lab.quality import QUALITY, quality_names
from models.estimators.information import mte, sp
from models.probes.protocol import ProbeConfig
from tests.conftest import GENERATE
from tests.reasons import score_reasons
from tests.vllm.agreement import TOLERANCE, at_once
from tests.vllm.reference import MAX_NEW_TOKENS, STATISTICS
from tests.vllm.server import PROBES, serving
from workers.config import GeneratorConfig, SimilaritySettings

pytestmark = pytest.mark.anyio
SAMPLES = {"n": 10, "temperature": 1, "top_k": 50, "top_p": 1, "logprobs": 0}
TIMED = 60
RANKED = ("rb_cocoa_root_sp", "cocoa_sp", "cocoa_ppl", "cocoa_mte")


@pytest.fixture(scope="module")
async def server(anyio_backend, tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    async with serving(folder, "service", "--enforce-eager") as running:
        yield running


@pytest.fixture(scope="module")
def settings(server):
    """A gateway before the server, which knows its probes."""
    return Settings(
        generation=GeneratorConfig(url=str(server.client.base_url), api="openai"),
        similarity=SimilaritySettings(threads=1, model="embedded"),
        probes=ProbeConfig(*map(str, PROBES)),
        cache=CacheConfig(enabled=False),
    )


@pytest.fixture(scope="module")
async def client(settings):
    app = create_app(settings, on_death=lambda: None)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://cocoa", timeout=300) as client,
    ):
        await app.state.service.supervisor.ready.wait()
        yield client


async def ask(client, prompt, **body):
    body = {"prompt": prompt, "max_new_tokens": MAX_NEW_TOKENS} | body
    response = await client.post(GENERATE, json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def test_300_answers_in_full_and_light_are_those_in_process(client, testbed):
    largest = dict.fromkeys(("sp", "mte", "inconsistency_light", "distance_percentile"), 0.0)

    def compare(name, found, expected):
        largest[name] = max(largest[name], abs(found - expected))

    async def full(case, seed):
        body = await ask(client, case.prompt, seed=seed, estimators=["cocoa_mte", "sp", "mte"])
        answer = case.expected.answer
        assert body["text"] == answer.text
        assert body["provenance"]["num_samples"] == 10
        assert not score_reasons(body)
        compare("sp", body["scores"]["sp"], sp(answer.token_logprobs))
        compare("mte", body["scores"]["mte"], mte(answer.token_entropies))

    async def light(case):
        body = await ask(client, case.prompt, mode="light")
        reading = case.expected.probe_readings[STATISTICS[0]]
        assert body["text"] == case.expected.answer.text
        compare("inconsistency_light", body["scores"]["inconsistency_light"], reading.value)
        percentile = body["provenance"]["probe"]["distance_percentile"]
        compare("distance_percentile", percentile, reading.distance_percentile)
        assert body["provenance"]["probe"]["out_of_domain"] == reading.out_of_domain

    calls = []
    for seed, case in enumerate(testbed):
        calls += [partial(full, case, seed), partial(light, case)]
    await at_once(16, calls)
    print(f"\n{len(testbed)} prompts through the service: largest differences {largest}")
    assert largest.pop("distance_percentile") <= 100 * TOLERANCE
    assert max(largest.values()) <= TOLERANCE


async def test_the_generation_stage_beside_the_two_raw_completions(server, client, testbed):
    raw, ours = [], []

    async def completions(case, seed):
        began = time.perf_counter()
        await asyncio.gather(
            server.one(case.ids, "entropy", logprobs=2),
            server.choices(case.ids, **SAMPLES, seed=seed),
        )
        raw.append(time.perf_counter() - began)

    async def service(case, seed):
        body = await ask(client, case.prompt, seed=seed, estimators=["cocoa_sp"])
        timing = body["timing_ms"]
        ours.append((timing["queue"] + timing["generate"]) / 1000)

    for seed, case in enumerate(testbed[:TIMED]):
        calls = [completions, service]
        for call in calls[:: 1 if seed % 2 else -1]:
            await call(case, seed)
    ratio = np.median(ours) / np.median(raw)
    print(
        f"\ngeneration stage {1000 * np.median(ours):.1f} ms, two raw completions "
        f"{1000 * np.median(raw):.1f} ms, ratio of medians {ratio:.3f}, {TIMED} prompts in turn"
    )
    assert ratio < 2


async def test_prr_on_300_prompts_lies_in_the_interval_in_process(settings, tmp_path):
    embedded = Settings(generation=GeneratorConfig(threads=2), similarity=settings.similarity)
    found = {}
    for name, chosen in {"vLLM": settings, "in process": embedded}.items():
        print(f"\n[{name}] evaluating 300 prompts", flush=True)
        found[name] = await evaluate(spec(tmp_path / f"{name}.jsonl"), chosen, lambda: None)
    outside = []
    for task in found["vLLM"].measure_names:
        for estimator in RANKED:
            value, _ = ranking(found["vLLM"], task, estimator)
            expected, (low, high) = ranking(found["in process"], task, estimator)
            beside = f"in process {expected:.3f} [{low:.3f}, {high:.3f}]"
            print(f"{task} {estimator}: {value:.3f}, {beside}")
            if not low <= value <= high:
                outside.append((task, estimator))
    assert not outside


def spec(generations):
    """300 testbed prompts, ten samples each."""
    examples = load("testbed", limit=300, seed=0)
    return EvaluationSpec(
        dataset="testbed",
        examples=examples,
        generations=generations,
        draws=[10],
        seed=0,
        estimators=RANKED,
        strategies=["greedy"],
        similarities=None,
        measure_names=quality_names(examples, None),
        measures=dict(QUALITY),
        rescore=False,
    )


def ranking(run, task, estimator):
    """PRR of an estimator on a task, with its 95 % interval."""
    rows = run.rows_of(task)
    (variant,) = run.qualities
    scores = [run.prompts[row].answers[0].scores[estimator] for row in rows]
    interval = bootstrap(prr, np.array(scores, float), run.qualities[variant][rows])
    return interval.value, (interval.low, interval.high)
