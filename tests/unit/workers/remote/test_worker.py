"""What a gateway asks of a worker, and what it makes of a refusal."""

import asyncio
from dataclasses import replace

import pytest
from pydantic import SecretStr
from starlette.responses import JSONResponse

from models.errors import EngineError, GenerationUnavailable
from models.records import GenerationRequest, SamplingParams, Token
from models.similarity.pairs import PairRules
from models.threads import ModelThread
from tests.fakes.engine import FakeEngine
from tests.fakes.pair_models import FakeNliModel, FakePairModel
from tests.worker_servers import (
    listening,
    make_app,
    remote_generator,
    remote_similarity_scorers,
    running,
)
from workers.config import GeneratorConfig, LanguageModel
from workers.generation import GenerationWorker
from workers.hooks import Hooks
from workers.protocol import Served
from workers.remote import wire
from workers.remote.worker import connect_generator
from workers.similarity import NliWorker, SimilarityWorker

pytestmark = pytest.mark.anyio
REQUEST = GenerationRequest("Hello", sampling=SamplingParams(num_samples=2, max_new_tokens=8))


async def test_which_embedded_pair_models_know_the_answers_depends_on_the_model():
    model, rules, thread = FakeNliModel(), PairRules(), ModelThread("similarity")
    model.model_id = "embedded"
    local = SimilarityWorker(model, rules, thread=thread, max_batch_pairs=8)
    of_words = SimilarityWorker(FakePairModel(), rules, thread=thread, max_batch_pairs=8)
    nli = NliWorker(model, rules=rules, thread=thread, max_batch_pairs=8)
    similarity_scorers = {"cross_encoder": local, "nli": local, "rouge_l": of_words}
    long = LanguageModel.of_id("embedded-long")
    async with remote_similarity_scorers(similarity_scorers, nli, long) as (found, found_nli):
        told = {name: one.info.is_out_of_domain for name, one in found.items()}
        assert told == {"cross_encoder": True, "nli": False, "rouge_l": False}
        assert not found_nli.info.is_out_of_domain


async def test_a_worker_that_wants_another_key_is_unavailable_and_no_client_is_to_blame():
    async with running(GenerationWorker(FakeEngine())) as local:
        apps = [make_app(lambda: Served(generator=local), ["first"])]

        async def current(scope, receive, send):
            await apps[-1](scope, receive, send)

        async with listening(current) as port:
            url, key = f"http://127.0.0.1:{port}", SecretStr("first")
            servers = GeneratorConfig(url=url, api_key=key).checked()
            async with running(await connect_generator(servers, Hooks())) as remote:
                assert (await remote.generate(REQUEST)).answer.text
                apps.append(make_app(lambda: Served(generator=local), ["second", "first"]))
                assert (await remote.generate(REQUEST)).answer.text
                apps.append(make_app(lambda: Served(generator=local), ["second"]))
                with pytest.raises(GenerationUnavailable, match="it wants another key"):
                    await remote.generate(REQUEST)


async def test_a_worker_of_new_weights_answers_though_it_fails_to_say_what_it_is():
    async with running(GenerationWorker(FakeEngine())) as local:
        is_failing = False
        app = make_app(lambda: Served(generator=local))

        async def failing(scope, receive, send):
            if is_failing and scope["path"] == "/v1/info":
                error = {"error": wire.error_to_json(EngineError("the device is lost"))}
                await JSONResponse(error, 500)(scope, receive, send)
            else:
                await app(scope, receive, send)

        async with listening(failing) as port:
            servers = GeneratorConfig(url=f"http://127.0.0.1:{port}").checked()
            async with running(await connect_generator(servers, Hooks())) as remote:
                local.info = replace(local.info, identity="new weights")
                is_failing = True
                generation = await remote.generate(REQUEST)
                assert generation.identity == "new weights" != remote.info.identity
                is_failing = False
                await remote.generate(REQUEST)
                assert remote.info.identity == "new weights"


async def stretched(request, generation, on_token):
    """What a worker tells that does not stop."""
    while True:
        on_token(Token("more "))
        await asyncio.sleep(0.001)


async def padded(request, generation, on_token):
    """A worker that says it wrote, read and took more than anybody asked for."""
    answer = replace(generation.answer, token_ids=None, num_tokens=400_000)
    return replace(generation, answer=answer)


@pytest.mark.parametrize("lie", [stretched, padded])
async def test_no_more_tokens_are_taken_than_were_asked_for(lie):
    heard = []
    async with running(GenerationWorker(FakeEngine())) as local:
        honest = local.generate

        async def generate(request, on_token=None):
            return await lie(request, await honest(request), on_token)

        local.generate = generate
        async with remote_generator(local) as remote:
            with pytest.raises(GenerationUnavailable):
                await remote.generate(REQUEST, heard.append)
    assert len(heard) <= 8 + 2


@pytest.mark.parametrize(("field", "told"), [("generate_s", 900_000.0), ("prompt_tokens", 10**9)])
async def test_a_worker_says_no_more_of_time_and_prompt_than_can_be(field, told):
    async with running(GenerationWorker(FakeEngine())) as local:
        honest = local.generate

        async def generate(request, on_token=None):
            return replace(await honest(request, on_token), **{field: told})

        local.generate = generate
        async with remote_generator(local) as remote:
            generation = await remote.generate(REQUEST)
            assert getattr(generation, field) <= max(60, remote.info.max_context_tokens)
            assert generation.generate_s + generation.queue_s < 60


async def test_seconds_that_spoil_every_sum_are_no_reply():
    async with running(GenerationWorker(FakeEngine())) as local:
        honest = local.generate

        async def generate(request, on_token=None):
            return replace(await honest(request, on_token), generate_s=1e300)

        local.generate = generate
        async with remote_generator(local) as remote:
            with pytest.raises(GenerationUnavailable):
                await remote.generate(REQUEST)
