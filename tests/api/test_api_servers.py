"""The service over an OpenAI-compatible server, which lacks this and that."""

import copy
import json
from contextlib import asynccontextmanager
from itertools import count

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse

from app.main import create_app
from app.settings import Settings
from models.embedded import PROBES_DIR
from models.probes.protocol import ProbeConfig
from models.similarity.protocol import NliConfig
from tests.chaos.redis_server import free_port
from tests.conftest import until
from tests.contract.profiles import SERVERS
from tests.openai_server import openai_server
from tests.worker_servers import listening
from workers.config import GeneratorConfig, SimilaritySettings
from workers.openai.replies import read_choices

pytestmark = pytest.mark.anyio

QUESTION = "What is the capital of France?"


@asynccontextmanager
async def serving_over(settings=None, others=None, **traits):
    """A client of the service, and the server behind it; `others` are settings beside it."""
    async with openai_server(**traits) as server:
        generation = GeneratorConfig(url=server.url, api="openai", **(settings or {}))
        app = create_app(
            Settings(
                generation=generation,
                similarity=SimilaritySettings(name="fake"),
                nli=NliConfig(name="fake_nli", model="fake"),
                **({"calibrator": ""} | (others or {})),
            ),
            on_death=lambda: None,
        )
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://cocoa") as client,
        ):
            await app.state.service.supervisor.ready.wait()
            yield client, server


PROBE = {"probes": ProbeConfig(inconsistency=str(PROBES_DIR / "inconsistency"))}


@pytest.mark.parametrize(("required", "status"), [(False, 200), (True, 503)])
async def test_a_probe_that_is_set_and_cannot_be_read_is_told_and_can_cost_readiness(
    required, status, caplog
):
    others = PROBE | {"require_configured": required}
    async with serving_over(others=others, tokenizes=False) as (client, _):
        response = await client.get("/readyz")
        version = (await client.get("/version")).json()
        metrics = (await client.get("/metrics")).text

    assert response.status_code == status
    reason = version["unmet"]["COCOA_PROBES__INCONSISTENCY"]
    assert "needs the plugin" in reason
    assert f"COCOA_PROBES__INCONSISTENCY is set, and cannot be had: {reason}" in caplog.messages
    assert (reason in response.text) == required
    gauge = 'cocoa_capability{configured="true",name="predicted_dissimilarity"} 0.0'
    assert gauge in metrics
    assert 'cocoa_model_info{identity="' in metrics


NO_PATH = "COCOA_GENERATION__API says what answers there, COCOA_GENERATION__MODEL"
# settings of the model beside its url, whether something listens there, and what is waited for
WAITED_FOR = {
    "nobody": ({}, False, "no connection can be made (nobody listens there"),
    "no worker": ({}, True, f"GET /v1/info: status 404; {NO_PATH}"),
    "no list": (
        {"api": "openai"},
        True,
        f"it lists no models (GET /v1/models: status 404); {NO_PATH}",
    ),
    "no such path": (
        {"api": "openai", "model": "mine"},
        True,
        f"nor chats (POST /v1/chat/completions: status 404); {NO_PATH}",
    ),
}


@pytest.mark.parametrize(("settings", "listens", "told"), WAITED_FOR.values(), ids=WAITED_FOR)
async def test_readiness_says_what_is_waited_for(settings, listens, told):
    async with listening(Starlette()) as port:
        url = f"http://127.0.0.1:{port if listens else free_port()}"
        app = create_app(Settings(generation=GeneratorConfig(url=url, **settings)))
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://cocoa") as client,
        ):
            word = told.partition(" ")[0]
            await until(lambda: word in app.state.service.troubles.get("generation", ""))
            response = await client.get("/readyz")
    assert response.status_code == 503
    message = response.json()["error"]["message"]
    assert message.startswith("the service is starting; it waits for the server of generation: ")
    assert told in message


async def generated(client, status=200, **body):
    asked = {"prompt": QUESTION, "max_new_tokens": 8, "seed": 3} | body
    response = await client.post("/generate-with-uncertainty", json=asked)
    assert response.status_code == status, response.text
    return response.json()


async def test_without_log_probs_inconsistency_is_the_uncertainty_and_said_to_stand_in():
    async with serving_over(tokenizes=False, max_logprobs=None) as (client, _):
        result = await generated(client)

    assert (result["estimator"], result["provenance"]["degraded"]) == ("inconsistency", True)
    assert result["uncertainty"] == result["scores"]["inconsistency"] is not None
    assert result["scores"]["cocoa_sp"] is None
    assert "tells no log-probs" in result["reasons"]["cocoa_sp"]


async def test_without_entropies_what_reads_them_is_null_with_a_reason():
    async with serving_over() as (client, _):
        result = await generated(client)
        estimators = (await client.get("/estimators")).json()["estimators"]
        version = (await client.get("/version")).json()

    assert result["scores"]["mte"] is None
    assert "cocoa-vllm" in result["reasons"]["mte"]
    assert (result["estimator"], result["provenance"]["degraded"]) == ("rb_cocoa_root_sp", False)
    [mte] = [one for one in estimators if one["name"] == "mte"]
    assert not mte["available"]
    assert "cocoa-vllm" in mte["reason"]
    assert version["model"]["id"] == "tiny"


async def test_with_the_plugin_entropies_are_exact():
    async with serving_over(probes=()) as (client, _):
        result = await generated(client, return_tokens=True)

    assert result["scores"]["mte"] > 0
    assert all(token["entropy"] is not None for token in result["tokens"])


@pytest.mark.parametrize(
    ("traits", "reason"),
    [({}, "cocoa-vllm"), ({"probes": ()}, "its plugin has no probes")],
    ids=["no plugin", "a plugin without probes"],
)
async def test_light_mode_without_hidden_states_is_refused_with_the_reason(traits, reason):
    async with serving_over(**traits) as (client, _):
        error = (await generated(client, 422, mode="light"))["error"]

    assert (error["code"], error["field"]) == ("light_needs_hidden_states", "mode")
    assert reason in error["message"]


async def test_a_server_that_is_gone_is_a_typed_error_that_may_be_repeated():
    async with serving_over() as (client, server):
        server.replies += [{"choices": []}] * 6
        error = (await generated(client, 503, cache=False))["error"]
        assert error["code"] == "generation_unavailable"
        server.replies.clear()
        assert (await generated(client))["scores"]["sp"] is not None


CHAT = {"prompt": None, "messages": [{"role": "user", "content": QUESTION}]}
REASONING = SERVERS["openai-reasoning"] | {"model": "gpt-5"}
CALLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {"properties": {"city": {"enum": ["Paris", "Rome"]}}},
        },
    }
]


async def test_a_server_of_four_slots_answers_a_default_request_with_ten_samples():
    traits = SERVERS["llama.cpp"] | {"looks": {}, "owner": None}
    async with serving_over(**traits) as (client, server):
        found = await generated(client, return_samples=True)
        num_calls = max(body.get("n", 1) for _, body in server.bodies)
    assert len(found["samples"]) == 10
    assert found["scores"]["sp"] is not None
    assert num_calls == 10  # refused once


async def test_a_model_without_temperature_is_served_by_draws_which_is_said():
    settings = {"server": "openai-reasoning", "model": "gpt-5"}
    async with serving_over(settings, **REASONING) as (client, server):
        found = await generated(client, **CHAT)
        capabilities = (await client.get("/version")).json()["model_capabilities"]

    provenance = found["provenance"]
    assert (provenance["strategy"], provenance["degraded"]) == ("sample", True)
    assert found["uncertainty"] == found["scores"]["inconsistency"] is not None
    assert {"temperature_not_heeded", "seed_not_heeded"} & set(found["warnings"])
    assert (capabilities["server"], capabilities["temperature"]) == ("openai-reasoning", False)
    assert server.num_refused == 0


async def test_an_answer_that_no_server_reads_is_scored_by_inconsistency():
    traits = SERVERS["llama.cpp"]
    asked = {"answer": "Paris", "messages": CHAT["messages"]}
    async with serving_over(**traits) as (client, _):
        response = await client.post("/score", json=asked)
        found = response.json()
    assert response.status_code == 200, found
    assert found["scores"]["sp"] is None
    assert "cannot read an answer that is given" in found["reasons"]["sp"]
    assert found["uncertainty"] == found["scores"]["inconsistency"] is not None
    assert found["provenance"]["degraded"]


@pytest.mark.parametrize("named", [{}, {"estimators": ["sp"]}])
async def test_a_schema_whose_log_probs_are_of_no_law_is_scored_by_inconsistency(named):
    schema = {"enum": ["Rome", "Lyon"]}
    asked = {"messages": CHAT["messages"], "max_new_tokens": 24, **named}
    asked["response_format"] = {
        "type": "json_schema",
        "json_schema": {"name": "c", "schema": schema},
    }
    async with serving_over(**SERVERS["llama.cpp"] | {"masks": False}) as (client, _):
        response = await client.post("/generate-with-uncertainty", json=asked)
    found = response.json()
    if named:
        error = found["error"]
        assert (response.status_code, error["field"]) == (422, "estimators")
        assert "under a response_format" in error["message"]
        return
    assert response.status_code == 200, found
    assert found["scores"]["sp"] is None
    assert "under a response_format" in found["reasons"]["sp"]
    assert found["estimator"] == "inconsistency"
    assert found["uncertainty"] == found["scores"]["inconsistency"] is not None


@pytest.mark.parametrize("form", ["joined", "apart"])
@pytest.mark.parametrize("stream", [False, True])
async def test_calls_of_a_server_with_tools_are_told_as_openai_tells_them(form, stream):
    async with serving_over(tokenizes=False, tool_form=form) as (client, server):
        asked = {"model": "cocoa", "messages": CHAT["messages"], "tools": CALLS, "max_tokens": 80}
        response = await client.post("/v1/chat/completions", json=asked | {"stream": stream})
        assert response.status_code == 200, response.text
        whole = response.text
        if not stream:
            [choice] = response.json()["choices"]
            whole = choice["message"]["tool_calls"][0]["function"]["name"]
            assert choice["finish_reason"] == "tool_calls"
            assert choice["uncertainty"]["value"] is not None
        assert "weather" in whole
        assert "<tool_call>" not in whole.partition('"uncertainty"')[0]
        assert any(body.get("n") == 10 for _, body in server.bodies)


SIGNED = {"extra_content": {"google": {"thought_signature": "c2lnbmVk"}}}
DETAILS = [
    {"type": "reasoning.text", "text": "So it is.", "signature": "eA==", "index": 0},
    {"type": "reasoning.encrypted", "data": "eQ==", "index": 1},
]
BLOCKS = [
    {"type": "thinking", "thinking": "Hm. So.", "signature": "eg=="},
    {"type": "thinking", "thinking": "Yes.", "signature": "eA=="},
]
SIGNED_TURN = SIGNED | {"reasoning_details": DETAILS, "thinking_blocks": BLOCKS}
FUNCTION = {"name": "weather", "arguments": "{}"}
HISTORY = [
    {"role": "user", "content": "How is it?", "name": "Bo"},
    {
        "role": "assistant",
        "content": "I look.",
        "thinking": "Hm.",
        "tool_calls": [{"id": "a", "type": "function", "function": FUNCTION, **SIGNED}],
        **SIGNED_TURN,
    },
    *CHAT["messages"],
]
# The same as servers get it: a reasoning by both its names.
SENT = copy.deepcopy(HISTORY)
SENT[1]["reasoning_content"] = SENT[1]["reasoning"] = SENT[1].pop("thinking")


@pytest.mark.parametrize("stream", [False, True])
async def test_what_a_server_wants_back_with_answers_and_calls_travels_both_ways(stream):
    def signed(choice, body):
        message = choice.get("message") or choice.get("delta") or {}
        if "message" in choice or choice.get("finish_reason"):
            message |= SIGNED_TURN
        for call in message.get("tool_calls", ()):
            call |= SIGNED

    traits = {"tokenizes": False, "tool_form": "apart", "alter": signed}
    async with serving_over(**traits) as (client, server):
        asked = {"model": "cocoa", "messages": HISTORY, "tools": CALLS, "max_tokens": 80}
        response = await client.post("/v1/chat/completions", json=asked | {"stream": stream})
        [sent, *_] = server.sent("/v1/chat/completions")[-2:]

    assert response.status_code == 200, response.text
    assert response.text.count(json.dumps(SIGNED, separators=(",", ":"))[1:-1]) == 2
    for name, told in SIGNED_TURN.items():
        assert json.dumps({name: told}, separators=(",", ":"))[1:-1] in response.text
    assert "not_shown" not in response.text
    assert sent["messages"] == SENT


def test_parts_of_a_reasoning_that_are_streamed_are_put_together():
    pieces = [
        {"reasoning_details": [{"type": "reasoning.text", "text": "So ", "index": 0}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "Hm. ", "signature": ""}]},
        {"reasoning_details": [{"type": "reasoning.text", "text": "it is.", "index": 0}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "So.", "signature": None}]},
        {"reasoning_details": [DETAILS[0] | {"text": None}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "eg=="}]},
        {"reasoning_details": [DETAILS[1]], "thinking_blocks": [BLOCKS[1]]},
        {"reasoning_details": ["?"], "thinking_blocks": {}, "content": "Paris."},
    ]
    [choice] = read_choices([{"choices": [{"delta": piece}]} for piece in pieces], 1)
    assert choice.text == "Paris."
    assert choice.extra == ({"reasoning_details": DETAILS, "thinking_blocks": BLOCKS},)


async def test_signatures_of_calls_are_no_part_of_what_is_compared():
    numbers = count()

    def signed(choice, body):
        for call in choice.get("message", {}).get("tool_calls", ()):
            call |= {"extra_content": {"google": {"thought_signature": str(next(numbers))}}}

    answers = []
    for alter in (None, signed):
        traits = {"tokenizes": False, "tool_form": "apart", "alter": alter}
        async with serving_over(**traits) as (client, _):
            answers.append(await generated(client, **CHAT, tools=CALLS, max_new_tokens=80))
    plain, told = answers
    assert (told["text"], told["uncertainty"]) == (plain["text"], plain["uncertainty"])
    assert "extra_content" in told["tool_calls"][0]


@pytest.mark.parametrize(
    ("refused", "error_form", "warned"),
    [
        (["reasoning_content"], "message", set()),
        (["reasoning_content", "reasoning"], "param", {"reasoning_not_shown"}),
        (["name"], "detail", {"names_not_shown"}),
        (["extra_content"], "path", set()),
        (
            [*SIGNED_TURN, "reasoning_content", "reasoning", "name"],
            "unnamed",
            {"names_not_shown", "reasoning_not_shown"},
        ),
    ],
)
async def test_fields_of_messages_that_a_server_refuses_are_left_out_with_a_warning(
    refused, error_form, warned
):
    traits = {"tokenizes": False, "refuses": refused, "error_form": error_form}
    async with serving_over(**traits) as (client, server):
        found = await generated(client, **CHAT | {"messages": HISTORY})
        num_refused = server.num_refused
        await generated(client, **CHAT | {"messages": HISTORY}, seed=4)
        sent = server.sent("/v1/chat/completions")[-1]["messages"]

    assert {code for code in found["warnings"] if "not_shown" in code} == warned
    expected = copy.deepcopy(SENT)
    for part in (*expected, *expected[1]["tool_calls"]):
        for field in refused:
            part.pop(field, None)
    assert sent == expected
    assert num_refused == server.num_refused


async def test_a_whole_text_that_says_nothing_of_its_end_is_answered():
    async with serving_over(tokenizes=False, tells_end=False) as (client, _):
        assert (await generated(client))["scores"]["sp"] is not None


async def test_a_failure_that_passes_is_not_told():
    async with serving_over(tokenizes=False) as (client, server):
        server.replies += [JSONResponse({}, 529)]
        await generated(client)


@pytest.mark.parametrize("cache", [True, False])
async def test_a_server_without_room_for_longer_than_the_deadline_is_told_at_once(cache):
    async with serving_over() as (client, server):
        server.replies += [JSONResponse({}, 429, {"Retry-After": "30"})] * 9
        error = (await generated(client, 429, cache=cache, timeout_s=20))["error"]
        assert error["code"] == "overloaded"


async def test_tags_that_leak_make_no_samples_alike():
    countries = ["Serbia", "India", "Peru", "Chad"]

    def leaks(choice, body):
        country = countries[choice["index"]] if body.get("n", 1) > 1 else "Bulgaria"
        content = f"</think>\n\nIt is in {country}."
        choice["message"] = {"reasoning_content": "Let me see.", "content": content}

    traits = {"tokenizes": False, "completes": False, "max_logprobs": None}
    async with serving_over(alter=leaks, **traits) as (client, _):
        asked = CHAT | {"num_samples": 4, "return_samples": True}
        found = await generated(client, **asked)
    assert found["text"].strip() == "It is in Bulgaria."
    assert found["scores"]["inconsistency"] > 0.0
    assert [one["text"].strip() for one in found["samples"]] == [
        f"It is in {country}." for country in countries
    ]


async def test_an_empty_text_whose_end_no_log_probs_list_is_an_empty_answer():
    def empties(choice, body):
        choice["message"] = {"content": ""}
        if "logprobs" in body:
            choice["logprobs"] = {"content": []}

    wanted = {"model": "cocoa", "logprobs": True, "top_logprobs": 2} | CHAT
    async with serving_over(tokenizes=False, completes=False) as (client, server):
        server.alter = empties  # once it has been tried out
        response = await client.post("/v1/chat/completions", json=wanted)
    [choice] = response.json()["choices"]
    assert choice["message"]["content"] == ""
    assert "empty_answer" in choice["uncertainty"]["warnings"]


GREEDY = {
    "that tells no log-probs": {"tokenizes": False, "max_logprobs": None},
    "that tells log-probs": {"tokenizes": False},
    "of token ids": {},
}


@pytest.mark.parametrize("traits", GREEDY.values(), ids=GREEDY)
async def test_draws_that_are_none_make_no_answer_certain(traits):
    tells = traits.get("max_logprobs", 20) is not None
    units = {"units": "sentences"} if tells else {}
    async with serving_over(greedy_where=lambda body: True, **traits) as (client, server):
        server.bodies.clear()
        found = await generated(client, explain=True, **units)
        version = (await client.get("/version")).json()
        drawn = {"model": "cocoa", "messages": CHAT["messages"], "temperature": 0.7}
        chat = await client.post("/v1/chat/completions", json=drawn)
        named = await generated(client, 422, estimators=["inconsistency"])
        others = await generated(client, 422, strategy="mbr")
        assert not any(body.get("n") for _, body in server.bodies)

    assert found["text"]
    assert "draws_repeat" in found["warnings"]
    assert found["scores"]["inconsistency"] is None
    assert "repeat what is too unlikely" in found["reasons"]["inconsistency"]
    assert found.get("support") is None
    assert (found["scores"]["sp"] is not None) == tells
    assert found["uncertainty"] is None
    assert version["model_capabilities"]["temperature"] is False
    assert chat.status_code == 200, chat.text
    assert chat.json()["choices"][0]["message"]["content"]
    assert (named["error"]["field"], others["error"]["field"]) == ("estimators", "strategy")
