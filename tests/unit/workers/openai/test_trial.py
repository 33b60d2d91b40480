"""How much it costs to look at a server, and what is found."""

import logging

import pytest

from tests.openai_server import openai_server
from tests.unit.workers.openai.test_generator import over

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("traits", "most_calls"),
    [
        ({"probes": ()}, 5),
        ({"budget": "heeded", "tags": "tokens", "num_thoughts": 2}, 7),
        ({"tokenizes": False, "draws_several": False, "scales": True}, 10),
    ],
    ids=["vLLM with the plugin", "vLLM that reasons", "scaled"],
)
async def test_a_server_is_looked_at_by_few_calls_of_few_tokens(traits, most_calls):
    async with openai_server(**traits) as server, over(server):
        assert len(server.bodies) <= most_calls
        assert max(body["max_tokens"] for _, body in server.bodies) <= 48


async def test_five_probes_are_read_by_the_usual_number_of_log_probs():
    probes = tuple(f"{i:x}" * 64 for i in range(1, 6))
    async with openai_server(probes=probes) as server, over(server) as generator:
        assert generator.info.capabilities["plugin_probes"] == len(probes)


async def test_what_was_found_and_its_price_are_logged(caplog):
    caplog.set_level(logging.INFO)
    async with openai_server(probes=()) as server, over(server):
        num_calls = len(server.bodies)
    [price] = [one for one in caplog.records if one.name == "workers.openai.trial"]
    kind, calls = price.args
    assert (kind, num_calls <= calls) == ("vllm", True)  # it is asked for token ids, too


async def test_a_path_of_the_same_name_that_answers_otherwise_is_no_tokenizer():
    traits = {"owner": "vllm", "looks": {"/version": {"version": "0.32"}}}
    async with openai_server(**traits, tokenizes_otherwise=True) as server, over(server) as found:
        capabilities = found.info.capabilities
    assert (capabilities["server"], capabilities["version"]) == ("vllm", "0.32")
    assert capabilities["token_ids"] is False
    assert capabilities["raw_logprobs_of_samples"] is True


async def test_log_probs_are_raw_where_those_of_a_prompt_that_is_read_first_are_others():
    kept = set()

    def alter(choice, body):
        if str(body["prompt"]) not in kept and (told := choice["logprobs"]):
            kept.add(str(body["prompt"]))
            told["token_logprobs"] = [one - 0.2 for one in told["token_logprobs"]]
            for tops in told["top_logprobs"]:
                tops |= {name: value - 0.2 for name, value in tops.items()}

    async with openai_server(alter=alter) as server, over(server) as found:
        capabilities = found.info.capabilities
    assert kept
    assert capabilities["raw_logprobs_of_answers"] is True
    assert capabilities["raw_logprobs_of_samples"] is True


async def test_a_base_models_end_is_what_the_settings_say():
    async with openai_server() as server, over(server, end_token="</s>") as generator:
        assert generator.info.capabilities["end_of_answer_token"] == 1
