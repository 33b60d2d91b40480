"""Draws that are none: of servers that answer greedily whatever temperature they are told."""

import math
from dataclasses import replace

import numpy as np
import pytest

from models.records import GenerationRequest, SamplingParams
from models.statistics import supplied_by
from tests.openai_server import openai_server
from tests.unit.workers.openai.test_generator import over
from workers.openai.choices import Choice, repetition
from workers.openai.found import REPEATED

pytestmark = pytest.mark.anyio

REQUEST = GenerationRequest(
    "What is the capital of France?",
    sampling=SamplingParams(num_samples=6, max_new_tokens=8, seed=7),
    statistics=frozenset({"answer_token_logprobs", "sample_texts", "sample_token_logprobs"}),
    timeout_s=30.0,
)
ENDPOINTS = {
    "ids": {},
    "texts": {"tokenizes": False},
    "chats": {"tokenizes": False, "completes": False},
    "one a call": {"tokenizes": False, "draws_several": False},
}
GREEDY = {
    "always": lambda body: True,
    "with a seed": lambda body: "seed" in body,
    "at 1": lambda body: body["temperature"] == 1.0,
    "with top_k": lambda body: "top_k" in body,
}


@pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=ENDPOINTS)
@pytest.mark.parametrize("greedy_where", GREEDY.values(), ids=GREEDY)
async def test_draws_that_repeat_in_the_trial_are_none(greedy_where, endpoint):
    traits = endpoint | {"greedy_where": greedy_where}
    async with openai_server(**traits) as server, over(server) as generator:
        info = generator.info
        greedy = replace(REQUEST, statistics=frozenset({"answer_token_logprobs"}))
        generation = await generator.generate(greedy)
    assert {name: info.absent[name] for name in supplied_by("samples")} == dict.fromkeys(
        supplied_by("samples"), REPEATED
    )
    assert not supplied_by("samples") & info.statistics
    assert info.capabilities["temperature"] is False
    assert "draws_repeat" in generation.warnings
    assert generation.answer.token_logprobs is not None


GREEDY_OF_SEVERAL = {
    "always": GREEDY["always"],
    "up to 1": lambda body: body["temperature"] <= 1.0,
    "completions": lambda body: body.get("n", 1) > 1 and "prompt" in body,
    "chats": lambda body: body.get("n", 1) > 1 and "messages" in body,
}


@pytest.mark.parametrize("greedy_where", GREEDY_OF_SEVERAL.values(), ids=GREEDY_OF_SEVERAL)
@pytest.mark.parametrize("max_logprobs", [None, 20], ids=["none told", "after temperature"])
async def test_without_log_probs_of_the_raw_law_draws_themselves_show_it(
    max_logprobs, greedy_where
):
    traits = {"tokenizes": False, "max_logprobs": max_logprobs, "scales": max_logprobs is not None}
    greedy = traits | {"greedy_where": greedy_where}
    async with openai_server(**greedy) as server, over(server) as generator:
        assert generator.info.absent["sample_texts"] == REPEATED
    async with openai_server(**traits) as server, over(server) as generator:
        assert "sample_texts" in generator.info.statistics


@pytest.mark.parametrize("sharpness", [1.0, 5.0, 20.0, 100.0])
@pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=ENDPOINTS)
async def test_a_sure_model_that_is_drawn_from_is_no_greedy_one(endpoint, sharpness):
    async with openai_server(**endpoint, sharpness=sharpness) as server, over(server) as generator:
        assert "sample_texts" in generator.info.statistics
        for seed in range(5):
            law = replace(REQUEST.sampling, seed=seed)
            generation = await generator.generate(replace(REQUEST, sampling=law))
            assert "draws_repeat" not in generation.warnings


@pytest.mark.parametrize(
    ("law", "warns"),
    [
        ({}, True),
        ({"temperature": 1.5}, True),
        ({"top_p": 0.95}, True),
        ({"temperature": 0.7}, True),
        ({"temperature": 0.01}, False),
        ({"top_k": 2}, False),
    ],
)
@pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=ENDPOINTS)
async def test_draws_that_repeat_later_are_warned_of_where_their_law_hardly_lets_them(
    endpoint, law, warns
):
    async with openai_server(**endpoint) as server, over(server) as generator:
        server.greedy_where = GREEDY["always"]
        sampling = replace(REQUEST.sampling, **law)
        generation = await generator.generate(replace(REQUEST, sampling=sampling))
    assert len({one.text for one in generation.samples}) == 1
    assert ("draws_repeat" in generation.warnings) == warns


def drawn(*probabilities, text="Paris"):
    return Choice(text, "stop", logprobs=np.log(probabilities))


def test_a_repetition_is_as_likely_as_its_draws_behind_the_first():
    assert repetition([drawn(0.7, 0.4)] * 7, 1.0) == pytest.approx(6 * math.log(0.28))
    assert repetition([drawn(1.0)] * 7, 1.0) == 0.0
    assert repetition([drawn(0.5), drawn(0.5, text="Rome")], 1.0) is None
    assert repetition([drawn(0.5)], 1.0) is None
    assert math.isnan(repetition([Choice("Paris", "stop")] * 3, 1.0))


@pytest.mark.parametrize("num_told", [0, 2, 8])
@pytest.mark.parametrize("temperature", [0.3, 0.7, 1.0, 1.3, 2.0])
def test_no_law_of_a_token_makes_it_likelier_than_its_bound(temperature, num_told):
    rng = np.random.default_rng(0)
    for _ in range(200):
        law = rng.dirichlet(np.full(8, 0.3))
        heated = law ** (1.0 / temperature)
        heated /= heated.sum()
        told = {str(i): math.log(law[i]) for i in np.argsort(-law)[:num_told] if law[i] > 1e-12}
        for p, exact in zip(law, heated, strict=True):
            if p > 1e-12 and exact > 1e-12:
                one = replace(drawn(p), tops=(told,))
                assert math.log(exact) <= repetition([one] * 2, temperature) + 1e-9
