"""The contract of engines: answers and samples, by seed."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from models.records import GivenAnswer
from tests.contract.generators import asked, samples_of

pytestmark = pytest.mark.anyio


async def test_an_answer_and_m_samples_carry_one_value_a_token(generator):
    request = asked(generator)
    generation = await generator.generate(request)

    assert len(generation.samples) == 4
    for role, sequence in (
        ("answer", generation.answer),
        *(("sample", sample) for sample in generation.samples),
    ):
        assert 1 <= sequence.num_written <= 12
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
        assert sequence.finish_reason == "stop" or sequence.num_written == 12
        assert sequence.compared_text == sequence.text.strip()
    assert generation.prompt_tokens > 0


async def test_a_reply_names_the_weights_that_spoke(generator):
    info = generator.info
    generation = await generator.generate(asked(generator))

    assert generation.identity == info.identity != ""
    assert (generation.model_id, generation.revision) == (info.model_id, info.revision)


async def test_samples_beside_a_short_answer_end_at_a_limit_that_is_told(generator):
    if not generator.info.bounds_samples:
        pytest.skip("draws samples to their own end")
    request = asked(generator, {"max_new_tokens": 40}, answer=GivenAnswer("x"))
    whole = await generator.generate(request)
    bounded = await generator.generate(replace(request, limits_samples=True))

    assert (whole.sample_limit, bounded.sample_limit) == (None, 32)
    for sample, cut in zip(whole.samples, bounded.samples, strict=True):
        if sample.num_tokens <= 32:
            assert cut.finish_reason == sample.finish_reason != "sample_limit"
        else:
            assert (cut.num_tokens, cut.finish_reason) == (32, "sample_limit")
        assert cut.num_tokens == min(sample.num_tokens, 32)


@pytest.mark.parametrize(
    "statistics", [frozenset(), frozenset({"answer_token_logprobs"})], ids=["none", "log-probs"]
)
async def test_what_is_not_wanted_is_not_computed(generator, statistics):
    request = asked(generator, statistics=statistics)
    generation = await generator.generate(request)

    assert generation.samples == ()
    assert generation.answer.token_entropies is None
    assert generation.answer.token_texts is None
    assert (generation.answer.token_logprobs is not None) == bool(request.statistics)


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


async def test_a_seed_that_was_drawn_comes_back_and_repeats_the_samples(generator):
    first = await generator.generate(asked(generator, sampling={"seed": None}))
    again = await generator.generate(asked(generator, sampling={"seed": first.seed}))

    assert samples_of(first) == samples_of(again)


async def test_a_drawn_answer_is_repeated_by_its_seed_and_changes_no_sample(generator):
    async def drawn(**law):
        request = asked(generator, sampling={"answer_temperature": 2.0} | law)
        return await generator.generate(request)

    one, again, greedy = await drawn(), await drawn(), await drawn(answer_temperature=0.0)
    assert one.answer.text == again.answer.text
    assert samples_of(one) == samples_of(again) == samples_of(greedy)
    others = [await drawn(seed=seed) for seed in range(20)]
    # A model that is sure of its answer draws no other one as a sample either.
    is_sure = len({sample.text for sample in (await drawn(temperature=2.0)).samples}) == 1
    assert is_sure or len({other.answer.text for other in others}) > 1
    # Its numbers are of the raw distribution, as those of other texts are.
    alike = [other.answer for other in others if other.answer.text == greedy.answer.text]
    for answer in alike:
        if answer.token_logprobs is not None:
            expected = greedy.answer.token_logprobs
            np.testing.assert_allclose(answer.token_logprobs, expected, atol=1e-4)


async def test_the_answer_does_not_depend_on_seed_or_temperature(generator):
    one = await generator.generate(asked(generator))
    changed = {"seed": 99, "temperature": 0.3, "top_k": 3, "top_p": 0.5}
    two = await generator.generate(asked(generator, sampling=changed))

    assert (one.answer.text, one.answer.token_ids) == (two.answer.text, two.answer.token_ids)
    if one.answer.token_logprobs is not None:
        np.testing.assert_allclose(one.answer.token_logprobs, two.answer.token_logprobs, atol=1e-5)
