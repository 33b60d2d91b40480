"""The likeliest tokens in the place of each of an answer's, beside the model's own forward pass."""

from dataclasses import replace

import pytest

from models.records import BYTES, MAX_TOPS, bytes_spelt
from tests.tiny_models import byte_tokenizer, random_model
from tests.unit.models.engines.tiny_engines import (
    engine_of,
    generated,
    next_logprobs,
    request_for,
    running,
)

pytestmark = pytest.mark.anyio


async def test_they_are_those_of_the_raw_law_beside_others_who_want_none():
    model, tokenizer = random_model("llama"), byte_tokenizer()
    asked = replace(request_for("Hi", max_new_tokens=8), num_tops=5)
    others = [request_for("Hello", max_new_tokens=6), replace(asked, num_tops=MAX_TOPS)]
    async with running(engine_of(model, tokenizer)) as worker:
        first, none, most = await generated(worker, [asked, *others])

    assert none.answer.token_tops is None
    assert all(sample.token_tops is None for sample in first.samples)
    for more, tops in zip(most.answer.token_tops, first.answer.token_tops, strict=True):
        assert len(more) == MAX_TOPS
        assert [text for text, _ in more[:5]] == [text for text, _ in tops]
    ids = tokenizer("Hi")["input_ids"]
    for i, tops in enumerate(first.answer.token_tops):
        law = next_logprobs(model, [*ids, *first.answer.token_ids[:i]]).topk(5)
        assert [value for _, value in tops] == pytest.approx(law.values.tolist(), abs=1e-4)
        for (text, _), token in zip(tops, law.indices.tolist(), strict=True):
            shown = tokenizer.decode([token])
            if shown == "\ufffd":  # a byte of a longer character
                shown = bytes_spelt(text).decode(errors="replace")
                assert text.startswith(BYTES)
            assert shown in (text, "\ufffd")
