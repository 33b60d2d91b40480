"""OpenAI's own client for Python, unmodified, against a running service."""

import asyncio
from contextlib import asynccontextmanager
from typing import Literal

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel

from models.errors import EngineError, Overloaded
from tests.chaos.listening import listening
from tests.conftest import until

# The first test waits for the service, too.
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]

MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]
ASKED = {"model": "cocoa", "messages": MESSAGES, "max_completion_tokens": 24, "seed": 1}
SCORED = {"uncertainty": {"num_samples": 4, "estimators": ["cocoa_sp", "inconsistency"]}}


@pytest.fixture
def client(url):
    with OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_a_chat_is_answered_with_its_uncertainty(client):
    answered = client.chat.completions.create(**ASKED, extra_body=SCORED)
    [choice] = answered.choices

    assert "Paris" in choice.message.content
    assert choice.finish_reason == "stop"
    assert answered.usage.total_tokens > answered.usage.completion_tokens > 0
    assert choice.uncertainty["estimator"] == "cocoa_sp"
    assert choice.uncertainty["value"] == choice.uncertainty["scores"]["cocoa_sp"]
    assert choice.uncertainty["provenance"]["num_samples"] == 4


def test_a_chat_is_streamed_with_its_uncertainty_at_the_end(client):
    whole = client.chat.completions.create(**ASKED, extra_body=SCORED)
    options = {"include_usage": True}
    streamed = client.chat.completions.create(
        **ASKED, extra_body=SCORED, stream=True, stream_options=options
    )
    *chunks, last, usage = list(streamed)

    texts = [chunk.choices[0].delta.content or "" for chunk in (*chunks, last)]
    assert "".join(texts) == whole.choices[0].message.content
    assert last.choices[0].finish_reason == "stop"
    assert last.choices[0].uncertainty["value"] == whole.choices[0].uncertainty["value"]
    assert (usage.choices, usage.usage) == ([], whole.usage)


def test_the_clients_own_helper_for_streams_puts_the_answer_together(client):
    with client.chat.completions.stream(**ASKED) as streaming:
        kinds = {event.type for event in streaming}
        final = streaming.get_final_completion()
    whole = client.chat.completions.create(**ASKED)

    assert "content.delta" in kinds
    assert final.choices[0].message.content == whole.choices[0].message.content
    assert final.choices[0].message.content.startswith("Paris")
    kept, told = final.choices[0].message.uncertainty, whole.choices[0].uncertainty
    assert kept["value"] == told["value"]
    assert kept["scores"] == told["scores"]


def test_a_text_is_continued_whole_and_in_chunks(client):
    asked = {"model": "cocoa", "prompt": MESSAGES[0]["content"], "max_tokens": 24, "seed": 1}
    whole = client.completions.create(**asked, extra_body=SCORED)
    chunks = list(client.completions.create(**asked, extra_body=SCORED, stream=True))

    assert "Paris" in whole.choices[0].text
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text
    told = chunks[-1].choices[0].uncertainty
    assert told["value"] == whole.choices[0].uncertainty["value"]


ASKED_ALONE = {"model": "cocoa", "input": MESSAGES[0]["content"], "max_output_tokens": 24}


def test_a_response_is_whole_and_streamed_with_its_uncertainty(client):
    whole = client.responses.create(**ASKED_ALONE, extra_body=SCORED)
    chat = client.chat.completions.create(**ASKED, extra_body=SCORED).choices[0]
    assert whole.output_text == chat.message.content
    assert whole.uncertainty["provenance"]["num_samples"] == 4
    assert whole.output[-1].uncertainty == whole.uncertainty
    wanted = ["message.output_text.logprobs"]
    with client.responses.stream(**ASKED_ALONE, include=wanted, extra_body=SCORED) as streaming:
        pieces = [one.delta for one in streaming if one.type == "response.output_text.delta"]
        final = streaming.get_final_response()
    assert "".join(pieces) == final.output_text == whole.output_text
    assert final.uncertainty["estimator"] == whole.uncertainty["estimator"]
    [part] = final.output[0].content
    assert "".join(one.token for one in part.logprobs) == final.output_text


def test_a_response_is_parsed_by_a_schema(client):
    class City(BaseModel):
        name: Literal["Paris", "Lyon", "Rome"]

    parsed = client.responses.parse(**ASKED_ALONE, text_format=City)
    assert parsed.output_parsed == City(name="Paris")
    assert [unit["kind"] for unit in parsed.uncertainty["units"]] == ["answer", "field"]


def test_what_a_response_cannot_have_is_raised_by_its_name(client):
    for asked in ({"previous_response_id": "a"}, {"store": True}):
        with pytest.raises(openai.UnprocessableEntityError) as caught:
            client.responses.create(**ASKED_ALONE, **asked)
        assert caught.value.param in asked
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="cocoa", input="word " * 2000)
    assert caught.value.code == "context_length_exceeded"


def test_log_probs_are_those_of_the_scores(client):
    scores = {"uncertainty": {"estimators": ["sp"]}}
    answered = client.chat.completions.create(**ASKED, logprobs=True, extra_body=scores)
    content = answered.choices[0].logprobs.content

    assert "".join(token.token for token in content) == answered.choices[0].message.content
    total = -sum(token.logprob for token in content)
    assert total == pytest.approx(answered.choices[0].uncertainty["scores"]["sp"])


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_likeliest_tokens_come_with_a_stream_as_with_a_whole_answer(client, temperature):
    asked = ASKED | {"logprobs": True, "top_logprobs": 2, "temperature": temperature}
    scored = {"uncertainty": {"num_samples": 3, "cache": False}}
    whole = client.chat.completions.create(**asked, extra_body=scored).choices[0]
    with client.chat.completions.stream(**asked, extra_body=scored) as streaming:
        streamed = streaming.get_final_completion().choices[0]

    assert streamed.message.content == whole.message.content
    assert streamed.logprobs.content == whole.logprobs.content
    assert all(len(token.top_logprobs) == 2 for token in streamed.logprobs.content)


def test_with_a_temperature_answers_are_drawn_and_a_seed_repeats_them(client):
    asked = ASKED | {"temperature": 1.0, "seed": 7}
    first, again = [client.chat.completions.create(**asked).choices[0] for _ in range(2)]
    assert first.uncertainty["provenance"]["strategy"] == "sample"
    assert first.message.content == again.message.content


def test_light_mode_is_a_name_of_the_model(client):
    names = [model.id for model in client.models.list()]
    assert {"cocoa", "cocoa:light"} <= set(names)
    assert client.models.retrieve(names[0]).id == names[0]
    answered = client.chat.completions.create(**ASKED | {"model": "cocoa:light"})
    assert answered.choices[0].uncertainty["provenance"]["mode"] == "light"


def test_the_raw_response_has_headers_and_the_same_object(client):
    raw = client.chat.completions.with_raw_response.create(**ASKED)
    parsed = raw.parse()
    assert raw.status_code == 200
    assert parsed.id == raw.headers["x-request-id"] == raw.request_id == parsed._request_id


def test_errors_are_the_clients_own_with_code_and_param(client):
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(**ASKED | {"model": "gpt-9"})
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        client.chat.completions.create(**ASKED, store=True)
    assert (refused.value.code, refused.value.param) == ("invalid_request", "store")
    assert refused.value.type == "invalid_request_error"
    assert refused.value.request_id


async def test_the_asynchronous_client_answers_streams_and_shows_raw_responses(url):
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        create = client.chat.completions.create
        whole, streamed, raw = await asyncio.gather(
            create(**ASKED, extra_body=SCORED),
            create(**ASKED, extra_body=SCORED, stream=True),
            client.chat.completions.with_raw_response.create(**ASKED),
        )
        chunks = [chunk async for chunk in streamed]
        texts = [chunk.choices[0].delta.content or "" for chunk in chunks]
        names = [model.id async for model in client.models.list()]

    assert "".join(texts) == whole.choices[0].message.content
    assert chunks[-1].choices[0].uncertainty["scores"] == whole.choices[0].uncertainty["scores"]
    assert raw.parse().choices[0].message.content == whole.choices[0].message.content
    assert "cocoa" in names


@asynccontextmanager
async def serving_fakes(**client_options):
    """A service over fake models, and a client of it."""
    async with listening() as (service, port, gate):
        gate.opened.set()
        url = f"http://127.0.0.1:{port}/v1"
        async with AsyncOpenAI(base_url=url, api_key="none", **client_options) as client:
            yield service, client


def fails_first(service, *errors):
    """Have the first generations raise these, one after another; returns what counts all."""
    remaining, times = list(errors), []

    async def fail(request):
        times.append(asyncio.get_running_loop().time())
        if remaining:
            raise remaining.pop(0)

    service.before_generating(fail)
    return times


FAKE = ASKED | {"max_completion_tokens": 64}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_the_client_repeats_what_was_refused_and_waits_as_long_as_it_is_told(stream):
    async with serving_fakes(max_retries=2) as (service, client):
        refusals = [Overloaded("full", retry_after_s=1), EngineError("broken")]
        times = fails_first(service, *refusals)
        answered = await client.chat.completions.create(**FAKE, stream=stream)
        if stream:
            assert [chunk async for chunk in answered][-1].choices[0].uncertainty
        else:
            assert answered.choices[0].uncertainty

    assert len(times) == 3
    assert times[1] - times[0] >= 1.0, "Retry-After of the 429"


async def test_the_client_gives_up_with_the_error_of_its_last_attempt():
    async with serving_fakes(max_retries=1) as (service, client):
        times = fails_first(service, *[EngineError("broken")] * 3)
        with pytest.raises(openai.InternalServerError) as failed:
            await client.chat.completions.create(**FAKE)
    assert (failed.value.status_code, failed.value.code) == (503, "engine_error")
    assert failed.value.type == "server_error"
    assert len(times) == 2


async def test_a_refusal_without_repetition_is_a_rate_limit_error():
    async with serving_fakes(max_retries=0) as (service, client):
        fails_first(service, Overloaded("full", retry_after_s=3))
        with pytest.raises(openai.RateLimitError) as refused:
            await client.chat.completions.create(**FAKE)
    assert (refused.value.code, refused.value.type) == ("overloaded", "rate_limit_error")
    assert refused.value.response.headers["retry-after"] == "3"


async def test_a_deadline_of_the_service_is_repeated_as_a_server_error():
    async with serving_fakes(max_retries=1) as (service, client):
        service.generation_takes(5)
        with pytest.raises(openai.InternalServerError) as late:
            await client.chat.completions.create(
                **FAKE, extra_body={"uncertainty": {"timeout_s": 0.1, "cache": False}}
            )
        metrics = (await service.client.get("/metrics")).text
    assert (late.value.status_code, late.value.code) == (504, "deadline_exceeded")
    assert 'cocoa_errors_total{code="deadline_exceeded"} 2.0' in metrics


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_time_out_of_the_client_frees_its_place(stream):
    async with serving_fakes(max_retries=0, timeout=0.3) as (service, client):
        service.generation_takes(30)
        with pytest.raises(openai.APITimeoutError):
            await client.chat.completions.create(**FAKE, stream=stream)
        await until(lambda: service.admission.num_admitted == 0)


async def test_an_error_in_the_middle_of_a_stream_is_raised_by_the_client():
    async with serving_fakes(max_retries=2) as (service, client):
        generate = service.generator.generate

        async def failing(request, on_token=None):
            await generate(request, on_token)
            await asyncio.sleep(0.05)
            raise EngineError("broken")

        service.generator.generate = failing
        streamed = await client.chat.completions.create(**FAKE, stream=True)
        texts = []

        async def read():
            async for chunk in streamed:
                texts.append(chunk.choices[0].delta.content)

        with pytest.raises(openai.APIError) as broken:
            await read()
    assert "".join(texts)
    assert (broken.value.code, broken.value.type) == ("engine_error", "server_error")


async def test_a_client_that_closes_its_stream_frees_its_place():
    async with serving_fakes(max_retries=0) as (service, client):
        generate = service.generator.generate

        async def endless(request, on_token=None):
            await generate(request, on_token)
            await asyncio.Event().wait()

        service.generator.generate = endless
        streamed = await client.chat.completions.create(**FAKE, stream=True)
        async for _ in streamed:
            break
        assert service.admission.num_admitted == 1
        await streamed.close()
        await until(lambda: service.admission.num_admitted == 0)
