"""The adapter over servers that lack this and that, change, fail and lie."""

import asyncio
import logging
import socket
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest
from pydantic import SecretStr
from starlette.responses import JSONResponse

from models.errors import (
    ChatTemplateError,
    EngineError,
    GenerationUnavailable,
    Overloaded,
    PromptTooLong,
)
from models.probes.protocol import ProbeConfig
from models.records import GenerationRequest, GivenAnswer, SamplingParams
from tests.conftest import until
from tests.openai_server import openai_server
from workers.config import GeneratorConfig
from workers.openai.generator import OpenAIGenerator
from workers.probe_reading import probe_infos
from workers.remote.upstream import session_of

pytestmark = pytest.mark.anyio

REQUEST = GenerationRequest(
    "What is the capital of France?",
    sampling=SamplingParams(num_samples=3, max_new_tokens=8, seed=7),
    statistics=frozenset({"answer_token_logprobs", "sample_texts", "sample_token_logprobs"}),
    timeout_s=30.0,
)
# Nothing has to be tried out for it.
UNSEEDED = replace(REQUEST, sampling=replace(REQUEST.sampling, seed=None))
PLAIN = {"tokenizes": False}


@asynccontextmanager
async def over(server, probes=None, **settings):
    """The adapter over a server, connected; its watch does not run, which would ask in between."""
    servers = GeneratorConfig(url=server.url, api="openai", **settings).checked()
    generator = OpenAIGenerator(servers, probes=probes)
    await generator.upstream.connect()
    try:
        yield generator
    finally:
        await generator.close()


async def generated(traits, **changes):
    async with openai_server(**traits) as server, over(server) as generator:
        return await generator.generate(replace(REQUEST, **changes))


async def test_a_server_that_comes_back_with_other_weights_has_another_identity_at_once():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    async with openai_server(port=port) as server:
        context = over(server)
        generator = await context.__aenter__()
        first = await generator.generate(REQUEST)
    try:
        async with openai_server(port=port, weights=1):
            second = await generator.generate(REQUEST)
        async with openai_server(port=port):
            third = await generator.generate(REQUEST)
    finally:
        await context.__aexit__(None, None, None)

    assert first.answer.token_ids != second.answer.token_ids
    assert first.identity != second.identity
    assert (third.identity, third.answer.text) == (first.identity, first.answer.text)


async def test_weights_that_change_behind_an_open_connection_are_noticed_by_the_plugins_mark():
    async with openai_server(probes=()) as server, over(server) as generator:
        first = await generator.generate(REQUEST)
        server.weights = 1
        second = await generator.generate(REQUEST)

        assert first.identity != second.identity == generator.info.identity


async def test_the_same_server_has_the_same_identity_for_everybody():
    async with openai_server() as server, over(server) as one, over(server) as other:
        assert one.info.identity == other.info.identity


async def test_patience_that_is_asked_for_is_had_within_the_deadline():
    no_room = JSONResponse({}, 429, {"Retry-After": "0.1"})
    async with openai_server() as server, over(server) as generator:
        server.replies += [no_room, no_room]
        assert (await generator.generate(REQUEST)).samples
        server.replies += [JSONResponse({}, 429, {"Retry-After": "3000"})]
        with pytest.raises(Overloaded) as error:
            await generator.generate(REQUEST)
        assert error.value.retry_after_s == 3000


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (JSONResponse({}, 500), EngineError),
        (JSONResponse({}, 502), GenerationUnavailable),
        (JSONResponse({}, 400), GenerationUnavailable),
        ({"choices": []}, GenerationUnavailable),
        ({"choices": [{"text": 3, "finish_reason": "stop"}]}, GenerationUnavailable),
        ({"choices": [{"text": "a", "finish_reason": "abort"}]}, GenerationUnavailable),
        (JSONResponse([1, 2]), GenerationUnavailable),
    ],
    ids=["500", "502", "400", "no choice", "no text", "aborted", "a list"],
)
async def test_every_failure_of_a_server_is_typed(reply, error):
    async with openai_server() as server, over(server) as generator:
        server.replies += [reply] * 8
        with pytest.raises(error) as raised:
            await generator.generate(REQUEST)
        assert "capital" not in raised.value.message
        server.replies.clear()
        assert (await generator.generate(REQUEST)).samples


async def test_a_text_that_the_server_ends_before_its_time_is_no_answer():
    cut = {"text": "a", "finish_reason": "length", "token_ids": [1], "logprobs": None}
    async with openai_server() as server, over(server) as generator:
        server.replies += [{"choices": [cut]}]
        with pytest.raises(EngineError):
            await generator.generate(replace(REQUEST, statistics=frozenset()))


@pytest.mark.parametrize("on_token", [None, lambda token: None], ids=["whole", "streamed"])
async def test_calls_one_after_another_share_their_connections(on_token):
    async with openai_server() as server, over(server) as generator:
        for _ in range(8):
            await generator.generate(REQUEST, on_token)

        assert len(server.connections) <= 3  # the answer, its samples and a trial are at once


async def test_cancelling_closes_the_connection():
    async with openai_server() as server, over(server) as generator:
        server.delay_s = 600.0
        task = asyncio.create_task(generator.generate(UNSEEDED, lambda token: None))
        await until(lambda: server.num_running >= 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        # Both calls; the server is tried out again meanwhile, which nobody gives up.
        await until(lambda: server.num_left >= 2)


async def test_the_key_is_sent_and_never_logged(caplog):
    caplog.set_level(logging.DEBUG)
    async with openai_server() as server, over(server, api_key=SecretStr("hush")) as generator:
        await generator.generate(REQUEST)

    assert server.keys == {"Bearer hush"}
    assert "hush" not in caplog.text


async def test_an_end_without_a_log_prob_is_not_counted_and_told():
    shown = await generated(PLAIN)
    hidden = await generated({**PLAIN, "shows_end": False})
    ended = [one.finish_reason == "stop" for one in (shown.answer, *shown.samples)]

    assert any(ended)
    for one, other, has_ended in zip(
        (shown.answer, *shown.samples), (hidden.answer, *hidden.samples), ended, strict=True
    ):
        assert one.num_tokens == other.num_tokens + has_ended
    assert shown.warnings == ()
    assert hidden.warnings == ("no_eos_logprob",)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("traits", [{"refuses": ("stop",)}, {"heeds_stop": False}])
async def test_a_server_that_heeds_no_stop_strings_has_the_numbers_of_one_that_does(
    traits, is_streamed
):
    sampling = replace(REQUEST.sampling, max_new_tokens=24, stop=(" in", "x"))
    wanted = REQUEST.statistics | {"answer_token_texts"}
    heard = []
    heeded = await generated(PLAIN, sampling=sampling, statistics=wanted)
    async with openai_server(**PLAIN, **traits) as server, over(server) as generator:
        request = replace(REQUEST, sampling=sampling, statistics=wanted)
        other = await generator.generate(request, heard.append if is_streamed else None)
    assert heeded.answer.finish_reason == "stop"
    assert heeded.answer.num_tokens < 24
    for one, two in zip(
        (heeded.answer, *heeded.samples), (other.answer, *other.samples), strict=True
    ):
        assert (one.text, one.finish_reason) == (two.text, two.finish_reason)
        assert one.token_texts == two.token_texts
        np.testing.assert_allclose(one.token_logprobs, two.token_logprobs)
    if is_streamed:
        assert "".join(token.text for token in heard) == heeded.answer.text
        assert [token.logprob for token in heard] == pytest.approx(heeded.answer.token_logprobs)


async def test_log_probs_after_temperature_are_recognised():
    async with openai_server(**PLAIN, scales=True) as server, over(server) as generator:
        info = generator.info
        # The mock truncates before it tells, so not even those at temperature 1 are raw.
        assert info.capabilities["raw_logprobs_of_samples"] is False
        assert "sample_token_logprobs" not in info.statistics
        assert "temperature" in info.absent["sample_token_logprobs"]
        assert "answer_token_logprobs" in info.statistics


async def test_entropies_of_a_given_answer_are_those_of_the_same_generated_one():
    wanted = frozenset({"answer_token_logprobs", "answer_token_entropies"})
    async with openai_server(probes=()) as server, over(server) as generator:
        asked = replace(REQUEST, statistics=wanted)
        greedy = (await generator.generate(asked)).answer
        ends = greedy.finish_reason == "stop"
        given = GivenAnswer(greedy.text, append_eos=ends)
        scored = (await generator.generate(replace(asked, answer=given))).answer

    assert scored.token_ids == greedy.token_ids
    np.testing.assert_allclose(scored.token_logprobs, greedy.token_logprobs, atol=1e-6)
    np.testing.assert_allclose(scored.token_entropies, greedy.token_entropies, atol=1e-6)


async def test_probes_that_the_plugin_reads_are_known_by_their_sha256():
    known = probe_infos(ProbeConfig())
    inconsistency = known["predicted_dissimilarity"]
    probes = ("f" * 64, inconsistency.sha256)
    wanted = frozenset({"predicted_dissimilarity"})
    async with openai_server(probes=probes) as server, over(server, known) as generator:
        info = generator.info
        generation = await generator.generate(replace(REQUEST, statistics=wanted))

    assert dict(info.probes) == {"predicted_dissimilarity": inconsistency}
    assert "predicted_high_semantic_entropy" not in info.statistics
    [reading] = generation.probe_readings.values()
    assert reading.value == ((generation.answer.num_tokens + 1) % 10) / 10
    assert reading.distance_percentile == 20.0


async def test_a_raw_prompt_becomes_a_message_where_nothing_completes():
    generation = await generated({**PLAIN, "completes": False})

    assert "prompt_as_message" in generation.warnings


@pytest.mark.parametrize("chats", [True, False])
async def test_messages_that_a_server_does_not_take_are_an_error_of_their_field(chats):
    messages = ({"role": "tool", "content": "secret"},)
    with pytest.raises(ChatTemplateError) as error:
        await generated({**PLAIN, "chats": chats}, prompt=None, messages=messages)

    assert error.value.field == "messages"
    assert "secret" not in error.value.message


@pytest.mark.parametrize(("drops", "number"), [(("system",), 0), (("assistant",), 2), ((), None)])
async def test_a_message_that_the_servers_template_drops_is_refused_and_named(drops, number):
    messages = []
    for role in ("system", "user", "assistant", "user"):
        messages.append({"role": role, "content": "Hello"})
    chat = {"prompt": None, "messages": tuple(messages)}
    if number is None:
        assert (await generated({"drops": drops}, **chat)).answer.text
        return
    with pytest.raises(ChatTemplateError, match="leaves this message out") as error:
        await generated({"drops": drops}, **chat)

    assert error.value.field == f"messages.{number}"


async def test_a_prompt_over_the_context_of_a_server_without_tokens_is_its_own_refusal():
    with pytest.raises(PromptTooLong) as error:
        await generated(PLAIN, prompt="word " * 600)
    assert "512" in error.value.message


async def test_a_router_is_told_by_a_hash_which_calls_are_of_one_prompt():
    async with openai_server() as server, over(server) as generator:
        for prompt in ("What is the capital of Peru?", REQUEST.prompt, REQUEST.prompt):
            server.sessions.clear()
            await generator.generate(replace(REQUEST, prompt=prompt))
            # Calls by which the server is tried out are of none.
            assert server.sessions - {None} == set(
                session_of(replace(REQUEST, prompt=prompt)).values()
            )
    assert session_of(REQUEST) != session_of(replace(REQUEST, prompt="Another one"))
    # In every process, whatever its hash seed.
    assert session_of(replace(REQUEST, prompt="A prompt")) == {"X-Session-ID": "68d0072bd404b2ff"}
