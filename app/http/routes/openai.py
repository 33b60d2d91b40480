"""OpenAI's endpoints: `POST /v1/chat/completions`, `POST /v1/completions`, `GET /v1/models`."""

from collections.abc import Callable
from dataclasses import replace

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter

from app.http.json_calls import is_in_background, json_response, read_body, takes, unless_gone
from app.http.openai.asks import ask_of
from app.http.openai.chunks import CHAT_CHUNKS, TEXT_CHUNKS, ChunkKind, Chunks
from app.http.openai.errors import named_by_params
from app.http.openai.names import is_light, served_names, unknown_model
from app.http.openai.requests import ChatRequest, CompletionRequest
from app.http.openai.responses import Wanted, chat_completion, completion, renew
from app.http.openai.schemas import (
    ChatCompletion,
    Completion,
    OpenAIError,
    ServedModel,
    ServedModels,
)
from app.http.openai.tools import CallStream
from app.http.repeats import Repeats
from app.http.service import Service
from app.http.streams import EventStream
from app.scoring.ask import Ask
from app.scoring.result import Result
from app.scoring.scorer import Scorer
from models.errors import StatisticUnavailable
from models.records import OnToken
from models.units.tool_calls import names_of

router = APIRouter(tags=["OpenAI"])
_Asked = ChatRequest | CompletionRequest
_CHAT: TypeAdapter[_Asked] = TypeAdapter(ChatRequest)
_TEXT: TypeAdapter[_Asked] = TypeAdapter(CompletionRequest)


@router.post(
    "/v1/chat/completions", response_model=ChatCompletion, openapi_extra=takes("ChatRequest")
)
async def chat_completions(request: Request) -> Response:
    """Answer a chat and say how sure the model is of it."""
    return await _respond(request, _CHAT, chat_completion, CHAT_CHUNKS)


@router.post("/v1/completions", response_model=Completion, openapi_extra=takes("CompletionRequest"))
async def completions(request: Request) -> Response:
    """Continue a text and say how sure the model is of it."""
    return await _respond(request, _TEXT, completion, TEXT_CHUNKS)


@router.get("/v1/models")
async def models(request: Request) -> ServedModels:
    """The names that requests may have as their model."""
    service: Service = request.app.state.service
    names = served_names(service.ready_scorer().workers.generator.info)
    return ServedModels(data=[ServedModel(id=name, created=service.began_at) for name in names])


@router.get("/v1/models/{name:path}", responses={422: {"model": OpenAIError}})
async def model(name: str, request: Request) -> ServedModel:
    """One of these names."""
    service: Service = request.app.state.service
    generator = service.ready_scorer().workers.generator.info
    if name not in served_names(generator):
        raise unknown_model(name, generator)
    return ServedModel(id=name, created=service.began_at)


async def _respond(
    request: Request,
    adapter: TypeAdapter[_Asked],
    whole: Callable[[Result, Wanted], ChatCompletion | Completion],
    chunk_kind: ChunkKind,
) -> Response:
    repeats: Repeats = request.app.state.repeats
    seen = await repeats.seen(request)
    if seen.response is not None:
        return seen.response
    body = await read_body(request, adapter)
    service: Service = request.app.state.service
    wanted = Wanted(
        request.state.request_id, body.model, body.wants_logprobs, body.wants_usage, body.n
    )

    async def run(on_token: OnToken | None = None) -> Result:
        with named_by_params(body.params):
            ask = _ask_here(body, service.ready_scorer())
            if is_in_background(request):
                ask = replace(ask, in_background=True)
            return await service.run(ask, wanted.id, on_token)

    if body.stream:
        calls = None
        if isinstance(body, ChatRequest) and body.tools_shown:
            calls = CallStream(names_of(body.tools_shown))
        return EventStream(run, Chunks(chunk_kind, wanted, calls), service.telemetry)

    result = await unless_gone(request, run())
    return json_response(repeats.keep(seen, result, whole(result, wanted), renew))


def _ask_here(body: _Asked, scorer: Scorer) -> Ask:
    """What is asked, if this deployment has the model and what is wanted of it."""
    ask = ask_of(body, light=is_light(body.model, scorer.workers.generator.info))
    known = scorer.available_statistics(ask)
    if body.wants_logprobs and "answer_token_logprobs" not in known:
        message = "this deployment's model tells no log-probs"
        raise StatisticUnavailable(message, field="logprobs")
    return ask
