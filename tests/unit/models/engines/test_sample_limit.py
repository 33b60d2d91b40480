"""Samples that only scores read end at a limit, which follows from the answer's length."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from cocoa_lab.replaying import bounded
from models.records import GivenAnswer
from tests.tiny_models import random_model
from tests.unit.models.engines.test_reasoning import asking, reasoning
from tests.unit.models.engines.tiny_engines import engine_of, request_for, running, sequences

pytestmark = pytest.mark.anyio

WHOLE = request_for("Hi", max_new_tokens=100, num_samples=6)
# None ends by itself within its limit: an answer of two tokens, and one of 20.
GIVEN = [(GivenAnswer("x"), 32), (GivenAnswer("x" * 19), 40)]


def same(one, other):
    for a, b in zip(sequences(one), sequences(other), strict=True):
        assert (a.token_ids, a.finish_reason) == (b.token_ids, b.finish_reason)
        assert a.compared_text.rstrip("\ufffd") == b.compared_text.rstrip("\ufffd")
        assert (a.num_tokens, len(a.token_logprobs)) == (len(a.token_ids), len(a.token_ids))
        np.testing.assert_allclose(a.token_logprobs, b.token_logprobs, atol=1e-5)
        np.testing.assert_allclose(a.token_entropies, b.token_entropies, atol=1e-4)
        assert len(a.token_texts) == a.num_tokens
    assert one.sample_limit == other.sample_limit


@pytest.mark.parametrize(("answer", "limit"), GIVEN)
@pytest.mark.parametrize("limits", [{}, {"max_rows": 3}], ids=["all join", "rows in chunks"])
async def test_longer_ones_are_the_beginnings_of_whole_ones(answer, limit, limits):
    request = replace(WHOLE, answer=answer)
    steps = []
    async with running(engine_of(random_model("llama"), **limits), steps.append) as worker:
        whole = await worker.generate(request)
        num_whole = sum(steps)
        cut = await worker.generate(replace(request, limits_samples=True))

    lengths = [sample.num_tokens for sample in whole.samples]
    assert max(lengths) == 100
    assert whole.sample_limit is None
    assert cut.sample_limit == limit
    assert [sample.num_tokens for sample in cut.samples] == [min(n, limit) for n in lengths]
    same(cut, bounded(whole, replace(request, limits_samples=True)))
    assert sum(steps) - num_whole < num_whole


async def test_an_answer_limits_what_is_not_shown():
    # In its own words: the answer stops early, and samples that do not write the same go on.
    async with running(engine_of(random_model("llama"))) as worker:
        text = (await worker.generate(WHOLE)).answer.text
        stopping = replace(WHOLE, sampling=replace(WHOLE.sampling, stop=(text[3:5],)))
        whole = await worker.generate(stopping)
        assert whole.answer.num_tokens < 16
        for num_shown in (1, 3):
            request = replace(stopping, limits_samples=True, num_shown=num_shown)
            cut = await worker.generate(request)
            same(cut, bounded(whole, request))
            for place in range(num_shown):
                assert sequences(cut)[place].token_ids == sequences(whole)[place].token_ids
    ends = [sample.finish_reason for sample in bounded(whole, request).samples]
    assert "length" in ends


async def test_of_a_reasoning_model_answers_alone_are_bounded_whoever_ends_first(monkeypatch):
    monkeypatch.setattr("models.engines.texts._ANSWERS", 0)
    monkeypatch.setattr("models.engines.texts._LEAST_LIMIT", 3)  # its answers have four or five
    request = asking("What is 3 * 4?", num_samples=16)
    bounding = replace(request, limits_samples=True)
    async with reasoning() as worker:
        whole = await worker.generate(request)
        cut, *together = await asyncio.gather(*[worker.generate(bounding) for _ in range(3)])

    answered_at, *ends = [one.num_written for one in sequences(whole)]
    assert min(ends) < answered_at < max(ends)
    for one in (cut, *together):
        same(one, bounded(whole, bounding))
        assert [a.reasoning for a in one.samples] == [a.reasoning for a in whole.samples]
    assert {(a.num_tokens, a.finish_reason) for a in cut.samples} == {(3, "sample_limit")}
