"""Final answers behind the reasonings of other samples, against full passes of transformers."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest
import torch

from models.engines.reasoned import TOO_LARGE, TOO_LONG
from models.records import GenerationRequest, SamplingParams
from models.statistics import REASONING_STATISTICS
from tests.conftest import until
from tests.tiny_models import random_model
from tests.unit.models.engines import test_reasoning
from tests.unit.models.engines.test_reasoning import asking, reasoning
from tests.unit.models.engines.tiny_engines import engine_of, running

pytestmark = pytest.mark.anyio

plain = test_reasoning.plain
WANTED = frozenset({"answer_token_logprobs", "sample_texts", "sample_reasonings"})
CHATS = ["Add 61 and 35.", "What is 12 + 5 + 7?", "88 + 79 ="]
# Long enough to be read where it lies, by all its rows at once.
LONG = "First, I add in steps. " * 12 + "47 + 38 = <think>\n"


def wanting(content, *, num_samples=6, **fields):
    return replace(asking(content, num_samples=num_samples, **fields), statistics=WANTED)


def opened(**bounds):
    sampling = SamplingParams(5, 60, seed=1, max_reasoning_tokens=9, **bounds)
    return GenerationRequest(LONG, sampling=sampling, statistics=WANTED)


def watch(worker):
    """The jobs that it finishes from now on, with the generation that each becomes."""
    jobs, read = [], worker._engine.generation

    def generation(job):
        jobs.append((job, read(job)))
        return jobs[-1][1]

    worker._engine.generation = generation
    return jobs


@asynccontextmanager
async def watched(**config):
    async with reasoning(**config) as worker:
        yield worker, watch(worker)


@torch.inference_mode()
def check(plain, job, generation):
    """Each answer behind each reasoning is what one pass over all of it says."""
    model, _ = plain
    ended = [row for row in job.finished if row.first_of_answer < len(row.token_ids)]
    rows = sorted(ended, key=attrgetter("index"))
    answers = {}
    for row in rows:
        if row.finish_reason == "stop":
            answers.setdefault(row.text.strip(), row.token_ids[row.first_of_answer :])
    found = generation.reasoned
    assert list(found.texts) == list(answers)
    samples = [row for row in rows if row.index > 0]
    assert found.behind == tuple(row.index - 1 for row in samples)
    for line, ids in zip(found.logprobs, answers.values(), strict=True):
        for value, row in zip(line, samples, strict=True):
            before = job.prompt_ids + row.token_ids[: row.first_of_answer]
            logprobs = model(torch.tensor([before + ids])).logits[0].log_softmax(-1)
            chosen = logprobs[len(before) - 1 : -1].gather(1, torch.tensor(ids)[:, None])
            assert value == pytest.approx(chosen.sum().item(), abs=1e-4)


async def test_answers_behind_all_reasonings_are_those_of_full_passes(plain):
    async with watched() as (worker, jobs):
        requests = [*map(wanting, CHATS), opened()]
        together = await asyncio.gather(*map(worker.generate, requests))
        alone = await worker.generate(requests[0])

    assert len(together[0].reasoned.texts) > 1
    assert len({len(row.token_ids) for row in jobs[-1][0].finished}) > 1
    assert len(jobs) == len(requests) + 1
    assert max(len(job.prompt_ids) for job, _ in jobs) > 64
    for job, generation in jobs:
        check(plain, job, generation)
    np.testing.assert_allclose(alone.reasoned.logprobs, together[0].reasoned.logprobs, atol=1e-4)


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "qwen2", "sliding"])
async def test_every_architecture_whose_rows_run_together_reads_alike(architecture):
    model = random_model(architecture)
    # Half a character ends an answer of random bytes soon.
    bounds = {"max_reasoning_tokens": 9, "stop": ("\ufffd",), "seed": 3}
    sampling = SamplingParams(4, 60, **bounds)
    requests = []
    for start in ("Hi", "A question that is a good deal longer than the other one, and than 64 "):
        requests.append(GenerationRequest(f"{start}<think>", sampling=sampling, statistics=WANTED))
    async with running(engine_of(model, reasoning="<think>,</think>")) as worker:
        jobs = watch(worker)
        await asyncio.gather(*map(worker.generate, requests))

    for job, generation in jobs:
        assert generation.reasoned.texts
        check((model, None), job, generation)


async def test_a_model_without_plain_keys_and_values_reads_no_answer_behind_others():
    model = random_model("hybrid")
    async with running(engine_of(model, reasoning="<think>,</think>")) as worker:
        assert "sample_reasonings" not in worker.info.statistics
        assert worker.info.absent.keys() == REASONING_STATISTICS


async def test_a_long_answer_is_read_in_several_passes(plain):
    async with watched(reasoning="<think>, in") as (worker, jobs):
        generation = await worker.generate(wanting(CHATS[0], num_samples=8))

    assert max(len(row.token_ids) - row.first_of_answer for row in jobs[0][0].finished) > 64 // 8
    check(plain, *jobs[0])
    assert generation.reasoned.logprobs.shape[1] == 8


async def test_what_was_cut_is_no_answer_and_an_unfinished_reasoning_no_column():
    async with watched() as (worker, jobs):
        await worker.generate(wanting(CHATS[0], num_samples=10, max_new_tokens=43))

    [(_, generation)] = jobs
    unfinished = {i for i, one in enumerate(generation.samples) if one.is_unfinished}
    whole = [one for one in (generation.answer, *generation.samples) if one.finish_reason == "stop"]
    assert 0 < len(unfinished) < 10
    assert set(generation.reasoned.behind) == set(range(10)) - unfinished
    assert set(generation.reasoned.texts) == {one.compared_text for one in whole}


async def test_rows_without_room_for_their_reasonings_are_null_with_the_reason():
    async with reasoning(max_cache_tokens=400) as worker:
        small = await worker.generate(wanting(CHATS[0], num_samples=2, max_new_tokens=40))
        large = await worker.generate(wanting(CHATS[0], num_samples=4, max_new_tokens=60))

    assert small.reasoned is not None
    assert large.reasoned is None
    assert large.absent == dict.fromkeys(REASONING_STATISTICS, TOO_LARGE)
    assert len(large.samples) == 4


async def test_an_answer_that_exceeds_the_context_elsewhere_is_null_with_the_reason():
    async with watched() as (worker, _):
        worker._engine._batch._reasonings._max_context_tokens = 50
        generation = await worker.generate(wanting(CHATS[0]))

    assert generation.reasoned is None
    assert set(generation.absent.values()) == {TOO_LONG}


async def test_nothing_is_kept_where_nobody_wants_it_nor_when_a_job_has_ended_or_gone():
    async with watched() as (worker, jobs):
        reasonings = worker._engine._batch._reasonings
        await worker.generate(asking())
        assert jobs[0][0].kept == {}
        await worker.generate(wanting(CHATS[0]))
        left = asyncio.create_task(worker.generate(wanting(CHATS[1])))
        await until(lambda: reasonings.jobs)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        await worker.generate(asking())

    assert reasonings.jobs == []
    assert [job.kept for job, _ in jobs] == [{}, {}, {}]


async def test_many_jobs_that_keep_reasonings_take_turns_in_a_small_cache():
    async with reasoning(max_cache_tokens=700) as worker:
        requests = [wanting(f"Add {n} and 35.", num_samples=2, max_new_tokens=90) for n in range(6)]
        together = await asyncio.gather(*map(worker.generate, requests))
        alone = await worker.generate(requests[3])

    assert all(one.reasoned is not None for one in together)
    np.testing.assert_allclose(together[3].reasoned.logprobs, alone.reasoned.logprobs, atol=1e-4)


async def test_jobs_that_may_keep_reasonings_and_draw_in_waves_do_not_wait_for_each_other():
    sampling = SamplingParams(12, 12, seed=1, stop_mass=1.0)
    statistics = WANTED | {"sample_token_logprobs"}
    request = GenerationRequest("It does not reason", sampling=sampling, statistics=statistics)
    engine = engine_of(random_model("llama"), reasoning="<think>,</think>", max_cache_tokens=810)
    job = engine.prepare(request)
    assert 2 * job.num_rows <= 810 // job.final_length < 5 * 2 * job.num_opened
    async with running(engine) as worker, asyncio.timeout(60):
        together = await asyncio.gather(*[worker.generate(request) for _ in range(5)])

    assert [len(one.samples) for one in together] == [12] * 5
