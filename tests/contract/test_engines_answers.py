"""The contract of engines: given answers, first tokens, hidden states, and how requests end."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from models.errors import DeadlineExceeded, InvalidRequest, NotReady, PromptTooLong
from models.records import GivenAnswer
from models.units.parts import split
from tests.contract.generators import (
    BUILDERS,
    FIRST_TOKEN,
    GROUPS,
    REQUEST,
    asked,
    needs,
    needs_of_server,
    samples_of,
)
from workers.generation import GenerationWorker

pytestmark = pytest.mark.anyio


async def test_a_given_answer_is_scored_and_samples_still_come(generator):
    needs_of_server(generator, scoring_of_given_answers=(True,))
    whole = await generator.generate(asked(generator))
    scored = await generator.generate(asked(generator, answer=GivenAnswer(" It is Rome.")))

    assert (scored.answer.text, scored.answer.finish_reason) == (" It is Rome.", "given")
    assert scored.answer.compared_text == "It is Rome."
    assert len(scored.answer.token_logprobs) == scored.answer.num_tokens > 0
    assert samples_of(scored) == samples_of(whole)


async def test_a_stripped_answer_is_scored_as_it_stands_or_as_the_same_one_after_a_blank(generator):
    needs_of_server(generator, scoring_of_given_answers=(True,))
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
    needs_of_server(generator, scoring_of_given_answers=(True,))
    ended = await generator.generate(asked(generator, answer=GivenAnswer(" Paris")))
    open_ended = await generator.generate(
        asked(generator, answer=GivenAnswer(" Paris", append_eos=False))
    )

    assert ended.answer.num_tokens == open_ended.answer.num_tokens + 1
    np.testing.assert_allclose(
        ended.answer.token_logprobs[:-1], open_ended.answer.token_logprobs, atol=1e-4
    )


async def test_a_given_empty_answer_has_no_tokens(generator):
    needs_of_server(generator, scoring_of_given_answers=(True,))
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


async def test_after_close_every_call_is_refused(closing_generator):
    await closing_generator.close()
    with pytest.raises(NotReady):
        await closing_generator.generate(asked(closing_generator))


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


async def test_each_sentence_of_the_answer_has_a_mean_a_layer(generator):
    if not generator.info.num_layers:
        pytest.skip("does not show its hidden states")
    wanted = {"hidden_layers": (2, 1), "by_sentence": True}
    found = await generator.generate(asked(generator, **wanted))
    without = await generator.generate(asked(generator, hidden_layers=(2, 1)))

    told = {unit.spans[0] for unit in split(found.answer, "sentences").units}
    assert dict(found.sentence_hidden_means).keys() <= told
    assert found.sentence_hidden_means or not told or found.answer.num_tokens == 1
    for _, mean in found.sentence_hidden_means:
        assert mean.shape == (2, generator.info.hidden_size)
    assert without.sentence_hidden_means == ()


async def test_a_layer_that_the_model_does_not_have_is_refused(generator):
    layer = generator.info.num_layers
    with pytest.raises(InvalidRequest):
        await generator.generate(asked(generator, hidden_layers=(layer,)))


async def test_a_prompts_state_is_the_same_with_samples_and_without(generator):
    if not generator.info.num_layers:
        pytest.skip("does not show its hidden states")
    alone = await generator.generate(asked(generator, statistics=frozenset(), prompt_layer=1))
    with_samples = await generator.generate(asked(generator, prompt_layer=1))
    without = await generator.generate(asked(generator))

    assert alone.prompt_state.shape == (generator.info.hidden_size,)
    size = np.abs(alone.prompt_state).max()
    np.testing.assert_allclose(
        with_samples.prompt_state, alone.prompt_state, atol=1e-5 * max(1.0, size)
    )
    assert without.prompt_state is None
    with pytest.raises(InvalidRequest):
        await generator.generate(asked(generator, prompt_layer=generator.info.num_layers))
