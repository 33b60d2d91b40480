"""What fails in an engine fails the requests that it concerns, and no others."""

import asyncio
from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch

from models.errors import EngineError, InvalidLogits, ModelLost, NotReady
from models.records import GivenAnswer
from tests.conftest import until
from tests.tiny_models import byte_tokenizer, random_model
from tests.unit.models.engines.tiny_engines import (
    PROMPTS,
    Fault,
    engine_of,
    generated,
    request_for,
    running,
    worker_of,
)

pytestmark = pytest.mark.anyio


def poison(model, token, value):
    """Make the logits of every row that has just read `token` equal to `value`."""

    def hook(_, args, kwargs, output):
        rows = kwargs["input_ids"][:, -1] == token
        output.logits[rows] = value
        return output

    return model.register_forward_hook(hook, with_kwargs=True)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), float("-inf")], ids=["nan", "inf", "-inf"]
)
async def test_invalid_logits_in_one_row_fail_its_request_only(value):
    model, tokenizer = random_model("llama"), byte_tokenizer()
    bad_token = tokenizer("~").input_ids[-1]
    handle = poison(model, bad_token, value)
    short = request_for("Hello", num_samples=1, max_new_tokens=4)
    async with running(engine_of(model)) as worker:
        requests = [short, replace(short, prompt="~")]
        good, bad = await generated(worker, requests, return_exceptions=True)
        again = await worker.generate(short)
    handle.remove()

    assert isinstance(bad, InvalidLogits)
    assert good.answer.token_ids == again.answer.token_ids


async def test_a_step_that_raises_fails_its_requests_and_the_loop_lives():
    model = random_model("llama")
    fault = Fault(model, RuntimeError("broken"), lambda ids: ids.shape[1] == 1)
    async with running(engine_of(model)) as worker:
        failed = await generated(worker, map(request_for, PROMPTS), return_exceptions=True)
        fault.armed = False
        assert (await worker.generate(request_for("Hello"))).samples

    assert [type(error) for error in failed] == [EngineError] * len(PROMPTS)


async def test_a_prefill_that_raises_fails_its_request_only():
    model, tokenizer = random_model("llama"), byte_tokenizer()
    bad_token = tokenizer("~").input_ids[-1]

    def is_bad_prefill(ids):
        return ids.shape[1] > 1 and bool((ids == bad_token).any())

    Fault(model, RuntimeError("broken"), is_bad_prefill)
    async with running(engine_of(model)) as worker:
        requests = map(request_for, ("Hello", "~bad", "World"))
        good, bad, other = await generated(worker, requests, return_exceptions=True)

    assert isinstance(bad, EngineError)
    assert good.samples
    assert other.samples


def test_jobs_whose_prompts_are_not_begun_outlive_a_step_that_breaks():
    model = random_model("llama")
    engine = engine_of(model, max_rows=2)
    jobs = [engine.prepare(request_for(prompt, num_samples=1)) for prompt in PROMPTS[:2]]
    engine.step(jobs)
    engine.step([])
    assert [job.started_at is None for job in jobs] == [False, True]
    broken = model.register_forward_pre_hook(Mock(side_effect=RuntimeError("broken")))
    with pytest.raises(RuntimeError):
        engine.step([])
    engine.abandon()
    broken.remove()
    ended = []
    while not engine.is_idle:
        ended += engine.step([]).finished

    assert ended == [jobs[1]]


LOST = [ModelLost("device"), torch.AcceleratorError("an illegal memory access")]


@pytest.mark.parametrize("error", LOST, ids=["as the engine says it", "as torch says it"])
async def test_a_lost_device_ends_the_loop_and_fails_every_waiter(error):
    model = random_model("llama")
    Fault(model, error, lambda ids: ids.shape[1] == 1)
    worker = worker_of(engine_of(model, max_rows=11))
    loop = asyncio.create_task(worker.run())
    requests = [request_for("Hi", num_samples=10)] * 3
    failed = await generated(worker, requests, return_exceptions=True)

    with pytest.raises(ModelLost):
        await loop
    assert all(isinstance(error, EngineError | NotReady) for error in failed)
    with pytest.raises(NotReady):
        await worker.generate(request_for("Hello"))
    await worker.close()


async def test_a_callback_that_raises_fails_its_own_request_only():
    def bad(piece):
        raise ValueError("callback")

    async with running(engine_of(random_model("llama"))) as worker:
        failed, fine = await asyncio.gather(
            worker.generate(request_for("Hello"), bad),
            worker.generate(request_for("World")),
            return_exceptions=True,
        )

    assert isinstance(failed, ValueError)
    assert fine.samples


async def test_an_answer_that_cannot_be_scored_fails_its_own_request_only():
    model, steps = random_model("llama"), []
    Fault(model, RuntimeError("secret"), lambda ids: ids.shape[1] == 3)
    async with running(engine_of(model), steps.append) as worker:
        long = asyncio.create_task(worker.generate(request_for("Hello", max_new_tokens=200)))
        await until(lambda: any(steps))
        with pytest.raises(EngineError, match="scoring the answer failed: RuntimeError") as error:
            await worker.generate(request_for("Hello", answer=GivenAnswer(" a")))
        fine = await worker.generate(request_for("Hello", answer=GivenAnswer(" four")))

        assert (await long).samples
        assert fine.answer.num_tokens == 6
        assert "secret" not in error.value.message
