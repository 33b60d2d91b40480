"""The generator over a real vLLM with the plugin, held to the engine in process."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest

from app.scoring.questions import FALSE, TRUE
from cocoa_lab.loading import running_workers
from models.probes.protocol import ProbeConfig
from models.records import GenerationRequest, GivenAnswer, SamplingParams
from models.statistics import SENTENCES_READ, supplied_by
from tests.vllm import reference
from tests.vllm.server import serving
from tests.worker_servers import running
from workers.build import build_workers
from workers.config import GeneratorConfig, WorkerConfig
from workers.hooks import Hooks
from workers.openai.generator import connect_generator

pytestmark = pytest.mark.anyio

NUM_PROMPTS = 60
CONCURRENCY = 16
WITHIN = 1e-3
# The plugin reads whole answers.
OF_ANSWERS = supplied_by("probe") - {SENTENCES_READ}
WANTED = supplied_by("answer") | OF_ANSWERS | {"sample_texts", "sample_token_logprobs"}


def request(prompt, **sampling):
    law = SamplingParams(**{"num_samples": 4, "max_new_tokens": 64, "seed": 1} | sampling)
    return GenerationRequest(prompt, sampling=law, statistics=WANTED)


@pytest.fixture(scope="module")
async def server(anyio_backend, tmp_path_factory):
    folder = tmp_path_factory.mktemp("adapter")
    async with serving(folder, "adapter", "--enforce-eager") as found:
        yield found


@asynccontextmanager
async def adapter(server):
    """The generator, its loop running; connections end with the test."""
    config = GeneratorConfig(url=str(server.client.base_url), api="openai")
    generator = await connect_generator(config.checked(), Hooks(), ProbeConfig())
    async with running(generator) as found:
        yield found


@asynccontextmanager
async def in_process():
    async with running_workers(build_workers(WorkerConfig())) as workers:
        yield workers.generator


async def all_of(generator, requests):
    places = asyncio.Semaphore(CONCURRENCY)

    async def one(asked):
        async with places:
            return await generator.generate(asked)

    return await asyncio.gather(*map(one, requests))


async def test_answers_statistics_and_probes_are_those_in_process(server):
    requests = [request(prompt) for prompt in reference.testbed_prompts(NUM_PROMPTS)]
    # Sampled answers are drawn otherwise there; they only run beside the others here.
    answers = [replace(one, statistics=WANTED - supplied_by("samples")) for one in requests]
    async with in_process() as local:
        expected = await all_of(local, answers)
    async with adapter(server) as generator:
        info = generator.info
        found = await all_of(generator, requests)

    assert set(info.probes) == OF_ANSWERS
    assert info.revision == expected[0].revision
    apart = {"log-probs": 0.0, "entropies": 0.0, "probes": 0.0, "percentiles": 0.0}
    for one, other in zip(found, expected, strict=True):
        assert one.answer.text == other.answer.text
        assert one.answer.token_ids == other.answer.token_ids
        assert one.answer.token_texts == other.answer.token_texts
        assert one.answer.finish_reason == other.answer.finish_reason
        assert (len(one.samples), one.absent) == (4, {})
        for name, kind in (("token_logprobs", "log-probs"), ("token_entropies", "entropies")):
            distance = np.abs(getattr(one.answer, name) - getattr(other.answer, name)).max()
            apart[kind] = max(apart[kind], float(distance))
        for name, reading in one.probe_readings.items():
            known = other.probe_readings[name]
            apart["probes"] = max(apart["probes"], abs(reading.value - known.value))
            percentiles = abs(reading.distance_percentile - known.distance_percentile)
            apart["percentiles"] = max(apart["percentiles"], percentiles)
        assert set(one.probe_readings) == OF_ANSWERS
    print(f"\n[adapter] {NUM_PROMPTS} prompts at {CONCURRENCY}, apart {apart}", flush=True)
    assert max(apart["log-probs"], apart["entropies"], apart["probes"]) < WITHIN
    assert apart["percentiles"] < 0.1


async def test_given_answers_and_questions_are_read_as_in_process(server):
    prompts = reference.testbed_prompts(12)
    asked = []
    for i, prompt in enumerate(prompts):
        given = GivenAnswer(("Paris", " It is Rome.", "42")[i % 3], append_eos=i % 2 == 0)
        statistics = supplied_by("answer")
        asked.append(replace(request(prompt), answer=given, statistics=statistics))
    questions = [replace(request(prompt, num_samples=0, max_new_tokens=1)) for prompt in prompts]
    async with in_process() as local:
        expected = await all_of(local, asked)
        known = [await local.first_token_logprobs(one, (TRUE, FALSE)) for one in questions]
    async with adapter(server) as generator:
        found = await all_of(generator, asked)
        told = [await generator.first_token_logprobs(one, (TRUE, FALSE)) for one in questions]

    for one, other in zip(found, expected, strict=True):
        assert (one.answer_form, one.warnings) == (other.answer_form, ())
        assert one.answer.token_ids == other.answer.token_ids
        assert one.answer.token_texts == other.answer.token_texts
        for name in ("token_logprobs", "token_entropies"):
            values, others = getattr(one.answer, name), getattr(other.answer, name)
            np.testing.assert_allclose(values, others, atol=WITHIN)
    for one, other in zip(told, known, strict=True):
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=WITHIN)


async def test_tokens_are_told(server):
    async with adapter(server) as generator:
        for prompt in reference.testbed_prompts(6):
            tokens = []
            whole = await generator.generate(request(prompt, num_samples=12), tokens.append)
            assert "".join(token.text for token in tokens) == whole.answer.text
            logprobs = [token.logprob for token in tokens]
            assert logprobs == whole.answer.token_logprobs.tolist()
            assert [token.entropy for token in tokens] == whole.answer.token_entropies.tolist()


async def test_cancelling_frees_the_server(server):
    async with adapter(server) as generator:
        long = request("Count: 1, 2, 3,", num_samples=10, max_new_tokens=400)
        tasks = [asyncio.create_task(generator.generate(replace(long))) for _ in range(3)]
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.until("vllm:num_requests_running", 0)
        assert (await generator.generate(request("What is the capital of France?"))).samples
