"""The contract of engines: messages and lengths."""

from bisect import bisect_left

import pytest

from models.errors import ChatTemplateError, InvalidRequest, PromptTooLong
from tests.contract.generators import REQUEST, asked, needs_of_server

pytestmark = pytest.mark.anyio


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
            generator.engine.prepare(long(num_words, 1))
        except PromptTooLong:
            return True
        return False

    def long(num_words, max_new_tokens, *, clamps=False):
        sampling = {"max_new_tokens": max_new_tokens, "num_samples": 1, "clamps": clamps}
        return asked(generator, prompt="word " * num_words, sampling=sampling)

    lengths = range(1, 3000)
    longest = lengths[bisect_left(lengths, True, key=is_too_long) - 1]  # room for a word at most
    for request in (long(longest, None), long(longest, 5000, clamps=True)):
        generation = await generator.generate(request)
        assert "max_new_tokens_clamped" in generation.warnings
        for one in (generation.answer, *generation.samples):
            assert 1 <= one.num_written <= 8
    with pytest.raises(PromptTooLong) as error:
        await generator.generate(long(longest, 256))
    assert error.value.field == "max_new_tokens"
