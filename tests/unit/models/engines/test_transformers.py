"""The in-process engine against Hugging Face's own `generate` and teacher forcing.

Requests run alone and joined; the engine's faults are tested too.
"""

import asyncio
import threading
import time
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from models.checkpoints import revision_of
from models.engines import transformers
from models.engines.protocol import EngineConfig
from models.engines.rows import RowCache
from models.engines.tokenization import Detokenizer
from models.engines.transformers import TransformersEngine
from models.errors import (
    ChatTemplateError,
    DeadlineExceeded,
    EngineError,
    InvalidLogits,
    InvalidRequest,
    ModelLost,
    NotReady,
    PromptTooLong,
)
from models.records import GenerationRequest, GivenAnswer, SamplingParams
from models.statistics import ANSWER_STATISTICS, SAMPLE_STATISTICS
from models.threads import ModelThread
from tests.conftest import until
from tests.tiny_models import CHAT_TEMPLATE, byte_tokenizer, random_model
from workers.generation import GenerationWorker

pytestmark = pytest.mark.anyio

ALL = ANSWER_STATISTICS | SAMPLE_STATISTICS
ARCHITECTURES = ["llama", "gpt2", "qwen2", "sliding"]
PROMPTS = [
    "Hi",
    "What is the capital of France?",
    "12 + 30 =",
    "A prompt that is a good deal longer than the others, é",
]


def ignore(num_rows):
    """For whoever does not watch the steps."""


def engine_of(model, tokenizer=None, *, model_id="tiny", revision="1", **config):
    return TransformersEngine(
        model,
        tokenizer or byte_tokenizer(),
        EngineConfig(**config),
        model_id=model_id,
        revision=revision,
    )


def worker_of(engine, on_step=ignore):
    thread = ModelThread("generation", torch.set_num_threads, (1,))
    return GenerationWorker(engine, model_thread=thread, on_step=on_step)


@asynccontextmanager
async def running(engine, on_step=ignore):
    """The worker that owns the engine, while its loop runs."""
    worker = worker_of(engine, on_step)
    loop = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        await worker.close()
        await asyncio.gather(loop, return_exceptions=True)


async def generated(worker, requests, *, return_exceptions=False):
    """What the worker makes of requests that come at once."""
    waiting = [worker.generate(request) for request in requests]
    return await asyncio.gather(*waiting, return_exceptions=return_exceptions)


def request_for(
    prompt,
    *,
    max_new_tokens=24,
    num_samples=4,
    seed=1,
    stop_mass=None,
    statistics=ALL,
    **kwargs,
):
    sampling = SamplingParams(
        num_samples=num_samples, max_new_tokens=max_new_tokens, seed=seed, stop_mass=stop_mass
    )
    return GenerationRequest(
        prompt=prompt, sampling=sampling, statistics=frozenset(statistics), **kwargs
    )


@torch.inference_mode()
def teacher_forced(model, prompt_ids, token_ids):
    """Log-probs and entropies (T,) of token_ids after the prompt, in one pass."""
    ids = torch.tensor([list(prompt_ids) + list(token_ids)])
    logprobs = model(ids).logits[0, len(prompt_ids) - 1 : -1].log_softmax(-1)
    chosen = logprobs.gather(1, torch.tensor(token_ids)[:, None])[:, 0]
    return chosen.numpy(), -(logprobs.exp() * logprobs).sum(-1).numpy()


@torch.inference_mode()
def next_logprobs(model, ids):
    """Log-probs (V,) of the token after these."""
    return model(torch.tensor([list(ids)])).logits[0, -1].log_softmax(-1)


def sequences(generation):
    return (generation.answer, *generation.samples)


def num_common(a, b):
    """Tokens up to the first in which two sequences differ."""
    for i, (x, y) in enumerate(zip(a.token_ids, b.token_ids, strict=False)):
        if x != y:
            return i
    return len(a.token_ids)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
async def test_the_answer_is_what_greedy_generate_gives(architecture):
    model, tokenizer = random_model(architecture), byte_tokenizer()
    async with running(engine_of(model)) as worker:
        generations = await generated(worker, map(request_for, PROMPTS))

    for prompt, generation in zip(PROMPTS, generations, strict=True):
        inputs = tokenizer(prompt, return_tensors="pt")
        whole = model.generate(**inputs, do_sample=False, max_new_tokens=24)
        reference = whole[0, inputs.input_ids.shape[1] :]
        assert list(generation.answer.token_ids) == reference.tolist()
        assert generation.answer.text == tokenizer.decode(reference, skip_special_tokens=True)


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "hybrid"])
async def test_log_probs_and_entropies_equal_a_teacher_forced_pass(architecture):
    model, tokenizer = random_model(architecture), byte_tokenizer()
    async with running(engine_of(model)) as worker:
        generations = await generated(worker, map(request_for, PROMPTS))

    for prompt, generation in zip(PROMPTS, generations, strict=True):
        prompt_ids = tokenizer(prompt).input_ids
        for sequence in sequences(generation):
            logprobs, entropies = teacher_forced(model, prompt_ids, sequence.token_ids)
            np.testing.assert_allclose(sequence.token_logprobs, logprobs, atol=1e-4)
            np.testing.assert_allclose(sequence.token_entropies, entropies, atol=1e-4)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    "limits",
    [{}, {"max_rows": 3}, {"max_cache_tokens": 300}],
    ids=["all join", "rows enter in chunks", "cache budget lets few rows in"],
)
async def test_joined_equals_alone(architecture, limits):
    model, tokenizer = random_model(architecture), byte_tokenizer()
    requests = []
    for i, prompt in enumerate(PROMPTS):
        requests.append(request_for(prompt, max_new_tokens=8 + 8 * i, seed=i))
    async with running(engine_of(model)) as worker:
        alone = [await worker.generate(request) for request in requests]

    async def staggered(worker, i):
        for _ in range(3 * i):
            await asyncio.sleep(0.001)
        return await worker.generate(requests[i])

    async with running(engine_of(model, **limits)) as worker:
        joined = await asyncio.gather(*[staggered(worker, i) for i in range(len(requests))])

    for prompt, one, other in zip(PROMPTS, alone, joined, strict=True):
        for a, b in zip(sequences(one), sequences(other), strict=True):
            end = num_common(a, b)
            np.testing.assert_allclose(a.token_logprobs[:end], b.token_logprobs[:end], atol=1e-4)
            if end < len(a.token_ids):  # allowed only where the two best tokens are all but tied
                prompt_ids = tokenizer(prompt).input_ids
                best = next_logprobs(model, [*prompt_ids, *a.token_ids[:end]]).topk(2).values
                assert best[0] - best[1] < 1e-3


async def test_one_prefill_a_prompt_and_rows_with_the_same_tokens_share_a_cache_row():
    model = random_model("llama")
    shapes = []

    def record(_, args, kwargs):
        shapes.append(tuple(kwargs["input_ids"].shape))

    model.register_forward_pre_hook(record, with_kwargs=True)
    async with running(engine_of(model)) as worker:
        generation = await worker.generate(request_for("Hello", num_samples=10, max_new_tokens=6))

    prefills = [shape for shape in shapes if shape[1] > 1]
    steps = [shape for shape in shapes if shape[1] == 1]
    assert prefills == [(1, 6)]
    texts = [sequence.token_ids for sequence in sequences(generation)]
    for t, (num_cache_rows, _) in enumerate(steps, start=1):
        unfinished = {ids[:t] for ids in texts if len(ids) > t}
        assert num_cache_rows == len(unfinished)


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "hybrid"])
async def test_further_waves_need_no_second_prefill(architecture):
    model, prefills, steps = random_model(architecture), [], []
    handle = model.register_forward_pre_hook(
        lambda _, args, kwargs: prefills.append(kwargs["input_ids"].shape[1] > 1), with_kwargs=True
    )
    request = request_for("Hello", num_samples=12, max_new_tokens=6, stop_mass=1.0)
    async with running(engine_of(model), steps.append) as worker:
        in_waves = await worker.generate(request)
    handle.remove()
    at_once = replace(request, sampling=replace(request.sampling, stop_mass=None))
    async with running(engine_of(model)) as worker:
        whole = await worker.generate(at_once)

    assert sum(prefills) == 1
    assert max(steps) == 5, "the answer may have ended with the first wave, and the last has two"
    for one, other in zip(sequences(in_waves), sequences(whole), strict=True):
        assert one.token_ids == other.token_ids
        np.testing.assert_allclose(one.token_logprobs, other.token_logprobs, atol=1e-4)


async def test_waves_beside_others_keep_to_the_limits_and_everyone_progresses():
    steps, requests = [], []
    for i, prompt in enumerate(PROMPTS * 2):
        stop_mass = 1.0 if i % 2 else None
        requests.append(request_for(prompt, num_samples=12, seed=i, stop_mass=stop_mass))
    async with running(engine_of(random_model("llama"), max_rows=7), steps.append) as worker:
        generations = await generated(worker, requests)

    assert max(steps) <= 7
    assert [len(generation.samples) for generation in generations] == [12] * 8


async def test_a_failure_between_waves_fails_its_request_and_the_loop_lives():
    model, forwards = random_model("llama"), []

    def is_late(ids):
        forwards.append(ids.shape)
        return len(forwards) > 8

    fault = Fault(model, RuntimeError("broken"), is_late)
    request = request_for("Hello", num_samples=12, max_new_tokens=6, stop_mass=1.0)
    async with running(engine_of(model)) as worker:
        [failed] = await generated(worker, [request], return_exceptions=True)
        fault.armed = False
        assert len((await worker.generate(request)).samples) == 12

    assert isinstance(failed, EngineError)


async def test_rows_never_exceed_the_limits_and_everyone_progresses():
    steps = []
    requests = []
    for i, prompt in enumerate(PROMPTS * 2):
        requests.append(request_for(prompt * 2, num_samples=10, seed=i))
    requests.append(request_for("one", num_samples=1))
    async with running(engine_of(random_model("llama"), max_rows=11), steps.append) as worker:
        generations = await generated(worker, requests)

    assert max(steps) <= 11
    assert steps[-1] == 0
    assert [len(generation.samples) for generation in generations] == [10] * 8 + [1]


@pytest.mark.parametrize("architecture", ["llama", "sliding", "hybrid"])
@pytest.mark.parametrize(
    "num_tokens", [1, 5, 150], ids=["one token", "short", "longer than a chunk"]
)
async def test_a_given_answer_scores_like_teacher_forcing(architecture, num_tokens):
    model, tokenizer = random_model(architecture), byte_tokenizer()
    text = "".join(chr(33 + i * 7 % 94) for i in range(num_tokens))
    ids = tokenizer(text, add_special_tokens=False).input_ids
    given = request_for("Hello", answer=GivenAnswer(text, append_eos=False))
    async with running(engine_of(model)) as worker:
        whole, generation = await generated(worker, [request_for("Hello"), given])

    logprobs, entropies = teacher_forced(model, tokenizer("Hello").input_ids, ids)
    np.testing.assert_allclose(generation.answer.token_logprobs, logprobs, atol=1e-4)
    np.testing.assert_allclose(generation.answer.token_entropies, entropies, atol=1e-4)
    assert generation.answer.token_ids == tuple(ids)
    assert generation.answer.num_tokens == num_tokens
    assert [s.token_ids for s in generation.samples] == [s.token_ids for s in whole.samples]


@pytest.mark.parametrize(
    ("eos_ids", "end"),
    [(1, 1), ([2, 1], 1), ([3, 2], 2)],
    ids=["the one", "the tokenizer's", "the model's"],
)
async def test_a_given_answer_ends_in_a_token_that_ends_the_models_own(eos_ids, end):
    model, tokenizer = random_model("llama"), byte_tokenizer()
    model.generation_config.eos_token_id = eos_ids
    async with running(engine_of(model)) as worker:
        generation = await worker.generate(request_for("Hello", answer=GivenAnswer(" Paris")))

    answer = generation.answer
    assert answer.token_ids == (*tokenizer(" Paris", add_special_tokens=False).input_ids, end)
    logprobs, _ = teacher_forced(model, tokenizer("Hello").input_ids, answer.token_ids)
    np.testing.assert_allclose(answer.token_logprobs, logprobs, atol=1e-4)


async def test_a_sequence_counts_its_tokens_with_the_terminating_one():
    async with running(engine_of(random_model("llama"))) as worker:
        greedy = await worker.generate(request_for("Hello", max_new_tokens=200))
        given = await worker.generate(request_for("Hello", answer=GivenAnswer("Paris")))

    for sequence in sequences(greedy):
        assert sequence.num_tokens == len(sequence.token_ids) == len(sequence.token_logprobs)
    ended = [one for one in sequences(greedy) if one.finish_reason == "stop"]
    assert {one.token_ids[-1] for one in ended} == {1}
    assert given.answer.num_tokens == 6


@pytest.mark.parametrize("architecture", ["llama", "hybrid"])
async def test_first_token_mass_equals_the_softmax_after_the_prompt(architecture):
    model, tokenizer = random_model(architecture), byte_tokenizer()
    groups = [["True", " True", "T"], ["False", "xyz", " no"], ["both", "blank"], ["bee"]]
    question = request_for("Hello", num_samples=0, max_new_tokens=1)
    async with running(engine_of(model)) as worker:
        masses = (await worker.first_token_logprobs(question, groups)).logprobs

    logprobs = next_logprobs(model, tokenizer("Hello").input_ids)
    first = {char: tokenizer(char, add_special_tokens=False).input_ids[0] for char in "TFx "}
    # A blank begins spellings of the first two groups, so it tells them apart in neither; "b"
    # likewise.
    either = torch.logaddexp(logprobs[first["F"]], logprobs[first["x"]])
    assert masses[0] == pytest.approx(float(logprobs[first["T"]]), abs=1e-4)
    assert masses[1] == pytest.approx(float(either), abs=1e-4)
    assert masses[2:] == (None, None)


async def test_every_eos_id_of_the_model_stops_and_counts():
    model = random_model("llama")
    async with running(engine_of(model)) as worker:
        free = (await worker.generate(request_for("Hello", num_samples=1))).answer
    stopper = free.token_ids[5]
    model.generation_config.eos_token_id = [1, stopper]
    async with running(engine_of(model)) as worker:
        answer = (await worker.generate(request_for("Hello", num_samples=1))).answer

    first = free.token_ids.index(stopper)
    assert answer.token_ids == free.token_ids[: first + 1]
    assert answer.finish_reason == "stop"
    assert answer.token_logprobs[-1] == pytest.approx(free.token_logprobs[first], abs=1e-5)
    assert answer.text == byte_tokenizer().decode(free.token_ids[:first], skip_special_tokens=True)


async def test_an_answer_that_ends_at_once_has_its_eos_as_only_token():
    model = random_model("llama")
    async with running(engine_of(model)) as worker:
        first = (await worker.generate(request_for("Hello", num_samples=1))).answer.token_ids[0]
    model.generation_config.eos_token_id = first
    async with running(engine_of(model)) as worker:
        answer = (await worker.generate(request_for("Hello", num_samples=1))).answer

    assert (answer.text, answer.token_ids, len(answer.token_logprobs)) == ("", (first,), 1)


async def test_bos_is_added_once_even_where_the_prompt_spells_it_out():
    async with running(engine_of(random_model("llama"))) as worker:
        plain = await worker.generate(request_for("Hello"))
        spelt = await worker.generate(request_for("<s>Hello"))

    assert plain.prompt_tokens == spelt.prompt_tokens == 6
    assert plain.answer.token_ids == spelt.answer.token_ids


async def test_messages_take_the_template_its_variables_and_nothing_more():
    messages = ({"role": "user", "content": "Hello"},)
    async with running(engine_of(random_model("llama"))) as worker:
        base = replace(request_for(None), prompt=None, messages=messages)
        chat = await worker.generate(base)
        raw = await worker.generate(request_for("[user]Hello[assistant]"))
        tagged = await worker.generate(replace(base, chat_template_kwargs={"tag": "helper"}))
        renamed = await worker.generate(request_for("[user]Hello[helper]"))

    assert chat.prompt_tokens == raw.prompt_tokens
    assert chat.answer.token_ids == raw.answer.token_ids
    assert tagged.answer.token_ids == renamed.answer.token_ids


RESERVED = ["chat_template", "tokenize", "messages", "conversation", "bos_token", "eos_token"]


@pytest.mark.parametrize("name", RESERVED)
async def test_template_variables_cannot_replace_the_rendering(name):
    request = replace(
        request_for(None),
        messages=({"role": "user", "content": "x"},),
        chat_template_kwargs={name: "x"},
    )
    async with running(engine_of(random_model("llama"))) as worker:
        with pytest.raises(InvalidRequest) as error:
            await worker.generate(request)

    assert error.value.field == "chat_template_kwargs"


async def test_messages_for_a_model_without_template_are_refused():
    request = replace(request_for(None), messages=({"role": "user", "content": "x"},))
    tokenizer = byte_tokenizer(chat_template=None)
    async with running(engine_of(random_model("llama"), tokenizer)) as worker:
        with pytest.raises(ChatTemplateError, match="no chat template"):
            await worker.generate(request)


async def test_a_refusing_template_is_quoted_only_in_its_own_words():
    quoting = CHAT_TEMPLATE.replace("'no tools here'", "'no ' + m.content")
    request = replace(request_for(None), messages=({"role": "tool", "content": "secret"},))
    messages = {CHAT_TEMPLATE: "no tools here", quoting: "the model's chat template refused"}
    for template, message in messages.items():
        tokenizer = byte_tokenizer(chat_template=template)
        async with running(engine_of(random_model("llama"), tokenizer)) as worker:
            with pytest.raises(ChatTemplateError, match=message) as error:
                await worker.generate(request)
        assert "secret" not in error.value.message


async def test_a_request_that_alone_exceeds_the_cache_is_refused():
    async with running(engine_of(random_model("llama"), max_cache_tokens=100)) as worker:
        with pytest.raises(PromptTooLong, match="max_cache_tokens holds 100"):
            await worker.generate(request_for("Hello", max_new_tokens=120))
        assert (await worker.generate(request_for("Hello", max_new_tokens=90))).answer
        default = await worker.generate(request_for("Hello", max_new_tokens=None))
        assert (worker.info.max_context_tokens, default.warnings) == (
            100,
            ("max_new_tokens_clamped",),
        )


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


class Fault:
    """Raises `error` in the model's forward pass where `when(input_ids)` holds."""

    def __init__(self, model, error, when):
        self.armed = True

        def hook(_, args, kwargs):
            if self.armed and when(kwargs["input_ids"]):
                raise error

        model.register_forward_pre_hook(hook, with_kwargs=True)


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


async def test_a_lost_device_ends_the_loop_and_fails_every_waiter():
    model = random_model("llama")
    Fault(model, ModelLost("device"), lambda ids: ids.shape[1] == 1)
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


async def test_a_step_that_hangs_says_since_when_and_its_waiters_end_with_the_loop():
    model = random_model("llama")
    go_on = threading.Event()
    model.register_forward_pre_hook(lambda *_: go_on.wait(60) and None)
    worker = worker_of(engine_of(model))
    loop = asyncio.create_task(worker.run())
    requests = map(request_for, PROMPTS)
    waiting = asyncio.create_task(generated(worker, requests, return_exceptions=True))
    await until(lambda: worker.busy_since is not None and len(worker._waiters) == len(PROMPTS))
    assert worker.busy_since <= time.monotonic()
    loop.cancel()
    errors = await waiting
    assert {type(error) for error in errors} == {NotReady}
    go_on.set()
    await worker.close()


async def test_cancelling_frees_the_rows_by_the_next_step():
    steps, decoding = [], asyncio.Event()

    def on_step(num_rows):
        steps.append(num_rows)
        if num_rows:
            decoding.set()

    model = random_model("llama")
    model.generation_config.eos_token_id = 2
    request = request_for("Long", num_samples=10, max_new_tokens=400)
    async with running(engine_of(model), on_step) as worker:
        long = asyncio.create_task(worker.generate(request))
        await decoding.wait()
        long.cancel()
        already = len(steps)
        await worker.generate(request_for("Short", num_samples=1, max_new_tokens=4))

    # One step may have been under way when the request was cancelled.
    assert max(steps) == 11
    assert max(steps[already + 1 :]) <= 2


async def test_a_deadline_ends_a_request_in_the_middle_of_decoding():
    model = random_model("llama")
    model.generation_config.eos_token_id = 2
    long = request_for("Long", num_samples=20, max_new_tokens=500)
    async with running(engine_of(model)) as worker:
        with pytest.raises(TimeoutError):  # the caller's
            async with asyncio.timeout(0.1):
                await worker.generate(long)
        with pytest.raises(DeadlineExceeded):  # the request's own
            await worker.generate(replace(long, timeout_s=0.1))
        assert (await worker.generate(request_for("Short", max_new_tokens=4))).samples
        await until(lambda: worker._engine.is_idle)


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


async def test_token_texts_join_to_the_text_even_where_a_character_takes_several_tokens():
    request = request_for("Hello", answer=GivenAnswer("über 5 €!"))
    async with running(engine_of(random_model("llama"))) as worker:
        generation = await worker.generate(request)

    texts = generation.answer.token_texts
    assert "".join(texts) == generation.answer.text == "über 5 €!"
    assert texts[:2] == ("", "ü")
    assert texts[-1] == ""
    assert len(texts) == generation.answer.num_tokens == len("über 5 €!".encode()) + 1


def test_token_texts_of_replacement_characters_take_linear_time():
    tokenizer = byte_tokenizer()
    detokenizer, decoded = Detokenizer(tokenizer, frozenset()), []
    text = "\ufffd" * 400 + "é\ufffd"
    token_ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    decode = detokenizer.text

    def counting(ids):
        decoded.append(len(ids))
        return decode(ids)

    detokenizer.text = counting
    texts = detokenizer.token_texts(token_ids)
    assert "".join(texts) == text
    assert sum(decoded) < 50 * len(token_ids)


def identity_of(model=None, tokenizer=None, **options):
    return worker_of(engine_of(model or random_model("llama"), tokenizer, **options)).info.identity


def with_other_eos():
    model = random_model("llama")
    model.generation_config.eos_token_id = 2
    return model


def with_another_token():
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens(["Paris"])
    return tokenizer


def test_two_engines_over_the_same_model_have_the_same_identity():
    assert identity_of() == identity_of() != ""
    assert identity_of() == identity_of(max_rows=3, max_cache_tokens=300), "no answer depends on it"


# id: what makes an engine that is not the tiny one
OTHERS = {
    "model": lambda: {"model_id": "other"},
    "revision": lambda: {"revision": "2"},
    "dtype": lambda: {"model": random_model("llama").bfloat16()},
    "terminating tokens": lambda: {"model": with_other_eos()},
    "tokenizer": lambda: {"tokenizer": with_another_token()},
    "chat template": lambda: {"tokenizer": byte_tokenizer(chat_template="{{ messages }}")},
    "no chat template": lambda: {"tokenizer": byte_tokenizer(chat_template=None)},
}


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
def test_whatever_decides_an_answer_is_in_the_identity(changes):
    assert identity_of(**changes()) != identity_of()


def test_a_model_without_commit_or_folder_has_its_revision_from_its_weights():
    revision = revision_of(random_model("llama"), "org/model")

    assert revision == revision_of(random_model("llama"), "elsewhere") != ""
    others = [random_model("llama", seed=1), random_model("qwen2"), random_model("llama").half()]
    assert len({revision, *(revision_of(other, "org/model") for other in others)}) == 4


def test_a_commit_names_the_weights_where_there_is_one():
    model = SimpleNamespace(config=SimpleNamespace(_commit_hash="abc"))
    assert revision_of(model, "org/model") == "abc"


def test_a_folder_has_its_revision_from_its_weight_files_wherever_it_lies(tmp_path):
    model = random_model("llama")
    for name in ("one", "copy"):
        model.save_pretrained(tmp_path / name)
    random_model("llama", seed=1).save_pretrained(tmp_path / "other")
    one, copy, other = [revision_of(model, str(tmp_path / n)) for n in ("one", "copy", "other")]

    assert one == copy != other


async def test_of_two_forms_of_a_given_answer_the_likelier_one_is_taken(monkeypatch):
    answers = {text: GivenAnswer(text) for text in ("Paris", " Paris")}
    async with running(engine_of(random_model("llama"))) as worker:

        async def scored(text):
            request = request_for("Hello", answer=answers[text], num_samples=0)
            generation = await worker.generate(request)
            return generation.answer_form, generation.answer.token_logprobs.sum()

        form, likelihood = await scored("Paris")
        _, led = await scored(" Paris")
        only_literal = {"literal": (*byte_tokenizer().encode("Paris")[1:], 1)}
        monkeypatch.setattr(transformers, "encode_answer_forms", lambda *_: only_literal)
        _, literal = await scored("Paris")

    assert likelihood == pytest.approx(max(led, literal), abs=1e-4)
    assert form == ("blank_led" if led > literal else "literal")


async def test_a_stripped_answer_of_the_embedded_model_is_as_likely_as_the_model_would_write_it():
    engine = TransformersEngine.load(EngineConfig())
    async with running(engine) as worker:

        async def scored(text):
            request = request_for(PROMPTS[1], answer=GivenAnswer(text), num_samples=0)
            return await worker.generate(request)

        led, stripped = await scored(" Paris"), await scored("Paris")

    assert (led.answer_form, stripped.answer_form) == ("literal", "blank_led")
    assert stripped.answer.text == stripped.answer.compared_text == "Paris"
    likelihood = np.exp(stripped.answer.token_logprobs.sum())
    assert likelihood == pytest.approx(np.exp(led.answer.token_logprobs.sum()), abs=1e-4)
    assert likelihood > 0.5


async def test_an_answer_that_cannot_be_scored_fails_its_own_request_only(monkeypatch):
    score = RowCache.score

    def failing(cache, prefix, answer_ids, **options):
        if len(answer_ids) == 3:
            raise RuntimeError("secret")
        return score(cache, prefix, answer_ids, **options)

    monkeypatch.setattr(RowCache, "score", failing)
    async with running(engine_of(random_model("llama"))) as worker:
        long = asyncio.create_task(worker.generate(request_for("Hello", max_new_tokens=200)))
        await until(lambda: worker._engine._batch._rows)
        with pytest.raises(EngineError, match="scoring the answer failed: RuntimeError") as error:
            await worker.generate(request_for("Hello", answer=GivenAnswer(" a")))
        fine = await worker.generate(request_for("Hello", answer=GivenAnswer(" four")))

        assert (await long).samples
        assert fine.answer.num_tokens == 6
        assert "secret" not in error.value.message
