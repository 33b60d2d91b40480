"""The in-process engine against Hugging Face's own `generate` and teacher forcing.

Requests run alone and joined; the engine's faults are tested too.
"""

import asyncio
import threading
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.errors import (
    ChatTemplateError,
    EngineError,
    InvalidLogits,
    InvalidRequest,
    ModelLost,
    NotReady,
    PromptTooLong,
)
from models.records import ANSWER_STATISTICS, SAMPLE_STATISTICS, GenerationRequest, SamplingParams
from tests.tiny_models import CHAT_TEMPLATE, byte_tokenizer, random_model

pytestmark = pytest.mark.anyio

ALL = ANSWER_STATISTICS | SAMPLE_STATISTICS
ARCHITECTURES = ["llama", "gpt2", "qwen2", "sliding"]
PROMPTS = [
    "Hi",
    "What is the capital of France?",
    "12 + 30 =",
    "A prompt that is a good deal longer than the others, é",
]


def engine_of(model, tokenizer=None, on_step=lambda rows: None, **config):
    config = EngineConfig(threads=1, **config)
    return TransformersEngine(
        model, tokenizer or byte_tokenizer(), config, model_id="tiny", on_step=on_step
    )


@asynccontextmanager
async def running(engine):
    loop = asyncio.create_task(engine.run())
    try:
        yield engine
    finally:
        await engine.close()
        await asyncio.gather(loop, return_exceptions=True)


def request_for(prompt, *, max_new_tokens=24, num_samples=4, seed=1, statistics=ALL, **kwargs):
    sampling = SamplingParams(num_samples=num_samples, max_new_tokens=max_new_tokens, seed=seed)
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


def sequences(generation):
    return (generation.answer, *generation.samples)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
async def test_the_answer_is_what_greedy_generate_gives(architecture):
    model, tokenizer = random_model(architecture), byte_tokenizer()
    async with running(engine_of(model)) as engine:
        generations = await asyncio.gather(
            *[engine.generate(request_for(prompt)) for prompt in PROMPTS]
        )

    for prompt, generation in zip(PROMPTS, generations, strict=True):
        inputs = tokenizer(prompt, return_tensors="pt")
        reference = model.generate(**inputs, do_sample=False, max_new_tokens=24)[
            0, inputs.input_ids.shape[1] :
        ]
        assert list(generation.answer.token_ids) == reference.tolist()
        assert generation.answer.text == tokenizer.decode(reference, skip_special_tokens=True)


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "hybrid"])
async def test_log_probs_and_entropies_equal_a_teacher_forced_pass(architecture):
    model, tokenizer = random_model(architecture), byte_tokenizer()
    async with running(engine_of(model)) as engine:
        generations = await asyncio.gather(
            *[engine.generate(request_for(prompt)) for prompt in PROMPTS]
        )

    for prompt, generation in zip(PROMPTS, generations, strict=True):
        for sequence in sequences(generation):
            logprobs, entropies = teacher_forced(
                model, tokenizer(prompt).input_ids, sequence.token_ids
            )
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
    requests = [
        request_for(prompt, max_new_tokens=8 + 8 * i, seed=i) for i, prompt in enumerate(PROMPTS)
    ]
    async with running(engine_of(model)) as engine:
        alone = [await engine.generate(request) for request in requests]

    async def staggered(engine, i):
        for _ in range(3 * i):
            await asyncio.sleep(0.001)
        return await engine.generate(requests[i])

    async with running(engine_of(model, **limits)) as engine:
        joined = await asyncio.gather(*[staggered(engine, i) for i in range(len(requests))])

    for prompt, one, other in zip(PROMPTS, alone, joined, strict=True):
        for a, b in zip(sequences(one), sequences(other), strict=True):
            common = next(
                (
                    i
                    for i, (x, y) in enumerate(zip(a.token_ids, b.token_ids, strict=False))
                    if x != y
                ),
                len(a.token_ids),
            )
            np.testing.assert_allclose(
                a.token_logprobs[:common], b.token_logprobs[:common], atol=1e-4
            )
            if common < len(
                a.token_ids
            ):  # allowed only where the two best tokens are as good as tied
                prompt_ids = tokenizer(prompt).input_ids
                with torch.inference_mode():
                    logits = model(torch.tensor([prompt_ids + list(a.token_ids[:common])])).logits[
                        0, -1
                    ]
                best = logits.log_softmax(-1).topk(2).values
                assert best[0] - best[1] < 1e-3


async def test_one_prefill_a_prompt_and_rows_with_the_same_tokens_share_a_cache_row():
    model = random_model("llama")
    shapes = []

    def record(_, args, kwargs):
        shapes.append(tuple(kwargs["input_ids"].shape))

    model.register_forward_pre_hook(record, with_kwargs=True)
    async with running(engine_of(model)) as engine:
        generation = await engine.generate(request_for("Hello", num_samples=10, max_new_tokens=6))

    prefills, steps = [s for s in shapes if s[1] > 1], [s for s in shapes if s[1] == 1]
    assert prefills == [(1, 6)]
    texts = [sequence.token_ids for sequence in sequences(generation)]
    for t, (num_cache_rows, _) in enumerate(steps, start=1):
        unfinished = {ids[:t] for ids in texts if len(ids) > t}
        assert num_cache_rows == len(unfinished)


async def test_rows_never_exceed_the_limits_and_everyone_progresses():
    steps = []
    async with running(
        engine_of(random_model("llama"), on_step=steps.append, max_rows=11)
    ) as engine:
        many = [
            engine.generate(request_for(prompt * 2, num_samples=10, seed=i))
            for i, prompt in enumerate(PROMPTS * 2)
        ]
        one = engine.generate(request_for("one", num_samples=1))
        generations = await asyncio.gather(*many, one)

    assert max(steps) <= 11
    assert steps[-1] == 0
    assert [len(generation.samples) for generation in generations] == [10] * 8 + [1]


@pytest.mark.parametrize("architecture", ["llama", "sliding", "hybrid"])
@pytest.mark.parametrize(
    "num_tokens", [1, 5, 150], ids=["one token", "short", "longer than a chunk"]
)
async def test_a_given_answer_scores_like_teacher_forcing(architecture, num_tokens):
    model, tokenizer = random_model(architecture), byte_tokenizer()
    answer = tuple(3 + i * 7 % 250 for i in range(num_tokens))
    async with running(engine_of(model)) as engine:
        whole, generation = await asyncio.gather(
            engine.generate(request_for("Hello")),
            engine.generate(request_for("Hello", answer_ids=answer)),
        )

    logprobs, entropies = teacher_forced(model, tokenizer("Hello").input_ids, answer)
    np.testing.assert_allclose(generation.answer.token_logprobs, logprobs, atol=1e-4)
    np.testing.assert_allclose(generation.answer.token_entropies, entropies, atol=1e-4)
    assert [s.token_ids for s in generation.samples] == [s.token_ids for s in whole.samples]


@pytest.mark.parametrize("architecture", ["llama", "hybrid"])
async def test_first_token_mass_equals_the_softmax_after_the_prompt(architecture):
    model, tokenizer = random_model(architecture), byte_tokenizer()
    groups = [["True", " True", "T"], ["False", "xyz", " no"], ["both", "blank"], ["bee"]]
    async with running(engine_of(model)) as engine:
        masses = await engine.first_token_logprobs(
            request_for("Hello", num_samples=0, max_new_tokens=1), groups
        )

    with torch.inference_mode():
        logprobs = model(torch.tensor([tokenizer("Hello").input_ids])).logits[0, -1].log_softmax(-1)
    first = {char: tokenizer(char, add_special_tokens=False).input_ids[0] for char in "TFx "}
    # A blank begins spellings of the first two groups, so it tells them apart in neither; "b"
    # likewise.
    assert masses[0] == pytest.approx(float(logprobs[first["T"]]), abs=1e-4)
    assert masses[1] == pytest.approx(
        float(torch.logaddexp(logprobs[first["F"]], logprobs[first["x"]])), abs=1e-4
    )
    assert masses[2:] == [None, None]


async def test_every_eos_id_of_the_model_stops_and_counts():
    model = random_model("llama")
    async with running(engine_of(model)) as engine:
        free = (await engine.generate(request_for("Hello", num_samples=1))).answer
    stopper = free.token_ids[5]
    model.generation_config.eos_token_id = [1, stopper]
    async with running(engine_of(model)) as engine:
        answer = (await engine.generate(request_for("Hello", num_samples=1))).answer

    first = free.token_ids.index(stopper)
    assert answer.token_ids == free.token_ids[: first + 1]
    assert answer.finish_reason == "stop"
    assert answer.token_logprobs[-1] == pytest.approx(free.token_logprobs[first], abs=1e-5)
    assert answer.text == byte_tokenizer().decode(free.token_ids[:first], skip_special_tokens=True)


async def test_an_answer_that_ends_at_once_has_its_eos_as_only_token():
    model = random_model("llama")
    async with running(engine_of(model)) as engine:
        first = (await engine.generate(request_for("Hello", num_samples=1))).answer.token_ids[0]
    model.generation_config.eos_token_id = first
    async with running(engine_of(model)) as engine:
        answer = (await engine.generate(request_for("Hello", num_samples=1))).answer

    assert (answer.text, answer.token_ids, len(answer.token_logprobs)) == ("", (first,), 1)


async def test_bos_is_added_once_even_where_the_prompt_spells_it_out():
    async with running(engine_of(random_model("llama"))) as engine:
        plain, spelt = [
            await engine.generate(request_for(prompt)) for prompt in ("Hello", "<s>Hello")
        ]

    assert plain.prompt_tokens == spelt.prompt_tokens == 6
    assert plain.answer.token_ids == spelt.answer.token_ids


async def test_messages_take_the_template_its_variables_and_nothing_more():
    messages = ({"role": "user", "content": "Hello"},)
    async with running(engine_of(random_model("llama"))) as engine:
        base = replace(request_for(None), prompt=None, messages=messages)
        chat = await engine.generate(base)
        raw = await engine.generate(request_for("[user]Hello[assistant]"))
        tagged = await engine.generate(replace(base, chat_template_kwargs={"tag": "helper"}))
        renamed = await engine.generate(request_for("[user]Hello[helper]"))

    assert chat.prompt_tokens == raw.prompt_tokens
    assert chat.answer.token_ids == raw.answer.token_ids
    assert tagged.answer.token_ids == renamed.answer.token_ids


@pytest.mark.parametrize("name", ["chat_template", "tokenize", "messages", "conversation"])
async def test_template_variables_cannot_replace_the_rendering(name):
    request = replace(
        request_for(None),
        messages=({"role": "user", "content": "x"},),
        chat_template_kwargs={name: "x"},
    )
    async with running(engine_of(random_model("llama"))) as engine:
        with pytest.raises(InvalidRequest) as error:
            await engine.generate(request)

    assert error.value.field == "chat_template_kwargs"


async def test_messages_for_a_model_without_template_are_refused():
    request = replace(request_for(None), messages=({"role": "user", "content": "x"},))
    async with running(
        engine_of(random_model("llama"), byte_tokenizer(chat_template=None))
    ) as engine:
        with pytest.raises(ChatTemplateError, match="no chat template"):
            await engine.generate(request)


async def test_a_refusing_template_is_quoted_only_in_its_own_words():
    quoting = CHAT_TEMPLATE.replace("'no tools here'", "'no ' + m.content")
    request = replace(request_for(None), messages=({"role": "tool", "content": "secret"},))
    for template, message in (
        (CHAT_TEMPLATE, "no tools here"),
        (quoting, "the model's chat template refused"),
    ):
        async with running(
            engine_of(random_model("llama"), byte_tokenizer(chat_template=template))
        ) as engine:
            with pytest.raises(ChatTemplateError, match=message) as error:
                await engine.generate(request)
        assert "secret" not in error.value.message


async def test_a_request_that_alone_exceeds_the_cache_is_refused():
    async with running(engine_of(random_model("llama"), max_cache_tokens=100)) as engine:
        with pytest.raises(PromptTooLong, match="max_cache_tokens holds 100"):
            await engine.generate(request_for("Hello", max_new_tokens=120))
        assert (await engine.generate(request_for("Hello", max_new_tokens=90))).answer


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
    async with running(engine_of(model)) as engine:
        good, bad = await asyncio.gather(
            engine.generate(request_for("Hello", num_samples=1, max_new_tokens=4)),
            engine.generate(request_for("~", num_samples=1, max_new_tokens=4)),
            return_exceptions=True,
        )
        again = await engine.generate(request_for("Hello", num_samples=1, max_new_tokens=4))
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
    async with running(engine_of(model)) as engine:
        failed = await asyncio.gather(
            *[engine.generate(request_for(prompt)) for prompt in PROMPTS], return_exceptions=True
        )
        fault.armed = False
        assert (await engine.generate(request_for("Hello"))).samples

    assert [type(error) for error in failed] == [EngineError] * len(PROMPTS)


async def test_a_prefill_that_raises_fails_its_request_only():
    model, tokenizer = random_model("llama"), byte_tokenizer()
    bad_token = tokenizer("~").input_ids[-1]
    Fault(
        model,
        RuntimeError("broken"),
        lambda ids: ids.shape[1] > 1 and bool((ids == bad_token).any()),
    )
    async with running(engine_of(model)) as engine:
        good, bad, other = await asyncio.gather(
            *[engine.generate(request_for(prompt)) for prompt in ("Hello", "~bad", "World")],
            return_exceptions=True,
        )

    assert isinstance(bad, EngineError)
    assert good.samples
    assert other.samples


async def test_a_lost_device_ends_the_loop_and_fails_every_waiter():
    model = random_model("llama")
    Fault(model, ModelLost("device"), lambda ids: ids.shape[1] == 1)
    engine = engine_of(model, max_rows=11)
    loop = asyncio.create_task(engine.run())
    failed = await asyncio.gather(
        *[engine.generate(request_for("Hi", num_samples=10)) for _ in range(3)],
        return_exceptions=True,
    )

    with pytest.raises(ModelLost):
        await loop
    assert all(isinstance(error, EngineError | NotReady) for error in failed)
    with pytest.raises(NotReady):
        await engine.generate(request_for("Hello"))
    await engine.close()


async def test_a_step_that_hangs_says_since_when_and_its_waiters_end_with_the_loop():
    model = random_model("llama")
    go_on = threading.Event()
    model.register_forward_pre_hook(lambda *_: go_on.wait(60) and None)
    engine = engine_of(model)
    loop = asyncio.create_task(engine.run())
    waiting = [asyncio.create_task(engine.generate(request_for(prompt))) for prompt in PROMPTS]
    async with asyncio.timeout(30):
        while engine.busy_since is None or len(engine._waiters) < len(PROMPTS):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert engine.busy_since <= time.monotonic()
    loop.cancel()
    errors = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(error) for error in errors} == {NotReady}
    go_on.set()
    await engine.close()


async def test_cancelling_frees_the_rows_by_the_next_step():
    steps, decoding = [], asyncio.Event()

    def on_step(num_rows):
        steps.append(num_rows)
        if num_rows:
            decoding.set()

    model = random_model("llama")
    model.generation_config.eos_token_id = 2
    async with running(engine_of(model, on_step=on_step)) as engine:
        long = asyncio.create_task(
            engine.generate(request_for("Long", num_samples=10, max_new_tokens=400))
        )
        await decoding.wait()
        long.cancel()
        already = len(steps)
        await engine.generate(request_for("Short", num_samples=1, max_new_tokens=4))

    # One step may have been under way when the request was cancelled.
    assert max(steps) == 11
    assert max(steps[already + 1 :]) <= 2


async def test_a_deadline_ends_a_request_in_the_middle_of_decoding():
    model = random_model("llama")
    model.generation_config.eos_token_id = 2
    async with running(engine_of(model)) as engine:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await engine.generate(request_for("Long", num_samples=20, max_new_tokens=500))
        assert (await engine.generate(request_for("Short", max_new_tokens=4))).samples


async def test_a_callback_that_raises_fails_its_own_request_only():
    def bad(piece):
        raise ValueError("callback")

    async with running(engine_of(random_model("llama"))) as engine:
        failed, fine = await asyncio.gather(
            engine.generate(request_for("Hello"), bad),
            engine.generate(request_for("World")),
            return_exceptions=True,
        )

    assert isinstance(failed, ValueError)
    assert fine.samples


async def test_token_texts_join_to_the_text_even_where_a_character_takes_several_tokens():
    tokenizer = byte_tokenizer()
    answer = (*tokenizer("über 5 €!", add_special_tokens=False).input_ids, 1)
    async with running(engine_of(random_model("llama"))) as engine:
        generation = await engine.generate(request_for("Hello", answer_ids=answer))

    texts = generation.answer.token_texts
    assert "".join(texts) == generation.answer.text == "über 5 €!"
    assert texts[:2] == ("", "ü")
    assert texts[-1] == ""
    assert len(texts) == len(answer)


class ScriptedTokenizer:
    """A byte tokenizer whose decoder says `text` for every generated sequence.

    It serves to test what reads texts.
    """

    def __init__(self, text):
        self._tokenizer = byte_tokenizer()
        self._text = text

    def __getattr__(self, name):
        return getattr(self._tokenizer, name)

    def __call__(self, *args, **kwargs):
        return self._tokenizer(*args, **kwargs)

    def decode(self, ids, **kwargs):
        return self._text


async def test_reasoning_is_left_out_of_compared_text_and_flagged():
    tokenizer = ScriptedTokenizer("<think>so\nmany words</think>\n\nParis ")
    async with running(engine_of(random_model("llama"), tokenizer)) as engine:
        generation = await engine.generate(request_for("Hello", max_new_tokens=3))

    assert generation.answer.compared_text == "Paris"
    assert generation.answer.text.startswith("<think>")
    assert generation.warnings == ("reasoning_excluded",)
