"""How much it costs a server to be tried out."""

import json
import logging
from dataclasses import replace

import numpy as np
import pytest

from models.errors import ModelNotLoaded
from models.grammars import grammar_of
from tests.openai_server import openai_server
from tests.unit.workers.openai.test_generator import REQUEST, over
from workers.openai.declared import declared
from workers.openai.experiments import Experiments

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("traits", "most_calls"),
    [
        ({"probes": ()}, 10),
        ({}, 11),
        ({"budget": "heeded", "tags": "tokens", "num_thoughts": 2}, 12),
        ({"refuses_ids": True, "probes": ()}, 12),
        ({"tokenizes": False}, 13),
        ({"tokenizes": False, "completes": False, "strict": True, "max_logprobs": 5}, 11),
        ({"tokenizes": False, "strict": True, "max_logprobs": None}, 15),
        ({"tokenizes": False, "draws_several": False, "strict": True, "max_logprobs": 1}, 15),
        ({"tokenizes": False, "draws_several": False, "scales": True, "max_logprobs": 5}, 15),
    ],
    ids=[
        "vLLM with the plugin",
        "vLLM",
        "vLLM that reasons",
        "behind a picker",
        "by texts",
        "strict chats",
        "strict without log-probs",
        "strict, one by one",
        "one by one, scaled",
    ],
)
async def test_a_server_is_tried_out_by_few_calls_of_few_tokens(traits, most_calls):
    async with openai_server(**traits) as server, over(server):
        assert len(server.bodies) <= most_calls
        assert max(body["max_tokens"] for _, body in server.bodies) <= 96


async def test_more_probes_than_the_usual_number_of_log_probs_holds_are_read_by_a_further_call():
    probes = tuple(f"{i:x}" * 64 for i in range(1, 6))
    async with (
        openai_server(probes=probes, max_logprobs=100) as server,
        over(server) as generator,
    ):
        assert generator.info.capabilities["plugin_probes"] == len(probes)


async def test_the_price_of_being_tried_out_is_logged(caplog):
    caplog.set_level(logging.INFO)
    async with openai_server(tokenizes=False) as server, over(server):
        num_calls = len(server.bodies)
    [(calls, tokens)] = [one.args for one in caplog.records if one.name == "workers.openai.trial"]
    assert num_calls <= calls <= num_calls + 3  # it is asked for token ids, too
    assert 100 < tokens < 1000


HOSTED = {"tokenizes": False, "completes": False, "max_logprobs": 5}


@pytest.mark.parametrize("traits", [{"tokenizes": False}, HOSTED], ids=["completions", "chats"])
async def test_what_a_trial_found_may_be_declared_and_nothing_is_tried_out_then(traits):
    async with openai_server(**traits) as server, over(server) as generator:
        tried = await generator.generate(REQUEST)
        capabilities = dict(generator.info.capabilities)
    assert capabilities["seed"] is True
    setting = json.dumps(capabilities)
    async with openai_server(**traits) as server:
        async with over(server, capabilities=setting, context=512) as generator:
            assert server.bodies == []
            found = await generator.generate(REQUEST)
            assert generator.info.capabilities == capabilities
            generator._standing(generator.upstream.servers[0]).doubt()
            await generator.generate(REQUEST)
        assert {body["max_tokens"] for _, body in server.bodies} == {8}

    assert found.answer.text == tried.answer.text
    np.testing.assert_array_equal(found.answer.token_logprobs, tried.answer.token_logprobs)
    assert [one.text for one in found.samples] == [one.text for one in tried.samples]


async def test_what_is_declared_as_not_tried_yet_is_tried_out_when_it_is_needed():
    setting = json.dumps({"endpoint": "chat completions", "response_format": "not tried yet"})
    held = replace(REQUEST, grammar=grammar_of({"enum": ["Rome", 7]}))
    async with (
        openai_server(**HOSTED) as server,
        over(server, capabilities=setting, context=512) as generator,
    ):
        assert generator.info.capabilities["response_format"] == "not tried yet"
        assert server.bodies == []
        await generator.generate(held)
        assert generator.info.capabilities["response_format"] is True
        assert generator.info.capabilities["images"] is False


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("chats", "is no JSON object"),
        ("[1]", "is no JSON object"),
        ('{"token_ids": true}', "token_ids: Extra inputs"),
        ('{"entropy_method": "exact"}', "entropy_method: Input should be 'topk_bounds'"),
        ('{"max_logprobs": 50}', "max_logprobs: Input should be less than or equal to 20"),
    ],
)
def test_what_cannot_be_declared_is_refused_by_its_name(setting, message):
    with pytest.raises(ModelNotLoaded, match=f"COCOA_GENERATION__CAPABILITIES:? {message}"):
        declared(setting)


async def test_log_probs_that_were_never_seen_are_not_believed(monkeypatch):
    async def none(*_):
        return {}

    monkeypatch.setattr(Experiments, "_first_logprobs", none)
    traits = {"tokenizes": False, "strict": True, "max_logprobs": 5}
    async with openai_server(**traits) as server, over(server) as generator:
        assert generator._known.capabilities.raw_samples == "never"
