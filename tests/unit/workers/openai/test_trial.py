"""How much it costs a server to be tried out."""

import pytest

from tests.openai_server import openai_server
from tests.unit.workers.openai.test_generator import over

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("traits", "most_calls"),
    [
        ({"probes": ()}, 15),
        ({}, 15),
        ({"tokenizes": False}, 22),
        ({"tokenizes": False, "completes": False, "strict": True, "max_logprobs": 5}, 26),
    ],
    ids=["vLLM with the plugin", "vLLM", "by texts", "strict chats"],
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
