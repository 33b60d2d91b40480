"""OpenAI's endpoints, by their bodies; tests/clients has the clients themselves."""

import asyncio
import json

import pytest

from models.errors import EngineError
from models.probes.protocol import ProbeConfig
from tests.api.openai_calls import (
    CHAT,
    INPUTS,
    QUESTION,
    TEXT,
    answered,
    both,
    post,
    said_at,
    text_of,
    uncertainty_of,
)
from tests.conftest import serving
from tests.events import events_of
from tests.tiny_probes import saved

pytestmark = pytest.mark.anyio
PLACEMENTS = ["embedded", "remote"]


@pytest.mark.parametrize("logprobs", [False, True])
async def test_a_message_begins_without_the_blank_of_its_first_word(service, logprobs):
    own = (await service.generate(**INPUTS[CHAT])).json()["text"]
    assert own.startswith(" ")
    whole = await answered(service, CHAT, logprobs=logprobs)
    streamed = await chunks(service, CHAT, logprobs=logprobs, uncertainty={"cache": False})
    assert text_of(whole) == joined(streamed) == own[1:]
    assert text_of(await answered(service, TEXT)) == (await service.generate()).json()["text"]


@both
async def test_it_says_what_the_services_own_endpoint_says(service, path):
    own = (await service.generate(**INPUTS[path], seed=3, num_samples=4)).json()
    body = await answered(service, path, seed=3, uncertainty={"num_samples": 4})

    assert text_of(body) == said_at(path, own["text"])
    assert body["choices"][0]["finish_reason"] == own["finish_reason"] == "stop"
    if path == CHAT:  # a reasoning that is null ends tasks of Open WebUI
        assert body["choices"][0]["message"].keys() == {"role", "content", "refusal"}
    told = uncertainty_of(body)
    assert told["value"] == own["uncertainty"]
    for name in told.keys() - {"value", "sample_tokens", "timing_ms", "cached"}:
        assert told[name] == own[name], name
    assert told["cached"], "the same statistics, whichever endpoint asked for them"
    read, written = own["usage"]["prompt_tokens"], own["usage"]["completion_tokens"]
    assert told["sample_tokens"] == own["usage"]["sample_tokens"]
    assert body["usage"] == {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


@both
@pytest.mark.parametrize(
    ("temperature", "strategy"), [(None, "greedy"), (0, "greedy"), (0.7, "sample"), (1, "sample")]
)
async def test_with_a_temperature_the_answer_is_drawn_beside_the_same_samples(
    service, path, temperature, strategy
):
    body = await answered(service, path, temperature=temperature, seed=4)
    own = await service.generate(**INPUTS[path], answer_temperature=temperature or 0.0, seed=4)

    assert uncertainty_of(body)["provenance"]["strategy"] == strategy
    assert text_of(body) == said_at(path, own.json()["text"])
    assert uncertainty_of(body)["scores"] == own.json()["scores"]


async def test_two_draws_without_a_seed_are_two(service):
    draws = [uncertainty_of(await answered(service, CHAT, temperature=1)) for _ in range(2)]
    assert [draw["cached"] for draw in draws] == [False, False]


async def test_parts_of_text_are_joined_and_a_developer_is_the_system(service):
    parts = [{"type": "text", "text": "What is the capital "}, {"type": "text", "text": "of it?"}]
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": parts}]
    asked = []
    prepare = service.engine.prepare

    def remember(request, *, streams):
        asked.append(request.messages)
        return prepare(request, streams=streams)

    service.engine.prepare = remember
    await answered(service, CHAT, messages=messages)
    system = {"role": "system", "content": "Be brief."}
    assert asked == [(system, {"role": "user", "content": "What is the capital of it?"})]


async def test_a_list_of_one_prompt_is_a_prompt(service):
    listed = await answered(service, TEXT, prompt=[QUESTION])
    assert uncertainty_of(await answered(service, TEXT))["cached"]
    assert text_of(listed)


async def chunks(service, path, **body):
    response = await post(service, path, stream=True, **body)
    assert response.status_code == 200, response.text
    *events, done = events_of(response.text)
    assert done.data == "[DONE]"
    assert {event.name for event in events} == {"message"}
    return [event.data for event in events]


def joined(streamed):
    texts = []
    for chunk in streamed:
        for choice in chunk["choices"]:
            texts.append(
                choice["delta"].get("content", "") if "delta" in choice else choice["text"]
            )
    return "".join(texts)


@both
@pytest.mark.parametrize("temperature", [0, 1])
async def test_chunks_join_to_the_whole_and_the_last_one_has_the_uncertainty(
    service, path, temperature
):
    body = {"temperature": temperature, "seed": 5, "uncertainty": {"cache": False}}
    whole = await answered(service, path, **body)
    streamed = await chunks(service, path, **body)

    assert joined(streamed) == text_of(whole)
    name = "chat.completion.chunk" if path == CHAT else "text_completion"
    assert {chunk["object"] for chunk in streamed} == {name}
    assert len({(chunk["id"], chunk["created"], chunk["model"]) for chunk in streamed}) == 1
    if path == CHAT:
        assert streamed[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    *others, last = [chunk["choices"][0] for chunk in streamed]
    assert {choice["finish_reason"] for choice in others} == {None}
    assert last["finish_reason"] == "stop"
    told, expected = last["uncertainty"], uncertainty_of(whole)
    assert told["value"] == expected["value"]
    assert told["scores"] == expected["scores"]
    if path == CHAT:  # where OpenAI's own client puts a message together, it keeps deltas alone
        assert last["delta"] == {"uncertainty": told}
    assert not any("usage" in chunk for chunk in streamed)


@both
async def test_a_cached_answer_is_streamed_as_well(service, path):
    whole = await answered(service, path)
    streamed = await chunks(service, path)
    assert joined(streamed) == text_of(whole)
    assert streamed[-1]["choices"][0]["uncertainty"]["cached"]


@both
async def test_a_stream_may_end_with_its_usage(service, path):
    whole = await answered(service, path)
    streamed = await chunks(service, path, stream_options={"include_usage": True})
    assert [chunk["usage"] for chunk in streamed[:-1]] == [None] * (len(streamed) - 1)
    assert (streamed[-1]["choices"], streamed[-1]["usage"]) == ([], whole["usage"])


@both
async def test_a_stream_may_tell_its_usage_so_far_in_every_chunk(service, path):
    options = {"include_usage": True, "continuous_usage_stats": True}
    asked = {"stream_options": options, "uncertainty": {"cache": False}}
    *so_far, last = [chunk["usage"] for chunk in await chunks(service, path, **asked)]
    counts = [usage["completion_tokens"] for usage in so_far]
    assert counts == sorted(counts)
    assert counts[-1] == last["completion_tokens"] > 0
    assert {usage["prompt_tokens"] for usage in so_far} == {None}
    assert last["prompt_tokens"] > 0


@pytest.mark.parametrize("cache", [False, True], ids=["computed", "cached"])
async def test_log_probs_of_a_chat_are_told_whole_and_in_chunks(service, cache):
    body = {"logprobs": True, "seed": 2, "uncertainty": {"cache": cache}}
    whole = await answered(service, CHAT, **body)
    content = whole["choices"][0]["logprobs"]["content"]
    streamed = await chunks(service, CHAT, **body)
    in_chunks = []
    for chunk in streamed:
        for choice in chunk["choices"]:
            in_chunks += (choice["logprobs"] or {"content": []})["content"]

    assert "".join(token["token"] for token in content) == text_of(whole) == joined(streamed)
    assert in_chunks == content
    assert -sum(token["logprob"] for token in content) == pytest.approx(
        uncertainty_of(whole)["scores"]["sp"]
    )
    assert {bytes(token["bytes"]).decode() for token in content} == {
        token["token"] for token in content
    }


@pytest.mark.parametrize("cache", [False, True], ids=["computed", "cached"])
async def test_log_probs_of_a_text_say_where_each_token_begins(service, cache):
    body = {"logprobs": 0, "seed": 2, "uncertainty": {"cache": cache}}
    whole = await answered(service, TEXT, **body)
    told = whole["choices"][0]["logprobs"]
    streamed = await chunks(service, TEXT, **body)
    in_chunks = {"tokens": [], "token_logprobs": [], "text_offset": []}
    for chunk in streamed:
        for name, values in in_chunks.items():
            values += (chunk["choices"][0]["logprobs"] or {name: []})[name]

    assert told["top_logprobs"] is None
    for token, start in zip(told["tokens"], told["text_offset"], strict=True):
        assert text_of(whole)[start:].startswith(token)
    assert in_chunks == {name: told[name] for name in in_chunks}


async def test_log_probs_are_refused_where_the_model_tells_none(service):
    service.without_statistics("answer_token_logprobs")
    error = (await post(service, CHAT, logprobs=True)).json()["error"]
    assert (error["code"], error["param"]) == ("statistic_unavailable", "logprobs")


async def test_an_error_in_the_middle_of_a_stream_is_a_chunk_that_clients_raise(service):
    generate = service.generator.generate

    async def failing(request, on_token=None):
        await generate(request, on_token)
        await asyncio.sleep(0.05)
        raise EngineError("broken")

    service.generator.generate = failing
    response = await post(service, CHAT, stream=True)
    *_, last = [json.loads(line[6:]) for line in response.text.splitlines() if line]
    assert last["error"]["code"] == "engine_error"
    assert last["error"]["type"] == "server_error"


async def test_models_are_listed_by_the_names_that_requests_may_have(service):
    listed = (await service.client.get("/v1/models")).json()
    names = [model["id"] for model in listed["data"]]
    assert names == ["fake", "cocoa"], "without a probe there is no light mode"
    for name in names:
        assert (await service.client.get(f"/v1/models/{name}")).json() in listed["data"]
        assert (await answered(service, CHAT, model=name))["model"] == name
    unknown = await service.client.get("/v1/models/no/such")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
    assert (await post(service, CHAT, model="fake:light")).json()["error"][
        "code"
    ] == "probe_missing"


async def test_the_mode_can_be_chosen_by_the_models_name(tmp_path):
    probes = ProbeConfig(inconsistency=saved(tmp_path))
    async with serving(probes=probes) as service:
        names = [model["id"] for model in (await service.client.get("/v1/models")).json()["data"]]
        assert names == ["fake", "cocoa", "fake:light", "cocoa:light"]
        for name in names:
            told = uncertainty_of(await answered(service, CHAT, model=name))
            is_light = name.endswith(":light")
            assert told["provenance"]["mode"] == ("light" if is_light else "full")
            assert ("cocoa_sp_light" in told["scores"]) == is_light
        by_field = await answered(service, CHAT, uncertainty={"mode": "light"})
        assert uncertainty_of(by_field)["provenance"]["mode"] == "light"
