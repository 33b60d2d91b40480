"""Our own client, synchronous and asynchronous, against a service on a port."""

import asyncio
import functools
import subprocess
import sys
import zipfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cocoa_client import AsyncClient, Client, CocoaError, errors

from app.feedback.protocol import FeedbackConfig
from models.errors import EngineError, InvalidLogits, NotReady, Overloaded
from tests.conftest import serving
from tests.worker_servers import listening

pytestmark = pytest.mark.anyio

FOLDER = Path(__file__).parents[2] / "clients" / "python"
PROMPT = "What is the capital of France?"
OPTIONS = {"max_new_tokens": 16, "seed": 3}


class Waiting:
    """The synchronous client, on a thread."""

    def __init__(self, url, **settings):
        self._client = Client(url, **settings)

    def __getattr__(self, name):
        return functools.partial(asyncio.to_thread, getattr(self._client, name))

    async def tokens_and_result(self, *arguments, **options):
        def read():
            with self._client.stream(*arguments, **options) as answer:
                return list(answer), answer.result()

        return await asyncio.to_thread(read)

    async def first_token(self, *arguments, **options):
        def read():
            with self._client.stream(*arguments, **options) as answer:
                return next(iter(answer))

        return await asyncio.to_thread(read)

    async def aclose(self):
        self._client.close()


class Awaited(AsyncClient):
    """The asynchronous client."""

    async def tokens_and_result(self, *arguments, **options):
        async with self.stream(*arguments, **options) as answer:
            return [token async for token in answer], await answer.result()

    async def first_token(self, *arguments, **options):
        async with self.stream(*arguments, **options) as answer:
            return await anext(aiter(answer))

    async def aclose(self):
        await self.close()


@pytest.fixture(params=[Waiting, Awaited], ids=["sync", "async"])
def kind(request):
    return request.param


@asynccontextmanager
async def asking(kind, app, **settings):
    """A client of an application that listens."""
    async with listening(app) as port:
        client = kind(f"http://127.0.0.1:{port}", **settings)
        try:
            yield client
        finally:
            await client.aclose()


@pytest.fixture
async def client(service, kind):
    async with asking(kind, service.app) as running:
        yield running


def fails_first(service, error, times):
    """Have the first generations fail."""
    left = [times]

    async def maybe_fail(request):
        left[0] -= 1
        if left[0] >= 0:
            raise error

    service.before_generating(maybe_fail)
    return left


async def test_an_answer_is_what_the_service_says(service, client):
    raw = await service.generate(prompt=PROMPT, **OPTIONS, return_samples=True, explain=True)
    answer = await client.generate_with_uncertainty(
        PROMPT, **OPTIONS, return_samples=True, explain=True
    )
    momentary = {"id", "timing_ms", "cached"}
    said = {name: value for name, value in raw.json().items() if name not in momentary}
    assert answer.model_dump(exclude=momentary) == said
    assert answer.cached


async def test_a_chat_and_other_answers_are_scored(client):
    messages = [{"role": "user", "content": PROMPT}]
    chat = await client.generate_with_uncertainty(messages=messages, **OPTIONS)
    assert chat.text is not None

    scored = await client.score("Paris", samples=[{"text": "Paris"}], estimators=["consistency"])
    assert scored.strategy == "given"

    several = await client.score_all(
        [
            {"answer": "Paris", "samples": [{"text": "Paris"}], "estimators": ["consistency"]},
            {"answer": "Paris"},
        ]
    )
    assert several[0].result.scores.keys() == {"consistency"}
    assert (several[1].result, several[1].error.code) == (None, "invalid_request")


async def test_tokens_come_before_the_result(service, client):
    whole = await client.generate_with_uncertainty(
        PROMPT, **OPTIONS, cache=False, return_tokens=True
    )
    tokens, result = await client.tokens_and_result(
        PROMPT, **OPTIONS, cache=False, return_tokens=True
    )
    assert tokens == whole.tokens
    assert result.scores == whole.scores


async def test_what_runs_there_is_told(client):
    assert (await client.version()).model.id == "fake"
    names = [one.name for one in (await client.estimators()).estimators]
    assert "rb_cocoa_sp" in names
    assert (await client.livez()).status == "alive"
    assert (await client.readyz()).status == "ready"


async def test_an_answer_is_labelled(kind, tmp_path):
    config = FeedbackConfig(path=str(tmp_path / "labels.jsonl"))
    async with serving(feedback=config) as service, asking(kind, service.app) as client:
        answer = await client.generate_with_uncertainty(PROMPT, **OPTIONS)
        kept = await client.feedback(answer.id, correct=True, task="capitals")
        assert (kept.id, kept.quality, kept.task) == (answer.id, 1.0, "capitals")
        with pytest.raises(errors.UnknownAnswer):
            await client.feedback("nobody", quality=0.5)


async def test_an_error_is_an_exception_of_its_code(service, client):
    with pytest.raises(errors.InvalidRequest) as caught:
        await client.generate_with_uncertainty(PROMPT, num_samples=65)
    error = caught.value
    assert (error.code, error.status, error.field) == ("invalid_request", 422, "num_samples")
    assert error.details[0].field == "num_samples"
    assert error.request_id
    assert "num_samples" in str(error)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Overloaded("full", retry_after_s=0), None),
        (EngineError("broken"), None),
        (NotReady("loading"), None),
        (InvalidLogits("NaN"), errors.InvalidLogits),
    ],
    ids=["429", "503", "503 not ready", "500"],
)
async def test_what_passes_is_repeated_and_nothing_else(service, client, error, expected):
    left = fails_first(service, error, 2)
    if expected is None:
        assert (await client.generate_with_uncertainty(PROMPT, **OPTIONS)).text
        assert left == [-1]
    else:
        with pytest.raises(expected):
            await client.generate_with_uncertainty(PROMPT, **OPTIONS)
        assert left == [1]


async def test_a_stream_is_repeated_until_it_has_begun(service, client):
    left = fails_first(service, EngineError("broken"), 1)
    tokens, result = await client.tokens_and_result(PROMPT, **OPTIONS)
    assert tokens
    assert result.text == "".join(token.text for token in tokens)
    assert left == [-1]


async def test_an_error_in_a_stream_is_raised_where_it_is_read(service, client):
    generate = service.generator.generate

    async def failing(request, on_token=None):
        await generate(request, on_token)
        await asyncio.sleep(0.05)
        raise EngineError("broken")

    service.generator.generate = failing
    with pytest.raises(errors.EngineError) as caught:
        await client.tokens_and_result(PROMPT, **OPTIONS)
    assert caught.value.request_id


async def test_a_retry_after_beyond_the_deadline_is_not_waited_for(service, client):
    left = fails_first(service, Overloaded("full", retry_after_s=3600), 1)
    with pytest.raises(errors.Overloaded) as caught:
        await client.generate_with_uncertainty(PROMPT, **OPTIONS)
    assert caught.value.retry_after_s == 3600
    assert left == [0]


async def test_the_deadline_of_a_call_is_the_service_s_too(service, client):
    told = []

    async def wait(request):
        told.append(request)
        await asyncio.sleep(3600)

    service.before_generating(wait)
    with pytest.raises(errors.DeadlineExceeded):
        await client.generate_with_uncertainty(PROMPT, timeout_s=0.5, **OPTIONS)
    assert len(told) == 1
    with pytest.raises(errors.DeadlineExceeded):
        await client.tokens_and_result(PROMPT, timeout_s=0.5, **OPTIONS)


async def test_a_service_that_is_not_there_is_unreachable(kind):
    async with listening(None) as port:
        pass
    client = kind(f"http://127.0.0.1:{port}", max_retries=1)
    with pytest.raises(errors.Unreachable):
        await client.version()
    await client.aclose()


def answering(status, content=b"", headers=(), seen=None):
    """An application that says the same to everybody, and keeps the headers that it saw."""

    async def app(scope, receive, send):
        if seen is not None:
            seen.append(dict(scope["headers"]))
        start = {"type": "http.response.start", "status": status, "headers": list(headers)}
        await send(start)
        await send({"type": "http.response.body", "body": content})

    return app


async def test_the_key_is_sent_as_a_bearer_token(kind):
    seen = []
    app = answering(200, b'{"status": "alive"}', seen=seen)
    async with asking(kind, app, api_key="sesame") as client:
        await client.livez()
    assert seen[0][b"authorization"] == b"Bearer sesame"


@pytest.mark.parametrize(
    ("status", "content"),
    [(200, b"<html>"), (502, b"<html>"), (404, b'{"detail": "Not Found"}'), (200, b"{}")],
)
async def test_what_is_not_the_service_is_no_answer(kind, status, content):
    async with asking(kind, answering(status, content)) as client:
        with pytest.raises(errors.UnexpectedResponse):
            await client.readyz()


async def test_a_stream_that_breaks_off_is_no_answer(kind):
    begun = b'event: token\ndata: {"text": "Pa", "logprob": null, "entropy": null}\n\n'
    async with asking(kind, answering(200, begun)) as client:
        with pytest.raises(errors.Unreachable):
            await client.tokens_and_result(PROMPT)


async def test_whoever_leaves_a_stream_ends_its_work(service, client):
    generate, ended = service.generator.generate, asyncio.Event()

    async def endless(request, on_token=None):
        try:
            await generate(request, on_token)
            await asyncio.sleep(3600)
        finally:
            ended.set()

    service.generator.generate = endless
    assert await client.first_token(PROMPT, **OPTIONS)
    await asyncio.wait_for(ended.wait(), 30)


async def test_every_error_of_the_document_has_a_class(service):
    document, codes = (await service.client.get("/openapi.json")).json(), set()
    for path, methods in document["paths"].items():
        for operation in [] if path.startswith("/v1/") else methods.values():
            for status, response in operation["responses"].items():
                if status != "200":
                    codes |= response["content"]["application/json"]["examples"].keys()
    assert len(codes) > 20
    assert codes <= errors.BY_CODE.keys()
    assert all(issubclass(one, CocoaError) for one in errors.BY_CODE.values())


def test_bodies_are_generated_from_the_document(tmp_path):
    subprocess.run([sys.executable, FOLDER / "generate.py", tmp_path], check=True)
    for name in ("models.py", "options.py"):
        committed = (FOLDER / "cocoa_client" / name).read_text()
        assert (tmp_path / name).read_text() == committed, "run clients/python/generate.py"


def test_the_wheel_is_small_and_has_two_dependencies(tmp_path):
    command = ["pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([sys.executable, "-m", *command, "-w", tmp_path, FOLDER], check=True)
    [wheel] = tmp_path.glob("cocoa_client-*.whl")
    assert wheel.stat().st_size <= 60_000
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [metadata] = [name for name in names if name.endswith("METADATA")]
        lines = archive.read(metadata).decode().splitlines()
    needed = [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist")]
    assert needed == ["httpx>=0.27", "pydantic>=2.11"]
    assert "cocoa_client/py.typed" in names
    assert not any(name.endswith("generate.py") for name in names)
