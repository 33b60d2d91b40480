"""A gateway whose workers are other processes, which die, come back, hang, or talk nonsense."""

import asyncio
import json
import signal
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from models.codec import to_json
from models.errors import GenerationUnavailable
from models.records import GenerationRequest, SamplingParams
from models.statistics import supplied_by
from tests.chaos.certificates import make_authority
from tests.chaos.cocoa_process import cocoa, cocoa_serve, outcome, until
from tests.chaos.proxy import proxy_to
from tests.chaos.redis_server import running_redis
from tests.fakes.engine import FakeEngine
from tests.worker_servers import listening, make_app, remote_generator, running
from workers.config import GeneratorConfig
from workers.generation import GenerationWorker
from workers.hooks import Hooks
from workers.protocol import Served
from workers.remote import wire
from workers.remote.worker import connect_generator

SECRET = "a secret of the test"
REQUEST = GenerationRequest(
    prompt="What is the capital of France?",
    sampling=SamplingParams(num_samples=3, max_new_tokens=8, seed=1),
    statistics=supplied_by("answer", "samples"),
    timeout_s=20.0,
)


@pytest.fixture
def gate(tmp_path):
    """The file that lets prompts which say "wait" through."""
    return tmp_path / "gate"


@pytest.fixture
def worker(gate):
    """Starts workers; they end with the test."""
    with ExitStack() as stack:

        def start(role, port=0, **environment):
            settings = {
                "COCOA_GENERATION__ENGINE": "gated",
                "COCOA_NLI__MODEL": "",
                "COCOA_TEST_GATE": str(gate),
                "COCOA_WORKER__API_KEY": SECRET,
                "COCOA_STALL_S": "0",
            }
            process = cocoa("worker", role, port=port, **settings | environment)
            return stack.enter_context(process)

        yield start


@contextmanager
def gateway(generation, similarity, **environment):
    """A gateway of these workers, ready; without a cache unless it is given one."""
    if "COCOA_CACHE__URL" not in environment:
        environment["COCOA_CACHE__ENABLED"] = "false"
    with cocoa_serve(
        COCOA_GENERATION__URL=generation.url,
        COCOA_GENERATION__API_KEY=SECRET,
        COCOA_SIMILARITY__URL=similarity.url,
        COCOA_SIMILARITY__API_KEY=SECRET,
        **environment,
    ) as process:
        process.wait_ready()
        yield process


def ready(*workers):
    for one in workers:
        one.wait_ready()
    return workers


def test_a_gateway_waits_for_its_workers_and_answers_through_them(worker):
    generation, similarity = ready(worker("generation"), worker("similarity"))
    with gateway(generation, similarity) as serving:
        full = serving.generate("Hello", estimators=["cocoa_sp"])
        version = serving.get("/version").json()

        assert outcome(full) == (200, None)
        assert full.json()["scores"]["cocoa_sp"] is not None
        assert version["model"]["id"] == "fake"
        assert "fake" in version["similarity_models"]
    assert not any(SECRET in line for one in (generation, similarity) for line in one.log)


def test_a_worker_lets_nobody_in_without_its_secret(worker):
    (generation,) = ready(worker("generation"))
    for headers in ({}, {"Authorization": "Bearer another"}):
        refused = httpx.get(f"{generation.url}/v1/info", headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthorized")
        called = httpx.post(f"{generation.url}/v1/generate", headers=headers, content=b"{}")
        assert called.status_code == 401


def test_a_generation_worker_that_is_killed_in_a_request_is_an_error_and_heals(worker, gate):
    generation, similarity = ready(worker("generation"), worker("similarity"))
    with gateway(generation, similarity) as serving, ThreadPoolExecutor(1) as threads:
        held = threads.submit(serving.generate, "wait for it")
        serving.wait_admitted()
        until(lambda: "cocoa_waiting" in serving.get("/metrics").text)
        port = generation.port
        generation.popen.kill()
        generation.popen.wait()

        assert outcome(held.result()) == (503, "generation_unavailable")
        assert held.result().headers["Retry-After"] == "1"
        assert outcome(serving.generate("Hello")) == (503, "generation_unavailable")
        assert serving.get("/readyz").status_code == 200  # its own process is well

        ready(worker("generation", port))
        until(lambda: outcome(serving.generate("Hello")) == (200, None))


def test_a_similarity_worker_that_is_killed_in_a_batch_is_an_error_and_heals(worker):
    generation, similarity = ready(
        worker("generation"), worker("similarity", COCOA_SIMILARITY__NAME="slow")
    )
    with (
        gateway(generation, similarity, COCOA_SIMILARITY__NAME="slow") as serving,
        ThreadPoolExecutor(1) as threads,
    ):
        held = threads.submit(serving.generate, "Hello", seed=1)
        until(lambda: "decode_batch_rows_count 1.0" in generation.get("/metrics").text)
        port = similarity.port
        similarity.popen.kill()
        similarity.popen.wait()

        assert outcome(held.result()) == (503, "similarity_unavailable")
        ready(worker("similarity", port, COCOA_SIMILARITY__NAME="slow"))
        until(lambda: outcome(serving.generate("Hello", seed=1)) == (200, None))


def test_a_worker_that_hangs_ends_in_the_deadline_and_is_back_when_it_goes_on(worker):
    generation, similarity = ready(worker("generation"), worker("similarity"))
    with gateway(generation, similarity) as serving:
        generation.popen.send_signal(signal.SIGSTOP)
        assert outcome(serving.generate("Hello", timeout_s=2)) == (504, "deadline_exceeded")
        generation.popen.send_signal(signal.SIGCONT)
        until(lambda: outcome(serving.generate("Hello")) == (200, None))


def test_a_client_that_goes_frees_its_rows_in_the_worker(worker, gate):
    generation, similarity = ready(worker("generation"), worker("similarity"))
    with gateway(generation, similarity) as serving:
        body = {"prompt": "wait for ever", "max_new_tokens": 8}
        with httpx.Client() as client, pytest.raises(httpx.ReadTimeout):
            client.post(f"{serving.url}/generate-with-uncertainty", json=body, timeout=1.0)
        # The call ends in the worker, as its own metrics tell.
        until(lambda: 'route="/v1/generate",status="200"' in generation.get("/metrics").text)
        assert serving.get("/metrics").text.count('status="499"') >= 1


def test_with_certificates_on_both_sides_nobody_else_is_let_in(worker, tmp_path):
    files = make_authority(tmp_path)
    ca, certificate, key = (str(files / name) for name in ("ca.pem", "server.pem", "server.key"))
    tls = {"TLS_CA_FILE": ca, "TLS_CERT_FILE": certificate, "TLS_KEY_FILE": key}
    generation = worker("generation", **{f"COCOA_WORKER__{name}": v for name, v in tls.items()})
    generation.wait_listening()
    url = f"https://localhost:{generation.port}"
    shown = ssl.create_default_context(cafile=ca)
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{url}/readyz", verify=shown)
    shown.load_cert_chain(certificate, key)
    until(lambda: httpx.get(f"{url}/readyz", verify=shown).status_code == 200)

    settings = {f"COCOA_GENERATION__{name}": value for name, value in tls.items()}
    with cocoa_serve(
        COCOA_GENERATION__URL=url, COCOA_GENERATION__API_KEY=SECRET, COCOA_NLI__MODEL="", **settings
    ) as serving:
        serving.wait_ready()
        assert outcome(serving.generate("Hello")) == (200, None)


def test_a_worker_without_its_certificate_ends_with_2(worker):
    process = worker("generation", COCOA_WORKER__TLS_CERT_FILE="/no/where")
    assert process.exit_code() == 2
    assert "COCOA_WORKER__TLS_CERT_FILE cannot be used: /no/where: No such file" in "".join(
        process.log
    )


def test_two_gateways_answer_as_one_would_and_one_serves_what_the_other_has_cached(
    worker, tmp_path
):
    generation, similarity = ready(worker("generation"), worker("similarity"))
    with running_redis(tmp_path) as redis:
        shared = {"COCOA_CACHE__URL": redis.url, "COCOA_CACHE__TIMEOUT_S": "1"}
        with (
            gateway(generation, similarity, **shared) as left,
            gateway(generation, similarity, **shared) as right,
        ):
            # Redis is asked from the first probe on.
            until(lambda: left.generate("Hello").json()["cached"])
            alone = left.generate("Another", seed=5, cache=False).json()
            other = right.generate("Another", seed=5, cache=False).json()
            assert alone["scores"] == other["scores"]
            assert alone["text"] == other["text"]
            assert right.generate("Hello").json()["cached"]


pytest_anyio = pytest.mark.anyio


@asynccontextmanager
async def fake_worker():
    async with running(GenerationWorker(FakeEngine())) as local:
        yield local


@pytest_anyio
async def test_a_connection_that_is_cut_between_two_calls_is_made_anew():
    async with (
        fake_worker() as local,
        listening(make_app(lambda: Served(generator=local))) as port,
        proxy_to(port) as proxy,
    ):
        servers = GeneratorConfig(url=f"http://127.0.0.1:{proxy.port}").checked()
        async with running(await connect_generator(servers, Hooks())) as remote:
            first = await remote.generate(REQUEST)
            proxy.cut()
            assert (await remote.generate(REQUEST)).answer.text == first.answer.text
            proxy.delay_s = 0.3
            assert (await remote.generate(REQUEST)).answer.text == first.answer.text


def answering(reply):
    """An application that says what a worker is, and answers every call with these bytes."""
    info = to_json(wire.GenerationInfo(GenerationWorker(FakeEngine()).info))

    async def tell(request: Request) -> Response:
        return Response(info)

    async def answer(request: Request) -> Response:
        digest = wire.digest_of_call("/v1/generate", await request.body())

        async def pieces():
            yield digest + reply

        return StreamingResponse(pieces())

    return Starlette(
        routes=[Route("/v1/info", tell), Route("/v1/generate", answer, methods=["POST"])]
    )


async def whole_answer():
    async with fake_worker() as local:
        return wire.line_of("result", await local.generate(REQUEST))


@pytest_anyio
@pytest.mark.parametrize(
    "spoil",
    [
        lambda line: b"",
        lambda line: line[: len(line) // 2],
        lambda line: b"<html>not here</html>\n",
        lambda line: b"result:null\n",
        lambda line: b'error:{"code": "of another world"}\n',
        lambda line: line.replace(b'"num_tokens":', b'"num_tokens":1e3,"was":'),
        lambda line: wire.line_of(
            "result", json.loads(line.removeprefix(b"result:")) | {"samples": []}
        ),
    ],
    ids=["nothing", "half", "html", "null", "unknown error", "wrong shapes", "no samples"],
)
async def test_a_worker_that_answers_garbage_is_an_error_that_quotes_nothing(spoil):
    reply = spoil(await whole_answer())
    async with listening(answering(reply)) as port:
        servers = GeneratorConfig(url=f"http://127.0.0.1:{port}").checked()
        async with running(await connect_generator(servers, Hooks())) as remote:
            with pytest.raises(GenerationUnavailable) as error:
                await asyncio.wait_for(remote.generate(REQUEST), 20)
    assert "html" not in error.value.message


@pytest_anyio
async def test_a_worker_that_comes_back_with_other_weights_is_known_as_another():
    async with fake_worker() as local, remote_generator(local) as remote:
        before = remote.info.identity
        local.info = replace(local.info, identity="2")
        generation = await remote.generate(REQUEST)
        assert generation.identity == "2" != before
        assert remote.info.identity == "2"
