"""Prompts are read in parts between the tokens of the running rows."""

from dataclasses import replace

import numpy as np
import pytest

from models.engines.jobs import next_pass
from models.records import GivenAnswer
from tests.tiny_models import byte_tokenizer, random_model
from tests.unit.models.engines.tiny_engines import (
    ARCHITECTURES,
    PROMPTS,
    engine_of,
    generated,
    request_for,
    running,
    sequences,
)

LONG = "A long prompt, of which a part is read between two tokens of those who run. " * 2
pytestmark = pytest.mark.anyio


def reading(model, tokens):
    """An engine that reads so many tokens of prompts in a pass, and what it reads: (rows, S)."""
    passes = []
    model.register_forward_pre_hook(
        lambda _, args, kwargs: passes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    return engine_of(model, pass_tokens=tokens), passes


def to_the_end(engine, jobs):
    """Steps until nothing runs or waits; the jobs in the order in which they ended."""
    ended = []
    report = engine.step(jobs)
    while True:
        ended += report.finished
        assert not report.failed
        if engine.is_idle:
            return ended
        report = engine.step([])


def assert_same(one, other):
    for a, b in zip(sequences(one), sequences(other), strict=True):
        assert a.token_ids == b.token_ids
        np.testing.assert_allclose(a.token_logprobs, b.token_logprobs, atol=1e-5)
        np.testing.assert_allclose(a.token_entropies, b.token_entropies, atol=1e-5)


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "hybrid"])
@pytest.mark.parametrize("answer", [None, GivenAnswer(LONG)], ids=["greedy", "given"])
async def test_a_prompt_read_in_parts_is_answered_as_one_read_at_once(architecture, answer):
    model, requests = random_model(architecture), []
    for prompt in (*PROMPTS, LONG):
        request = request_for(prompt, max_new_tokens=8, answer=answer)
        if answer is None:
            request = replace(request, hidden_layers=(1,), prompt_layer=1)
        requests.append(request)
    async with running(engine_of(model)) as worker:
        whole = [await worker.generate(request) for request in requests]
    # A hybrid's state cannot be taken up in the middle of a prompt.
    most = None if architecture == "hybrid" else 7
    async with running(engine_of(model, pass_tokens=most)) as worker:
        in_parts = await generated(worker, requests)

    for one, other in zip(whole, in_parts, strict=True):
        assert_same(one, other)
        if answer is None:
            np.testing.assert_allclose(one.answer_hidden_mean, other.answer_hidden_mean, atol=1e-5)
            np.testing.assert_allclose(one.prompt_state, other.prompt_state, atol=1e-5)


async def test_the_first_token_behind_a_prompt_read_in_parts_has_the_same_mass():
    model, groups = random_model("llama"), [["True", " True"], ["False", " False"]]
    request = request_for(LONG, num_samples=0, max_new_tokens=1)
    async with running(engine_of(model)) as worker:
        whole = await worker.first_token_logprobs(request, groups)
    async with running(engine_of(model, pass_tokens=10)) as worker:
        in_parts = await worker.first_token_logprobs(request, groups)

    np.testing.assert_allclose(whole.logprobs, in_parts.logprobs, atol=1e-5)


@pytest.mark.parametrize("answer", [None, GivenAnswer(LONG)], ids=["greedy", "given"])
def test_rows_go_on_between_the_parts_of_a_long_prompt(answer):
    engine, passes = reading(random_model("llama"), 64)
    running_job = engine.prepare(request_for("Hi", num_samples=0, max_new_tokens=40))
    engine.step([running_job])
    engine.step([])
    passes.clear()
    to_the_end(engine, [engine.prepare(request_for(LONG, num_samples=0, answer=answer))])

    parts = [i for i, (_, width) in enumerate(passes) if width > 1]
    assert sum(passes[i][1] for i in parts) >= len(byte_tokenizer()(LONG).input_ids)
    assert len(parts) >= 3
    assert max(width for _, width in passes) <= 64
    between = "".join("r" if width > 1 else "t" for _, width in passes)
    assert "rrr" not in between, "a part may be small, and the next one is begun then"


def test_a_step_is_one_pass_whatever_waits():
    engine, passes = reading(random_model("llama"), 64)
    jobs = [engine.prepare(request_for(prompt)) for prompt in [*PROMPTS, LONG] * 3]
    engine.step(jobs)
    while not engine.is_idle:
        before = len(passes)
        engine.step([])
        first, *others = passes[before:] or [()]
        # The last token of equal prompts is read as where they differ in it.
        assert [width for _, width in others] in ([], [1]), first


def test_a_short_prompt_is_not_behind_a_long_one():
    engine, _ = reading(random_model("llama"), 16)
    long = engine.prepare(request_for(LONG, num_samples=0, max_new_tokens=1))
    short = engine.prepare(request_for("Hi", num_samples=0, max_new_tokens=4))
    engine.step([long])

    assert to_the_end(engine, [short]) == [short, long]


def test_a_long_prompt_is_read_although_shorter_ones_keep_coming():
    engine, _ = reading(random_model("llama"), 16)
    long = engine.prepare(request_for(LONG, num_samples=0, max_new_tokens=1))
    engine.step([long])
    for _ in range(60):
        shorter = request_for("Hello, you!", num_samples=0, max_new_tokens=1)
        report = engine.step([engine.prepare(shorter)])
        if long in report.finished:
            return
    pytest.fail("the long one waits for all that came later")


def test_who_has_left_is_read_no_further():
    engine, passes = reading(random_model("llama"), 16)
    jobs = [engine.prepare(request_for(LONG)), engine.prepare(request_for("and" + LONG))]
    engine.step(jobs)
    assert passes == [(1, 16)]
    for job in jobs:
        job.cancelled = True
    engine.step([])

    assert passes == [(1, 16)]
    assert engine.is_idle


@pytest.mark.parametrize(
    ("lengths", "is_for_oldest", "expected"),
    [
        ([50, 10, 20, 4], False, ([3, 1], 10)),
        ([50, 10, 20, 4], True, ([0], 32)),
        ([50], False, ([0], 32)),
        ([20, 4], True, ([0], 20)),
        ([16, 16, 16], False, ([0, 1], 16)),
    ],
    ids=["short ones together", "turn of the oldest", "a part", "padded too wide", "equally long"],
)
def test_a_pass_reads_what_fits_padded(lengths, is_for_oldest, expected):
    engine = engine_of(random_model("llama"))
    jobs = []
    for length in lengths:
        job = engine.prepare(request_for("x"))
        job.prompt_ids = [7 + len(jobs)] * length
        jobs.append(job)
    group, num_tokens = next_pass(jobs, 32, is_for_oldest=is_for_oldest)

    assert ([jobs.index(job) for job in group], num_tokens) == expected
