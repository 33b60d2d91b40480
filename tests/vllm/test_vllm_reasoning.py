"""A model that reasons behind a real vLLM, with and without its parser, held to the engine in
process: texts, thoughts, and what is known of the tokens behind them.
"""

from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import httpx
import numpy as np
import pytest
import torch
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from transformers import AutoModelForCausalLM, AutoTokenizer

from app.cache.protocol import CacheConfig
from app.main import create_app
from app.settings import Settings
from cocoa_lab.loading import running_workers
from models.probes.protocol import ProbeConfig
from models.records import GenerationRequest, SamplingParams
from tests.conftest import GENERATE
from tests.events import events_of, named
from tests.vllm.agreement import at_once
from tests.vllm.reasoner import FOLDER, held_out_sums, model_of_efforts, padded_model
from tests.vllm.server import serving
from tests.worker_servers import listening, running
from workers.build import build_workers
from workers.config import GeneratorConfig, SimilaritySettings, WorkerConfig
from workers.hooks import Hooks
from workers.openai.generator import connect_generator

pytestmark = pytest.mark.anyio

NUM_PROMPTS = 100
WITHIN = 1e-4
SCORES = ["sp", "ppl", "mte", "cocoa_sp"]
LAW = {"max_new_tokens": 120, "num_samples": 4}
PARSER = ("--reasoning-parser", "deepseek_r1")


@pytest.fixture(scope="module", params=[(), PARSER], ids=["plain", "parser"])
async def server(request, anyio_backend, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reasoning")
    arguments = ("--enforce-eager", *request.param)
    model = padded_model(folder / "model")
    async with serving(folder, "reasoning", *arguments, model=model, probes=()) as running:
        running.has_parser = bool(request.param)
        yield running


@asynccontextmanager
async def service(generation):
    """A client of the service over that language model."""
    settings = Settings(
        generation=generation,
        similarity=SimilaritySettings(threads=1, model="embedded"),
        probes=ProbeConfig("", ""),
        calibrator="",
        cache=CacheConfig(enabled=False),
    )
    app = create_app(settings, on_death=lambda: None)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://cocoa", timeout=300) as client,
    ):
        await app.state.service.supervisor.ready.wait()
        yield client


@pytest.fixture(scope="module")
async def over(server):
    generation = GeneratorConfig(url=str(server.client.base_url), api="openai")
    async with service(generation) as client:
        yield client


@pytest.fixture(scope="module")
async def here(anyio_backend, tmp_path_factory):
    """The service over the same model in process."""
    model = model_of_efforts(tmp_path_factory.mktemp("here"))
    config = GeneratorConfig(model=str(model), dtype="float32", threads=1)
    async with service(config) as client:
        yield client


async def ask(client, path=GENERATE, **body):
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


class Apart:
    """The largest differences seen."""

    def __init__(self):
        self.largest = {}

    def see(self, name, found, expected):
        self.largest[name] = max(self.largest.get(name, 0.0), abs(found - expected))

    def see_tokens(self, found, expected):
        for one, other in zip(found, expected, strict=True):
            assert one["text"] == other["text"]
            self.see("log-prob", one["logprob"], other["logprob"])
            if one["entropy"] is not None:
                self.see("entropy", one["entropy"], other["entropy"])


def same_answer(found, expected):
    for name in ("text", "reasoning", "finish_reason"):
        assert found.get(name) == expected.get(name)
    for name in ("completion_tokens", "reasoning_tokens"):
        assert found["usage"][name] == expected["usage"][name]


async def test_100_reasoned_answers_and_their_scores_are_those_in_process(server, over, here):
    apart, reasoned = Apart(), []

    async def compare(body, seed):
        body = body | LAW | {"seed": seed, "return_tokens": True, "return_samples": True}
        found = await ask(over, **body, estimators=SCORES)
        expected = await ask(here, **body, estimators=SCORES)
        same_answer(found, expected)
        apart.see_tokens(found["tokens"], expected["tokens"])
        for name in ("sp", "ppl", "mte"):
            apart.see(name, found["scores"][name], expected["scores"][name])
        # The samples of the two are drawn otherwise: those of vLLM are compared in process.
        samples = [{"text": sample["text"]} for sample in found["samples"]]
        assert len(samples) == LAW["num_samples"]
        answer = f"<think>\n{found['reasoning']}\n</think>{found['text']}"
        given = {"messages": body["messages"], "answer": answer, "samples": samples}
        scored = await ask(here, "/score", **given, estimators=SCORES)
        assert found["reasons"].keys() == {"confidence"}
        apart.see("cocoa_sp", found["scores"]["cocoa_sp"], scored["scores"]["cocoa_sp"])
        reasoned.append(found["usage"]["reasoning_tokens"] > 10)

    chats = held_out_sums(NUM_PROMPTS)
    await at_once(8, [partial(compare, chat, seed) for seed, chat in enumerate(chats)])
    print(f"\n{NUM_PROMPTS} chats, parser {server.has_parser}, apart {apart.largest}", flush=True)
    assert all(reasoned)
    assert apart.largest.keys() == {"log-prob", "entropy", *SCORES}
    assert max(apart.largest.values()) < WITHIN


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": "<s><|user|>What is 34 + 21?<|assistant|><think>\n"},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"messages": [{"role": "user", "content": "What is 34 + 21? <think>"}]},
        {"reasoning_effort": "low"},
        {"max_new_tokens": 12},
        {"max_new_tokens": 1},
    ],
    ids=["opened", "shut", "a tag in the question", "effort", "cut off", "cut off at once"],
)
async def test_what_else_a_reasoning_may_be_is_what_it_is_in_process(over, here, body):
    chat = {} if "prompt" in body else held_out_sums(1)[0]
    asked = chat | LAW | body | {"seed": 1, "return_tokens": True, "estimators": ["sp", "mte"]}
    found, expected = [await ask(client, **asked) for client in (over, here)]
    apart = Apart()
    same_answer(found, expected)
    apart.see_tokens(found["tokens"], expected["tokens"])
    for name, value in expected["scores"].items():
        if value is None:
            assert found["reasons"][name] == expected["reasons"][name]
        else:
            apart.see(name, found["scores"][name], value)
    assert max(apart.largest.values(), default=0.0) < WITHIN
    assert found["warnings"] == expected["warnings"]


async def test_a_question_of_one_token_is_answered_without_a_reasoning_as_in_process(
    server, tmp_path
):
    law = SamplingParams(num_samples=0, max_new_tokens=1, max_reasoning_tokens=0)
    groups = ("1", "2"), ("<think>",)
    questions = []
    for body in held_out_sums(4):
        asked = GenerationRequest(messages=tuple(body["messages"]), sampling=law)
        shut = replace(asked, chat_template_kwargs={"enable_thinking": False})
        questions += [asked, shut]
    model = str(model_of_efforts(tmp_path))
    config = WorkerConfig(GeneratorConfig(model=model, dtype="float32", threads=1))
    async with running_workers(build_workers(config)) as workers:
        local = workers.generator
        known = [(await local.first_token_logprobs(one, groups)).logprobs for one in questions]
    remote = GeneratorConfig(url=str(server.client.base_url), api="openai").checked()
    async with running(await connect_generator(remote, Hooks(), ProbeConfig("", ""))) as there:
        told = [(await there.first_token_logprobs(one, groups)).logprobs for one in questions]

    np.testing.assert_allclose(told, known, atol=WITHIN)
    np.testing.assert_allclose(known[::2], known[1::2], atol=WITHIN)


async def test_variables_of_the_template_change_the_prompt_as_in_process(over, here):
    lengths = []
    shut = {"chat_template_kwargs": {"enable_thinking": False}}
    for body in ({}, {"reasoning_effort": "low"}, shut):
        asked = held_out_sums(1)[0] | LAW | body
        usages = [(await ask(client, **asked))["usage"] for client in (over, here)]
        assert usages[0]["prompt_tokens"] == usages[1]["prompt_tokens"]
        lengths.append(usages[0]["prompt_tokens"])
    assert len(set(lengths)) == 3


async def test_a_bound_of_the_reasoning_ends_it_where_it_does_in_process(server, over, here):
    apart, num_bound = Apart(), 0
    for bound in (1, 2, 5, 10, 20, 100):
        for chat in held_out_sums(4):
            body = chat | LAW | {"seed": 1, "return_tokens": True, "max_reasoning_tokens": bound}
            body["estimators"] = ["sp", "mte", "inconsistency"]
            if not server.has_parser:
                response = await over.post(GENERATE, json=body)
                assert response.status_code == 422, response.text
                assert "--reasoning-parser" in response.json()["error"]["message"]
                return
            found, expected = [await ask(client, **body) for client in (over, here)]
            same_answer(found, expected)
            apart.see_tokens(found["tokens"], expected["tokens"])
            num_bound += found["usage"]["reasoning_tokens"] == bound + 2  # the tags count there
            assert found["usage"]["reasoning_tokens"] <= bound + 2
            assert found["usage"]["sample_tokens"] > 0
    print(f"\n{num_bound} bound reasonings, apart {apart.largest}", flush=True)
    assert num_bound >= 20
    assert max(apart.largest.values()) < WITHIN


async def test_a_stream_tells_thoughts_and_answer_as_in_process(over, here):
    for chat in held_out_sums(5):
        told = []
        for client in (over, here):
            body = chat | LAW | {"seed": 1, "stream": True, "estimators": ["sp"]}
            events = events_of((await client.post(GENERATE, json=body)).text)
            pieces = [event["text"] for event in named(events, "reasoning")]
            assert len(pieces) > 10, "told as they are written"
            tokens = [event["text"] for event in named(events, "token")]
            told.append(("".join(pieces).strip(), "".join(tokens), len(tokens)))
        assert told[0] == told[1]


async def test_log_probs_of_samples_are_those_behind_their_own_reasoning(server, over):
    """Scored by a forward pass of transformers over each sample's prompt, thoughts and answer."""
    model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    farthest, num_read = 0.0, 0
    for seed, chat in enumerate(held_out_sums(25)):
        body = chat | LAW | {"seed": seed, "strategy": "mbr", "return_tokens": True}
        found = await ask(over, **body, estimators=["sp"])
        prompt = tokenizer.apply_chat_template(chat["messages"], add_generation_prompt=True)
        thoughts = f"<think>\n{found['reasoning']}\n</think>"
        before = tokenizer(thoughts, add_special_tokens=False)["input_ids"]
        behind = tokenizer(found["text"], add_special_tokens=False)["input_ids"]
        behind += [tokenizer.eos_token_id]
        usage = found["usage"]
        if (len(before), len(behind)) != (usage["reasoning_tokens"], len(found["tokens"])):
            continue  # drawn as other tokens than its text is read as
        ids = [*prompt["input_ids"], *before, *behind]
        with torch.inference_mode():
            logprobs = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        for place, token in enumerate(found["tokens"], len(ids) - len(behind)):
            expected = float(logprobs[place - 1, ids[place]])
            farthest, num_read = max(farthest, abs(token["logprob"] - expected)), num_read + 1
    print(f"\nlog-probs of {num_read} tokens of samples, farthest {farthest:.1e}", flush=True)
    assert num_read > 25
    assert farthest < WITHIN


def chats_only(server):
    """What a gateway leaves of a server that serves chat completions alone."""

    async def forward(request):
        body, json = await request.body(), {"content-type": "application/json"}
        path = request.url.path
        reply = await server.client.request(request.method, path, content=body, headers=json)
        kind = reply.headers["content-type"]
        return Response(reply.content, reply.status_code, media_type=kind)

    paths = ("/v1/models", "/v1/chat/completions")
    return Starlette(routes=[Route(path, forward, methods=["GET", "POST"]) for path in paths])


async def test_chats_alone_are_cut_where_their_tokens_end_the_reasoning(server, here):
    apart = Apart()
    async with listening(chats_only(server)) as port:
        generation = GeneratorConfig(url=f"http://127.0.0.1:{port}", api="openai")
        async with service(generation) as over:
            for chat in held_out_sums(20):
                body = chat | LAW | {"seed": 1, "return_tokens": True, "estimators": ["sp", "ppl"]}
                found, expected = [await ask(client, **body) for client in (over, here)]
                assert found["reasoning"] == expected["reasoning"]
                assert found["text"].strip() == expected["text"].strip()
                apart.see_tokens(found["tokens"], expected["tokens"])
                for name in ("sp", "ppl"):
                    apart.see(name, found["scores"][name], expected["scores"][name])
                events = events_of((await over.post(GENERATE, json=body | {"stream": True})).text)
                tokens = named(events, "token")
                assert "".join(token["text"] for token in tokens) == found["text"]
                assert len(tokens) == len(found["tokens"])
    print(f"\n20 chats over chat completions alone, apart {apart.largest}", flush=True)
    assert max(apart.largest.values()) < WITHIN
