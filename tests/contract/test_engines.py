"""The contract of `models.engines.protocol.Engine`, on every implementation, the fake first."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest

from models.engines.fake import FakeEngine
from models.engines.protocol import EngineConfig
from models.engines.transformers import TransformersEngine
from models.errors import ChatTemplateError, InvalidRequest, NotReady, PromptTooLong
from models.records import ANSWER_STATISTICS, SAMPLE_STATISTICS, GenerationRequest, SamplingParams
from tests.tiny_models import byte_tokenizer, random_model

pytestmark = pytest.mark.anyio

ALL = ANSWER_STATISTICS | SAMPLE_STATISTICS
REQUEST = GenerationRequest(
    prompt="What is the capital of France?",
    sampling=SamplingParams(num_samples=4, max_new_tokens=12, seed=7),
    statistics=ALL,
)


def fake():
    return FakeEngine()


def transformers_engine(architecture):
    def build():
        return TransformersEngine(
            random_model(architecture), byte_tokenizer(), EngineConfig(threads=1), model_id="tiny"
        )

    return build


ENGINES = {
    "fake": fake,
    "transformers": transformers_engine("llama"),
    "transformers-hybrid": transformers_engine("hybrid"),
}


@asynccontextmanager
async def running(build):
    engine = build()
    loop = asyncio.create_task(engine.run())
    await asyncio.sleep(0)
    try:
        yield engine
    finally:
        await engine.close()
        await asyncio.gather(loop, return_exceptions=True)


@pytest.fixture(params=ENGINES.values(), ids=ENGINES)
def build(request):
    return request.param


async def test_an_answer_and_m_samples_carry_one_value_a_token(build):
    async with running(build) as engine:
        generation = await engine.generate(REQUEST)

    assert len(generation.samples) == 4
    for sequence in (generation.answer, *generation.samples):
        num_tokens = len(sequence.token_ids)
        assert 1 <= num_tokens <= 12
        assert sequence.token_logprobs.shape == sequence.token_entropies.shape == (num_tokens,)
        assert (sequence.token_logprobs <= 1e-6).all()
        assert (sequence.token_entropies >= -1e-6).all()
        assert sequence.finish_reason == ("stop" if num_tokens < 12 else sequence.finish_reason)
        assert sequence.compared_text == sequence.text.strip()
    assert generation.prompt_tokens > 0
    assert generation.model_id == engine.model_id


@pytest.mark.parametrize(
    "statistics", [frozenset(), frozenset({"answer_token_logprobs"})], ids=["none", "log-probs"]
)
async def test_what_is_not_wanted_is_not_computed(build, statistics):
    async with running(build) as engine:
        generation = await engine.generate(replace(REQUEST, statistics=statistics))

    assert generation.samples == ()
    assert generation.answer.token_entropies is None
    assert generation.answer.token_texts is None
    assert (generation.answer.token_logprobs is not None) == bool(statistics)


async def test_samples_come_without_statistics_when_only_their_texts_are_wanted(build):
    async with running(build) as engine:
        generation = await engine.generate(replace(REQUEST, statistics=frozenset({"sample_texts"})))

    assert len(generation.samples) == 4
    assert all(
        sample.token_logprobs is None and sample.token_entropies is None
        for sample in generation.samples
    )
    assert generation.answer.token_logprobs is None


async def test_a_seed_repeats_the_samples_whatever_runs_beside_them(build):
    async with running(build) as engine:
        alone = await engine.generate(REQUEST)
        other = replace(
            REQUEST, prompt="A different prompt", sampling=replace(REQUEST.sampling, seed=8)
        )
        joined, *_ = await asyncio.gather(
            *[engine.generate(request) for request in (REQUEST, other, other)]
        )

    assert alone.seed == joined.seed == 7
    assert [s.token_ids for s in joined.samples] == [s.token_ids for s in alone.samples]
    np.testing.assert_allclose(joined.answer.token_logprobs, alone.answer.token_logprobs, atol=1e-4)


async def test_a_seed_that_was_drawn_comes_back_and_repeats_the_samples(build):
    async with running(build) as engine:
        first = await engine.generate(
            replace(REQUEST, sampling=replace(REQUEST.sampling, seed=None))
        )
        again = await engine.generate(
            replace(REQUEST, sampling=replace(REQUEST.sampling, seed=first.seed))
        )

    assert [s.token_ids for s in first.samples] == [s.token_ids for s in again.samples]


async def test_the_answer_does_not_depend_on_seed_or_temperature(build):
    async with running(build) as engine:
        one = await engine.generate(REQUEST)
        two = await engine.generate(
            replace(
                REQUEST,
                sampling=replace(REQUEST.sampling, seed=99, temperature=0.3, top_k=3, top_p=0.5),
            )
        )

    assert one.answer.token_ids == two.answer.token_ids
    np.testing.assert_allclose(one.answer.token_logprobs, two.answer.token_logprobs, atol=1e-5)


async def test_max_new_tokens_cuts_and_says_so(build):
    async with running(build) as engine:
        whole = await engine.generate(REQUEST)
        cut = await engine.generate(
            replace(REQUEST, sampling=replace(REQUEST.sampling, max_new_tokens=1))
        )

    assert len(cut.answer.token_ids) == 1
    assert cut.answer.token_ids == whole.answer.token_ids[:1]
    assert cut.answer.finish_reason == ("length" if len(whole.answer.token_ids) > 1 else "stop")


async def test_a_stop_string_ends_the_text_and_its_tokens_count(build):
    async with running(build) as engine:
        whole = (await engine.generate(REQUEST)).answer
        stop = whole.text[2:4]
        stopped = await engine.generate(
            replace(REQUEST, sampling=replace(REQUEST.sampling, stop=(stop,)))
        )

    assert stopped.answer.text == whole.text[: whole.text.index(stop)]
    assert stopped.answer.finish_reason == "stop"
    assert stopped.answer.token_ids == whole.token_ids[: len(stopped.answer.token_ids)]
    assert len(stopped.answer.token_logprobs) == len(stopped.answer.token_ids)
    assert all(stop not in sample.text for sample in stopped.samples)


@pytest.mark.parametrize("stop", [(), ("is", "\n")], ids=["to the end", "with stop strings"])
async def test_streamed_pieces_join_to_the_text(build, stop):
    pieces = []
    async with running(build) as engine:
        request = replace(REQUEST, sampling=replace(REQUEST.sampling, stop=stop))
        generation = await engine.generate(request, pieces.append)

    assert "".join(pieces) == generation.answer.text


async def test_token_texts_come_with_the_answer_where_wanted(build):
    async with running(build) as engine:
        generation = await engine.generate(
            replace(REQUEST, statistics=frozenset({"answer_token_texts", "sample_texts"}))
        )

    assert len(generation.answer.token_texts) == len(generation.answer.token_ids)
    assert all(sample.token_texts is None for sample in generation.samples)


async def test_messages_are_answered_and_differ_from_the_raw_prompt(build):
    messages = ({"role": "user", "content": REQUEST.prompt},)
    async with running(build) as engine:
        chat = await engine.generate(replace(REQUEST, prompt=None, messages=messages))

    assert chat.prompt_tokens > 0
    assert len(chat.samples) == 4


async def test_messages_that_the_template_refuses_are_an_error_of_their_field(build):
    async with running(build) as engine:
        with pytest.raises(ChatTemplateError) as error:
            await engine.generate(
                replace(REQUEST, prompt=None, messages=({"role": "tool", "content": "secret"},))
            )

    assert error.value.field == "messages"
    assert "secret" not in error.value.message


@pytest.mark.parametrize(
    ("prompt", "max_new_tokens", "field"),
    [("word " * 3000, 8, "prompt"), ("word", 5000, "max_new_tokens")],
    ids=["prompt over the context", "new tokens over the context"],
)
async def test_what_does_not_fit_the_context_is_refused_with_both_lengths(
    build, prompt, max_new_tokens, field
):
    sampling = replace(REQUEST.sampling, max_new_tokens=max_new_tokens)
    async with running(build) as engine:
        with pytest.raises(PromptTooLong) as error:
            await engine.generate(replace(REQUEST, prompt=prompt, sampling=sampling))

        assert error.value.field == field
        assert str(engine.max_context_tokens) in error.value.message
        assert isinstance(error.value, InvalidRequest)
        assert (await engine.generate(REQUEST)).samples


async def test_a_given_answer_is_scored_and_samples_still_come(build):
    async with running(build) as engine:
        whole = await engine.generate(REQUEST)
        scored = await engine.generate(replace(REQUEST, answer_ids=whole.answer.token_ids))

    assert scored.answer.finish_reason == "given"
    assert scored.answer.token_ids == whole.answer.token_ids
    assert (
        len(scored.answer.token_logprobs)
        == len(scored.answer.token_entropies)
        == len(whole.answer.token_ids)
    )
    assert [s.token_ids for s in scored.samples] == [s.token_ids for s in whole.samples]


async def test_a_given_empty_answer_has_no_tokens(build):
    async with running(build) as engine:
        scored = await engine.generate(replace(REQUEST, answer_ids=()))

    assert scored.answer.token_logprobs.shape == (0,)


async def test_an_answer_is_encoded_with_or_without_its_end(build):
    async with running(build) as engine:
        ended = await engine.encode_answer(" Paris", append_eos=True)
        open_ended = await engine.encode_answer(" Paris", append_eos=False)
        scored = await engine.generate(replace(REQUEST, answer_ids=ended))

    assert ended[:-1] == open_ended
    assert len(scored.answer.token_logprobs) == len(ended)


async def test_first_token_groups_share_at_most_the_whole_mass(build):
    request = replace(REQUEST, sampling=SamplingParams(num_samples=0, max_new_tokens=1))
    async with running(build) as engine:
        true, false, empty = await engine.first_token_logprobs(
            request, [["True", " True"], ["False", " False"], []]
        )

    assert np.exp(true) + np.exp(false) <= 1 + 1e-6
    assert empty is None


async def test_a_cancelled_request_leaves_the_others_alone(build):
    async with running(build) as engine:
        task = asyncio.create_task(engine.generate(replace(REQUEST, prompt="Somebody else")))
        await asyncio.sleep(0)
        task.cancel()
        generation = await engine.generate(REQUEST)

        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(generation.samples) == 4
        assert engine.num_waiting == 0


async def test_an_engine_is_not_busy_before_and_after_its_work(build):
    async with running(build) as engine:
        assert engine.busy_since is None
        await engine.generate(REQUEST)
        assert engine.busy_since is None


async def test_a_loop_that_is_cancelled_fails_who_comes_after(build):
    engine = build()
    loop = asyncio.create_task(engine.run())
    await engine.generate(REQUEST)
    loop.cancel()
    await asyncio.gather(loop, return_exceptions=True)
    with pytest.raises(NotReady):
        await engine.generate(REQUEST)
    await engine.close()


async def test_after_close_every_call_is_refused(build):
    async with running(build) as engine:
        await engine.close()
        with pytest.raises(NotReady):
            await engine.generate(REQUEST)


async def test_hidden_layers_bring_one_mean_a_layer_that_samples_do_not_change(build):
    light = replace(REQUEST, statistics=frozenset({"answer_token_logprobs"}), hidden_layers=(2, 1))
    async with running(build) as engine:
        alone = await engine.generate(light)
        with_samples = await engine.generate(replace(light, statistics=ALL))
        reversed_layers = await engine.generate(replace(light, hidden_layers=(1, 2)))

    assert alone.answer_hidden_mean.shape == (2, engine.hidden_size)
    np.testing.assert_allclose(with_samples.answer_hidden_mean, alone.answer_hidden_mean, atol=1e-5)
    np.testing.assert_allclose(
        reversed_layers.answer_hidden_mean[::-1], alone.answer_hidden_mean, atol=1e-5
    )


async def test_a_layer_that_the_model_does_not_have_is_refused(build):
    async with running(build) as engine:
        with pytest.raises(InvalidRequest):
            await engine.generate(replace(REQUEST, hidden_layers=(engine.num_layers,)))
