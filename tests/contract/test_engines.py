"""The contract of `models.engines.protocol.Engine`, on every engine of ENGINES.

An engine is tried behind the worker that owns it, which is how everybody else meets it: the suite
is that of `workers.protocol.Generator`, too.
"""

import asyncio
from bisect import bisect_left
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from models.engines import ENGINES
from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.errors import (
    ChatTemplateError,
    DeadlineExceeded,
    InvalidRequest,
    NotReady,
    PromptTooLong,
)
from models.probes.protocol import ProbeConfig
from models.records import GenerationRequest, GivenAnswer, SamplingParams
from models.statistics import supplied_by
from models.waves import num_taken
from tests.contract.thirty import ThirtyLines
from tests.openai_server import encode, openai_server
from tests.tiny_models import byte_tokenizer, random_model
from tests.worker_servers import remote_generator
from workers.config import GeneratorConfig
from workers.generation import GenerationWorker
from workers.hooks import Hooks
from workers.loading import resolve
from workers.openai.generator import connect_generator

pytestmark = pytest.mark.anyio

REQUEST = GenerationRequest(
    prompt="What is the capital of France?",
    sampling=SamplingParams(num_samples=4, max_new_tokens=12, seed=7),
    statistics=supplied_by("answer", "samples"),
)
FIRST_TOKEN = replace(REQUEST, sampling=SamplingParams(num_samples=0, max_new_tokens=1))
GROUPS = [["True", " True"], ["False", " False"], []]


def tiny(architecture):
    def build():
        model = random_model(architecture)
        config = EngineConfig()
        return TransformersEngine(model, byte_tokenizer(), config, model_id="tiny", revision="1")

    return build


def loaded(name):
    return lambda: resolve(ENGINES[name]).load(EngineConfig(engine=name))


# Every engine of the table, so that a new one cannot skip the suite; of the real one two further
# architectures; and one that is not in the table.
BUILDERS = {name: loaded(name) for name in ENGINES} | {
    "tiny llama": tiny("llama"),
    "tiny hybrid": tiny("hybrid"),
    "thirty lines": ThirtyLines,
}


@asynccontextmanager
async def running(build):
    """A generator over the engine, while its loop runs."""
    worker = GenerationWorker(build())
    loop = asyncio.create_task(worker.run())
    await asyncio.sleep(0)
    try:
        yield worker
    finally:
        await worker.close()
        await asyncio.gather(loop, return_exceptions=True)


def asked(generator, sampling=None, **changes):
    """REQUEST with changes, for as many of its statistics as the generator supplies."""
    request = replace(REQUEST, **changes)
    known = request.statistics & generator.info.statistics
    changed = replace(request.sampling, **(sampling or {}))
    return replace(request, statistics=known, sampling=changed)


def needs(generator, *statistics):
    """Skip a test of what the engine does not claim to supply."""
    if missing := set(statistics) - generator.info.statistics:
        pytest.skip(f"does not supply {', '.join(sorted(missing))}")


def needs_of_server(generator, **wanted):
    """Skip a test of what the server behind an adapter cannot do."""
    can = generator.info.capabilities
    for name, values in wanted.items():
        if can and can[name] not in values:
            pytest.skip(f"{name} is {can[name]}")


def samples_of(generation):
    return [(sample.text, sample.num_tokens, sample.token_ids) for sample in generation.samples]


# Those that are tried behind HTTP, too: one that streams while it computes, and one that does not.
REMOTE = {f"{name} over HTTP": BUILDERS[name] for name in ("fake", "tiny llama")}


# What existing servers may be like, all behind `workers.openai`; see `tests.openai_server`.
SERVERS = {
    "vLLM": {},
    "vLLM with its plugin": {"probes": ()},
    "an OpenAI-compatible server": {"tokenizes": False, "max_logprobs": 5},
    "one of chats without end": {
        "tokenizes": False,
        "completes": False,
        "draws_several": False,
        "shows_end": False,
    },
}


@asynccontextmanager
async def over_server(**traits):
    """A generator over a server that is like that."""
    async with openai_server(**traits) as server:
        servers = GeneratorConfig(url=server.url, api="openai").place()
        generator = await connect_generator(servers, Hooks(), ProbeConfig("", ""))
        loop = asyncio.create_task(generator.run())
        generator._engine = SimpleNamespace(prepare=lambda request: check_length(request, server))
        try:
            yield generator
        finally:
            await generator.close()
            await asyncio.gather(loop, return_exceptions=True)


def check_length(request, server):
    if len(encode(request.prompt)) >= server.context:
        raise PromptTooLong("in the test's own words")


@pytest.fixture(params=[*BUILDERS, *REMOTE, *SERVERS])
async def generator(request, anyio_backend):
    if request.param in SERVERS:
        async with over_server(**SERVERS[request.param]) as generator:
            yield generator
        return
    if request.param in BUILDERS:
        async with running(BUILDERS[request.param]) as worker:
            yield worker
        return
    async with running(REMOTE[request.param]) as worker, remote_generator(worker) as remote:
        remote._engine = worker._engine
        yield remote


async def test_an_answer_and_m_samples_carry_one_value_a_token(generator):
    request = asked(generator)
    generation = await generator.generate(request)

    assert len(generation.samples) == 4
    for role, sequence in (
        ("answer", generation.answer),
        *(("sample", sample) for sample in generation.samples),
    ):
        assert 1 <= sequence.num_tokens <= 12
        for kind in ("logprobs", "entropies", "texts"):
            values = getattr(sequence, f"token_{kind}")
            if f"{role}_token_{kind}" in request.statistics:
                assert len(values) == sequence.num_tokens
            else:
                assert values is None
        if sequence.token_logprobs is not None:
            assert (sequence.token_logprobs <= 1e-6).all()
        if sequence.token_entropies is not None:
            assert (sequence.token_entropies >= -1e-6).all()
        if sequence.token_ids is not None:
            assert len(sequence.token_ids) == sequence.num_tokens
        assert sequence.finish_reason == "stop" or sequence.num_tokens == 12
        assert sequence.compared_text == sequence.text.strip()
    assert generation.prompt_tokens > 0


async def test_a_reply_names_the_weights_that_spoke(generator):
    info = generator.info
    generation = await generator.generate(asked(generator))

    assert generation.identity == info.identity != ""
    assert (generation.model_id, generation.revision) == (info.model_id, info.revision)


@pytest.mark.parametrize(
    "statistics", [frozenset(), frozenset({"answer_token_logprobs"})], ids=["none", "log-probs"]
)
async def test_what_is_not_wanted_is_not_computed(generator, statistics):
    generation = await generator.generate(asked(generator, statistics=statistics))

    assert generation.samples == ()
    assert generation.answer.token_entropies is None
    assert generation.answer.token_texts is None
    assert (generation.answer.token_logprobs is not None) == bool(statistics)


async def test_samples_come_without_statistics_when_only_their_texts_are_wanted(generator):
    generation = await generator.generate(asked(generator, statistics=frozenset({"sample_texts"})))

    assert len(generation.samples) == 4
    for sample in generation.samples:
        assert sample.token_logprobs is None
        assert sample.token_entropies is None
    assert generation.answer.token_logprobs is None


async def test_a_seed_repeats_the_samples_whatever_runs_beside_them(generator):
    alone = await generator.generate(asked(generator))
    other = asked(generator, prompt="A different prompt", sampling={"seed": 8})
    joined, *_ = await asyncio.gather(
        generator.generate(asked(generator)), generator.generate(other), generator.generate(other)
    )

    assert alone.seed == joined.seed == 7
    assert samples_of(joined) == samples_of(alone)
    np.testing.assert_allclose(joined.answer.token_logprobs, alone.answer.token_logprobs, atol=1e-4)


async def test_a_sample_is_the_same_however_many_are_drawn_and_however_long(generator):
    request = asked(generator, sampling={"num_samples": 4, "max_new_tokens": 6})
    few = await generator.generate(request)
    many = await generator.generate(
        asked(generator, sampling={"num_samples": 9, "max_new_tokens": 12})
    )

    for one, longer in zip(few.samples, many.samples[:4], strict=True):
        if one.finish_reason == "stop":
            assert (one.text, one.num_tokens) == (longer.text, longer.num_tokens)
        else:
            assert longer.text.startswith(one.text.rstrip("\ufffd"))


@pytest.mark.parametrize("stop_mass", [1e-30, 0.6, 1.0])
async def test_waves_end_at_the_mass_and_draw_what_one_go_would_have_drawn(generator, stop_mass):
    whole = await generator.generate(asked(generator, sampling={"num_samples": 12}))
    request = asked(generator, sampling={"num_samples": 12, "stop_mass": stop_mass})
    in_waves, beside = await asyncio.gather(
        generator.generate(request), generator.generate(asked(generator))
    )

    num_samples = num_taken(request, whole)
    assert num_samples in (2, 5, 10, 12)
    assert stop_mass > 1e-30 or num_samples == 2
    assert samples_of(in_waves) == samples_of(whole)[:num_samples]
    assert samples_of(beside) == samples_of(whole)[:4]
    assert generator.num_waiting == 0


async def test_waves_go_without_the_answer_where_its_log_probs_are_not_wanted(generator):
    wanted = frozenset({"sample_texts", "sample_token_logprobs"})
    sampling = {"num_samples": 12, "stop_mass": 0.6}
    with_answer = await generator.generate(asked(generator, sampling=sampling))
    without = await generator.generate(asked(generator, sampling=sampling, statistics=wanted))

    assert len(without.samples) >= len(with_answer.samples)
    assert samples_of(with_answer) == samples_of(without)[: len(with_answer.samples)]


async def test_a_given_answer_counts_to_the_mass(generator):
    needs_of_server(generator, scoring_of_given_answers=("prompt_logprobs", "echo"))
    whole = (await generator.generate(asked(generator))).answer
    given = GivenAnswer(whole.text)
    sampling = {"num_samples": 12, "stop_mass": 1e-30}
    scored = await generator.generate(asked(generator, answer=given, sampling=sampling))

    assert scored.answer.finish_reason == "given"
    assert len(scored.samples) == 2


async def test_a_seed_that_was_drawn_comes_back_and_repeats_the_samples(generator):
    first = await generator.generate(asked(generator, sampling={"seed": None}))
    again = await generator.generate(asked(generator, sampling={"seed": first.seed}))

    assert samples_of(first) == samples_of(again)


async def test_the_answer_does_not_depend_on_seed_or_temperature(generator):
    one = await generator.generate(asked(generator))
    changed = {"seed": 99, "temperature": 0.3, "top_k": 3, "top_p": 0.5}
    two = await generator.generate(asked(generator, sampling=changed))

    assert (one.answer.text, one.answer.token_ids) == (two.answer.text, two.answer.token_ids)
    np.testing.assert_allclose(one.answer.token_logprobs, two.answer.token_logprobs, atol=1e-5)


async def test_max_new_tokens_cuts_and_says_so(generator):
    whole = (await generator.generate(asked(generator))).answer
    cut = (await generator.generate(asked(generator, sampling={"max_new_tokens": 1}))).answer

    assert cut.num_tokens == 1
    assert whole.text.startswith(cut.text)
    assert cut.finish_reason == ("length" if whole.num_tokens > 1 else "stop")


async def test_a_stop_string_ends_the_text_and_its_tokens_count(generator):
    whole = (await generator.generate(asked(generator))).answer
    stop = whole.text[2:4]
    generation = await generator.generate(asked(generator, sampling={"stop": (stop,)}))
    stopped = generation.answer

    assert stopped.text == whole.text[: whole.text.index(stop)]
    assert stopped.finish_reason == "stop"
    assert 1 <= stopped.num_tokens <= whole.num_tokens
    if whole.token_ids is not None:
        assert stopped.token_ids == whole.token_ids[: stopped.num_tokens]
    assert len(stopped.token_logprobs) == stopped.num_tokens
    assert all(stop not in sample.text for sample in generation.samples)


def values_of(values, num_tokens):
    """One value a token; None for what was not wanted."""
    return [None] * num_tokens if values is None else values.tolist()


@pytest.mark.parametrize("stop", [(), ("is", "\n")], ids=["to the end", "with stop strings"])
@pytest.mark.parametrize("streamed", [0, 1], ids=["answer", "first sample"])
@pytest.mark.parametrize(
    "statistics",
    [REQUEST.statistics, frozenset({"sample_texts"})],
    ids=["with statistics", "without"],
)
async def test_every_token_of_the_streamed_sequence_is_told_once_with_its_statistics(
    generator, stop, streamed, statistics
):
    tokens = []
    request = asked(generator, sampling={"stop": stop}, statistics=statistics, streamed=streamed)
    generation = await generator.generate(request, tokens.append)
    told = (generation.answer, *generation.samples)[streamed]

    assert "".join(token.text for token in tokens) == told.text
    if told.token_ids is None and told.token_logprobs is None:
        needs_of_server(
            generator, token_ids=(True,)
        )  # for who does not tell tokens, they are guessed
    assert len(tokens) == told.num_tokens
    logprobs = [token.logprob for token in tokens]
    entropies = [token.entropy for token in tokens]
    assert logprobs == values_of(told.token_logprobs, told.num_tokens)
    assert entropies == values_of(told.token_entropies, told.num_tokens)


async def test_a_given_answer_is_told_too(generator):
    needs_of_server(generator, scoring_of_given_answers=("prompt_logprobs", "echo"))
    tokens = []
    request = asked(generator, answer=GivenAnswer(" It is Rome."))
    generation = await generator.generate(request, tokens.append)

    assert "".join(token.text for token in tokens) == " It is Rome."
    assert len(tokens) == generation.answer.num_tokens


async def test_whoever_listens_changes_nothing(generator):
    listened = await generator.generate(asked(generator), [].append)
    alone = await generator.generate(asked(generator))

    assert listened.answer.text == alone.answer.text
    assert samples_of(listened) == samples_of(alone)


async def test_token_texts_join_to_the_answer(generator):
    needs(generator, "answer_token_texts")
    request = asked(generator, statistics=frozenset({"answer_token_texts", "sample_texts"}))
    generation = await generator.generate(request)

    assert "".join(generation.answer.token_texts) == generation.answer.text
    assert all(sample.token_texts is None for sample in generation.samples)


async def test_messages_are_answered_where_the_model_takes_any(generator):
    messages = ({"role": "user", "content": REQUEST.prompt},)
    try:
        chat = await generator.generate(asked(generator, prompt=None, messages=messages))
    except ChatTemplateError:
        pytest.skip("takes no messages")

    assert chat.prompt_tokens > 0
    assert len(chat.samples) == 4


async def test_messages_that_the_template_refuses_are_an_error_of_their_field(generator):
    messages = ({"role": "tool", "content": "secret"},)
    with pytest.raises(ChatTemplateError) as error:
        await generator.generate(asked(generator, prompt=None, messages=messages))

    assert error.value.field == "messages"
    assert "secret" not in error.value.message


@pytest.mark.parametrize(
    ("prompt", "max_new_tokens", "field"),
    [("word " * 3000, 8, "prompt"), ("word", 5000, "max_new_tokens")],
    ids=["prompt over the context", "new tokens over the context"],
)
async def test_what_does_not_fit_the_context_is_refused_with_both_lengths(
    generator, prompt, max_new_tokens, field
):
    sampling = {"max_new_tokens": max_new_tokens}
    with pytest.raises(PromptTooLong) as error:
        await generator.generate(asked(generator, prompt=prompt, sampling=sampling))

    assert error.value.field == field
    assert str(generator.info.max_context_tokens) in error.value.message
    assert isinstance(error.value, InvalidRequest)
    assert (await generator.generate(asked(generator))).samples


async def test_the_default_of_new_tokens_is_what_fits_beside_a_long_prompt_and_said_to_be(
    generator,
):
    needs_of_server(generator, token_ids=(True,))

    def is_too_long(num_words):
        try:
            generator._engine.prepare(long(num_words, 1))
        except PromptTooLong:
            return True
        return False

    def long(num_words, max_new_tokens):
        sampling = {"max_new_tokens": max_new_tokens, "num_samples": 1}
        return asked(generator, prompt="word " * num_words, sampling=sampling)

    lengths = range(1, 3000)
    longest = lengths[bisect_left(lengths, True, key=is_too_long) - 1]  # room for a word at most
    generation = await generator.generate(long(longest, None))

    assert generation.warnings == ("max_new_tokens_clamped",)
    for one in (generation.answer, *generation.samples):
        assert 1 <= one.num_tokens <= 8
    with pytest.raises(PromptTooLong) as error:
        await generator.generate(long(longest, 256))
    assert error.value.field == "max_new_tokens"


async def test_a_given_answer_is_scored_and_samples_still_come(generator):
    needs_of_server(generator, scoring_of_given_answers=("prompt_logprobs", "echo"))
    whole = await generator.generate(asked(generator))
    scored = await generator.generate(asked(generator, answer=GivenAnswer(" It is Rome.")))

    assert (scored.answer.text, scored.answer.finish_reason) == (" It is Rome.", "given")
    assert scored.answer.compared_text == "It is Rome."
    assert len(scored.answer.token_logprobs) == scored.answer.num_tokens > 0
    assert samples_of(scored) == samples_of(whole)


async def test_a_stripped_answer_is_scored_as_it_stands_or_as_the_same_one_after_a_blank(generator):
    needs_of_server(generator, scoring_of_given_answers=("prompt_logprobs", "echo"))
    led, stripped, after_blank = [
        await generator.generate(asked(generator, answer=GivenAnswer(text), prompt=prompt))
        for text, prompt in (
            (" It is Rome.", REQUEST.prompt),
            ("It is Rome.", REQUEST.prompt),
            ("It is Rome.", f"{REQUEST.prompt} "),
        )
    ]

    assert led.answer_form == after_blank.answer_form == "literal"
    assert stripped.answer.text == "It is Rome."
    if stripped.answer_form == "blank_led":
        assert stripped.answer.token_ids == led.answer.token_ids
        np.testing.assert_allclose(
            stripped.answer.token_logprobs, led.answer.token_logprobs, atol=1e-4
        )


async def test_the_end_of_a_given_answer_counts_where_it_ends(generator):
    needs_of_server(generator, scoring_of_given_answers=("prompt_logprobs",))
    ended = await generator.generate(asked(generator, answer=GivenAnswer(" Paris")))
    open_ended = await generator.generate(
        asked(generator, answer=GivenAnswer(" Paris", append_eos=False))
    )

    assert ended.answer.num_tokens == open_ended.answer.num_tokens + 1
    np.testing.assert_allclose(
        ended.answer.token_logprobs[:-1], open_ended.answer.token_logprobs, atol=1e-4
    )


async def test_a_given_empty_answer_has_no_tokens(generator):
    needs_of_server(generator, scoring_of_given_answers=("prompt_logprobs", "echo"))
    empty = GivenAnswer("", append_eos=False)
    scored = await generator.generate(asked(generator, answer=empty))

    assert scored.answer.num_tokens == 0
    assert scored.answer.token_logprobs.shape == (0,)


async def test_first_token_groups_share_at_most_the_whole_mass(generator):
    needs_of_server(generator, token_ids=(True,))
    needs(generator, "p_true_logprob")
    reply = await generator.first_token_logprobs(FIRST_TOKEN, GROUPS)
    true, false, empty = reply.logprobs

    assert np.exp(true) + np.exp(false) <= 1 + 1e-6
    assert empty is None
    assert reply.identity == generator.info.identity


async def test_a_question_that_does_not_fit_the_context_is_refused(generator):
    needs(generator, "p_true_logprob")
    with pytest.raises(PromptTooLong):
        await generator.first_token_logprobs(replace(FIRST_TOKEN, prompt="word " * 3000), GROUPS)


async def test_a_cancelled_request_leaves_the_others_alone(generator):
    task = asyncio.create_task(generator.generate(asked(generator, prompt="Somebody else")))
    await asyncio.sleep(0)
    task.cancel()
    generation = await generator.generate(asked(generator))

    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(generation.samples) == 4
    assert generator.num_waiting == 0


async def test_a_request_ends_at_its_own_deadline(generator):
    with pytest.raises(DeadlineExceeded):
        await generator.generate(asked(generator, timeout_s=1e-9))
    assert (await generator.generate(asked(generator, timeout_s=60.0))).samples


async def test_it_is_not_busy_before_and_after_its_work(generator):
    assert generator.busy_since is None
    await generator.generate(asked(generator))
    assert generator.busy_since is None


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
async def test_a_loop_that_is_cancelled_fails_who_comes_after(build):
    generator = GenerationWorker(build())
    loop = asyncio.create_task(generator.run())
    await generator.generate(asked(generator))
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
    with pytest.raises(NotReady):
        await generator.generate(asked(generator))
    await generator.close()


async def test_after_close_every_call_is_refused(generator):
    await generator.close()
    with pytest.raises(NotReady):
        await generator.generate(asked(generator))


async def test_hidden_layers_bring_one_mean_a_layer_that_samples_do_not_change(generator):
    if not generator.info.num_layers:
        pytest.skip("does not show its hidden states")
    light = {"statistics": frozenset({"answer_token_logprobs"}), "hidden_layers": (2, 1)}
    alone = await generator.generate(asked(generator, **light))
    with_samples = await generator.generate(asked(generator, hidden_layers=(2, 1)))
    reversed_layers = await generator.generate(
        asked(generator, **light | {"hidden_layers": (1, 2)})
    )

    assert alone.answer_hidden_mean.shape == (2, generator.info.hidden_size)
    size = np.abs(alone.answer_hidden_mean).max()
    for other in (with_samples.answer_hidden_mean, reversed_layers.answer_hidden_mean[::-1]):
        np.testing.assert_allclose(other, alone.answer_hidden_mean, atol=1e-5 * max(1.0, size))


async def test_a_layer_that_the_model_does_not_have_is_refused(generator):
    layer = generator.info.num_layers
    with pytest.raises(InvalidRequest):
        await generator.generate(asked(generator, hidden_layers=(layer,)))
