"""What a server lacks for a while, and has again by its next good trial."""

from contextlib import suppress
from dataclasses import replace

import pytest

from models.errors import CocoaError
from models.grammar.grammars import grammar_of
from models.records import GenerationRequest, SamplingParams
from tests.chaos.redis_server import free_port
from tests.openai_server import openai_server
from tests.unit.workers.openai.test_generator import over
from workers.remote import standing

pytestmark = pytest.mark.anyio

LOGPROBS = frozenset({"answer_token_logprobs", "sample_token_logprobs"})
REQUEST = GenerationRequest(
    messages=({"role": "user", "content": "What is the capital of France?"},),
    sampling=SamplingParams(num_samples=4, max_new_tokens=8, seed=7, stop=("Q:",)),
    statistics=LOGPROBS | {"sample_texts"},
    timeout_s=30.0,
)
HELD = replace(
    REQUEST,
    grammar=grammar_of({"enum": ["Rome", "Lyon"]}),
    sampling=replace(REQUEST.sampling, stop=()),
)
TEXTS, CHATS = {"tokenizes": False}, {"tokenizes": False, "completes": False}


@pytest.fixture(autouse=True)
def minutes(monkeypatch):
    """Every trial is a minute behind the one before."""
    monkeypatch.setattr(standing, "_TRY_AGAIN_S", -1.0)


async def tried_again(generator):
    server = generator.upstream.server
    server.doubt()
    await server.settled()


LACKS = {
    "log-probs": {"max_logprobs": None},
    "log-probs that are refused": {"denies_logprobs": True},
    "log-probs of completions": {"completion_logprobs": None},
    "seed": {"refuses": ("seed",)},
    "temperature": {"refuses": ("temperature",)},
    "top_k and penalties": {"refuses": ("top_k", "presence_penalty")},
    "likeliest tokens": {"refuses": ("top_logprobs",)},
    "most of the likeliest tokens": {"max_logprobs": 5},
    "prompts of token ids": {"refuses_ids": True},
    "samples of a call": {"most_samples": 1},
    "stop strings": {"refuses": ("stop",)},
    "schemas": {"formats": "refused"},
    "schemas that are ignored": {"formats": "ignored"},
    "draws": {"greedy_where": lambda body: True},
}


def found_of(generator):
    """What it is known to have, but for what numbers and seconds change."""
    info = generator.info
    return info.capabilities, info.statistics, info.absent


@pytest.mark.parametrize("endpoint", [{}, TEXTS, CHATS], ids=["ids", "texts", "chats"])
@pytest.mark.parametrize("begins", [True, False], ids=["from its start", "meanwhile"])
@pytest.mark.parametrize("lack", LACKS.values(), ids=LACKS)
async def test_what_it_lacks_for_a_while_is_back_at_the_next_good_trial(lack, begins, endpoint):
    async with openai_server(**endpoint) as server, over(server) as generator:
        await generator.generate(HELD)
        expected = found_of(generator)
    async with openai_server(**endpoint | (lack if begins else {})) as server:
        usual = {name: getattr(server, name) for name in lack}
        if begins:
            usual = {name: getattr(type(server), name) for name in lack}
        async with over(server) as generator:
            for name, value in lack.items():
                setattr(server, name, value)
            await tried_again(generator)
            for request in (REQUEST, HELD):
                with suppress(CocoaError):
                    await generator.generate(request)
            for name, value in usual.items():
                setattr(server, name, value)
            await tried_again(generator)
            await generator.generate(HELD)
            generation = await generator.generate(REQUEST)
            assert found_of(generator) == expected
    assert generation.absent == {}
    assert generation.warnings == ()


@pytest.mark.parametrize("endpoint", [{}, TEXTS, CHATS], ids=["ids", "texts", "chats"])
async def test_log_probs_are_back_after_a_restart(endpoint, monkeypatch):
    port = free_port()
    async with openai_server(port=port, **endpoint, max_logprobs=None) as server:
        generating = over(server)
        generator = await generating.__aenter__()
        assert generator.info.absent.keys() >= LOGPROBS
        for _ in range(4):
            await tried_again(generator)
    async with openai_server(port=port, **endpoint):
        await tried_again(generator)
        generation = await generator.generate(REQUEST)
        await generating.__aexit__(None, None, None)
    assert generation.absent == {}


@pytest.mark.parametrize("begins", [True, False], ids=["from its start", "meanwhile"])
async def test_a_plugin_that_is_gone_for_a_while_is_back_at_the_next_good_trial(begins):
    probes = None if begins else ()
    async with openai_server(probes=probes) as server, over(server) as generator:
        server.probes = None
        await tried_again(generator)
        assert "answer_token_entropies" in generator.info.absent
        server.probes = ()
        await tried_again(generator)
        assert "answer_token_entropies" not in generator.info.absent


async def test_what_it_lacks_for_good_is_looked_for_once_an_hour_at_length():
    async with openai_server(**CHATS, refuses=("seed",)) as server, over(server) as generator:
        num_calls = []
        for _ in range(125):
            server.bodies.clear()
            await tried_again(generator)
            num_calls.append(len(server.bodies))
    at_length = [minute for minute, num in enumerate(num_calls, 1) if num > 1]
    assert at_length == [*range(1, 11), 60, 120]
