"""What a gateway makes of a worker's lines: whose they are, and which errors they are."""

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from models import errors
from models.codec import to_json
from models.errors import GenerationUnavailable
from models.records import GenerationRequest, SamplingParams, Token
from tests.fakes.engine import FakeEngine
from tests.worker_servers import listening, running
from workers.config import GeneratorConfig
from workers.generation import GenerationWorker
from workers.hooks import Hooks
from workers.remote import wire
from workers.remote.worker import connect_generator
from workers.remote.worker_replies import decode_error

pytestmark = pytest.mark.anyio
SAMPLING = SamplingParams(num_samples=0, max_new_tokens=8, seed=1)
REQUEST = GenerationRequest("Hello", sampling=SAMPLING)
SECRET = GenerationRequest("Another key's prompt", sampling=SAMPLING)


@pytest.mark.parametrize(
    "error",
    [
        errors.PromptTooLong("<b>too long</b>", field="prompt"),
        errors.ChatTemplateError("<b>dropped</b>", field="messages.12"),
        errors.DeadlineExceeded("late"),
        errors.ProbeMissing("none"),
        errors.Overloaded("full", retry_after_s=3),
    ],
    ids=lambda error: error.code,
)
async def test_an_error_comes_back_as_the_one_that_was_raised(error):
    found = decode_error(to_json(wire.error_to_json(error)))
    assert type(found) is type(error)
    assert (found.field, found.retry_after_s) == (error.field, error.retry_after_s)
    assert found.message == error.message


async def test_an_error_whose_words_have_no_end_is_none():
    endless = errors.DeadlineExceeded("late " * 1000)
    with pytest.raises(wire.Garbled):
        decode_error(to_json(wire.error_to_json(endless)))


@pytest.mark.parametrize("kind", ["a token", "a result"])
async def test_an_answer_to_another_request_is_none(kind):
    heard = []
    async with running(GenerationWorker(FakeEngine())) as local:
        info = to_json(wire.GenerationInfo(local.info))
        theirs = wire.line_of("result", await local.generate(SECRET))
    if kind == "a token":
        theirs = wire.line_of("token", Token("secret")) + theirs

    async def tell(request):
        return Response(info)

    async def answer(request):
        await request.body()
        body = wire.encode_request(SECRET, streams=True)
        digest = wire.digest_of_call("/v1/generate", body)
        return Response(b"".join(digest + line for line in theirs.splitlines(keepends=True)))

    app = Starlette(
        routes=[Route("/v1/info", tell), Route("/v1/generate", answer, methods=["POST"])]
    )
    async with listening(app) as port:
        servers = GeneratorConfig(url=f"http://127.0.0.1:{port}").checked()
        async with running(await connect_generator(servers, Hooks())) as remote:
            with pytest.raises(GenerationUnavailable, match="of another call"):
                await remote.generate(REQUEST, heard.append)
    assert heard == []
