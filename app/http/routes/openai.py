"""OpenAI's endpoints: `POST /v1/chat/completions`, `POST /v1/completions`, `GET /v1/models`."""

from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from app.http.disconnect import ClientGone, unless_gone
from app.http.json_body import JsonBodyRoute
from app.http.openai import examples
from app.http.openai.errors import named_by_params
from app.http.openai.names import is_light, served_names
from app.http.openai.requests import ChatRequest, CompletionRequest
from app.http.openai.responses import (
    CHAT_CHUNKS,
    TEXT_CHUNKS,
    Answering,
    ChunkKind,
    Chunks,
    chat_completion,
    completion,
)
from app.http.openai.schemas import ChatCompletion, Completion, ServedModel, ServedModels
from app.http.service import Service
from app.http.streams import EventStream
from app.scoring.ask import Ask
from app.scoring.result import Result
from app.scoring.scorer import Scorer
from models.errors import StatisticUnavailable, UnknownModel
from models.records import OnToken

router = APIRouter(tags=["OpenAI"], route_class=JsonBodyRoute)


@router.post("/v1/chat/completions", response_model=ChatCompletion, responses=examples.CHAT)
async def chat_completions(body: ChatRequest, request: Request) -> Response:
    """Answer a chat and say how sure the model is of it."""
    return await _answer(body, request, chat_completion, CHAT_CHUNKS)


@router.post("/v1/completions", response_model=Completion, responses=examples.COMPLETIONS)
async def completions(body: CompletionRequest, request: Request) -> Response:
    """Continue a text and say how sure the model is of it."""
    return await _answer(body, request, completion, TEXT_CHUNKS)


@router.get("/v1/models", responses=examples.MODELS)
async def models(request: Request) -> ServedModels:
    """The names that requests may have as their model."""
    service: Service = request.app.state.service
    names = served_names(service.ready_scorer().workers.generator.info)
    return ServedModels(data=[ServedModel(id=name, created=service.began_at) for name in names])


@router.get("/v1/models/{name:path}", responses=examples.MODEL)
async def model(name: str, request: Request) -> ServedModel:
    """One of these names."""
    service: Service = request.app.state.service
    if name not in served_names(service.ready_scorer().workers.generator.info):
        message = "this model is not served here; GET /v1/models lists all"
        raise UnknownModel(message, field="model")
    return ServedModel(id=name, created=service.began_at)


async def _answer(
    body: ChatRequest | CompletionRequest,
    request: Request,
    whole: Callable[[Result, Answering], BaseModel],
    chunk_kind: ChunkKind,
) -> Response:
    service: Service = request.app.state.service
    answering = Answering(
        request.state.request_id, body.model, body.wants_logprobs, body.wants_usage
    )

    async def work(on_token: OnToken | None = None) -> Result:
        with named_by_params():
            ask = _ask_of(body, service.ready_scorer())
            return await service.run(ask, answering.id, on_token)

    if body.stream:
        return EventStream(work, Chunks(chunk_kind, answering), service.telemetry)
    try:
        result = await unless_gone(request, work())
    except ClientGone:
        return Response(status_code=499)  # nobody reads it; the metrics do
    content = whole(result, answering).model_dump_json()
    return Response(content, media_type="application/json")


def _ask_of(body: ChatRequest | CompletionRequest, scorer: Scorer) -> Ask:
    ask = body.to_ask(light=is_light(body.model, scorer.workers.generator.info))
    known = scorer.available_statistics(ask)
    if body.wants_logprobs and "answer_token_logprobs" not in known:
        message = "this deployment's model tells no log-probs"
        raise StatisticUnavailable(message, field="logprobs")
    return ask
