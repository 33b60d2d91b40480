"""The contract of engines: the likeliest tokens in the place of each of a text's."""

import re

import pytest

from tests.contract.generators import asked

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("num_tops", [1, 4])
async def test_the_likeliest_tokens_are_told_of_each_and_the_greedy_one_is_the_first(
    generator, num_tops
):
    if generator.info.max_tops < num_tops:
        pytest.skip("tells none")
    plain = await generator.generate(asked(generator))
    answer = (await generator.generate(asked(generator, num_tops=num_tops))).answer

    assert plain.answer.token_tops is None
    assert answer.text == plain.answer.text
    assert len(answer.token_tops) == answer.num_tokens
    for tops, logprob in zip(answer.token_tops, answer.token_logprobs, strict=True):
        values = [value for _, value in tops]
        assert 1 <= len(tops) <= num_tops
        assert values == sorted(values, reverse=True)
        assert values[0] == logprob
        assert max(values) <= 0


async def test_those_of_samples_are_told_where_samples_are_shown(generator):
    if not generator.info.max_tops or "sample_token_logprobs" not in generator.info.statistics:
        pytest.skip("tells none")
    statistics = frozenset({"sample_texts", "sample_token_logprobs", "sample_token_texts"})
    request = asked(generator, statistics=statistics, num_tops=2, num_shown=3)
    generation = await generator.generate(request)

    *shown, third, fourth = generation.samples
    assert third.token_tops is fourth.token_tops is None
    for sample in shown:
        assert len(sample.token_tops) == sample.num_tokens
        for tops, logprob in zip(sample.token_tops, sample.token_logprobs, strict=True):
            assert 1 <= len(tops) <= 2
            assert logprob <= tops[0][1]


async def test_texts_of_the_likeliest_tokens_join_to_the_answer(generator):
    if not generator.info.max_tops:
        pytest.skip("tells none")
    answer = (await generator.generate(asked(generator, num_tops=1))).answer
    joined = "".join(tops[0][0] for tops in answer.token_tops)
    # Half a code point is told by its bytes, and by some servers where its first token stands.
    joined = re.sub(r"bytes:(\\x[0-9a-f]{2})+", "", joined)
    assert joined.replace("\ufffd", "").startswith(answer.text.replace("\ufffd", ""))
