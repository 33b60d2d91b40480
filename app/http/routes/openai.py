"""OpenAI's endpoints: chats, texts and responses, and the models that they may name."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError

from app.http.json_calls import is_in_background, json_response, read_body, takes, unless_gone
from app.http.openai.chunks import Chunks
from app.http.openai.errors import PARAMS
from app.http.openai.requests import (
    ChatRequest,
    CompletionRequest,
    ask_of,
    is_light,
    served_names,
    unknown_model,
)
from app.http.openai.response_replies import ResponseEvents, renew_response, repeated, response_of
from app.http.openai.response_requests import ResponseRequest
from app.http.openai.responses import Wanted, chat_completion, completion, renew
from app.http.openai.schemas import (
    ChatCompletion,
    Completion,
    OpenAIError,
    ResponseBody,
    ServedModel,
    ServedModels,
)
from app.http.repeats import Repeats
from app.http.requests.faults import faults_of
from app.http.service import Service
from app.http.streams import EventFormat, EventStream
from app.scoring.result import Result
from models.errors import StatisticUnavailable
from models.units.tool_calls import names_of

router = APIRouter(tags=["OpenAI"])
_Body = ChatRequest | CompletionRequest


class _Door(NamedTuple):
    """The formats of an endpoint: its body, its whole response and the events of its stream."""

    body: TypeAdapter[Any]
    whole: Callable[[Result, Wanted], dict[str, Any]]
    renew: Callable[[dict[str, Any], Result, str], None]
    events: Callable[[Wanted], EventFormat]


_CHAT = _Door(TypeAdapter(ChatRequest), chat_completion, renew, partial(Chunks, is_chat=True))
_TEXT = _Door(TypeAdapter(CompletionRequest), completion, renew, partial(Chunks, is_chat=False))
_RESPONSES = _Door(TypeAdapter(ResponseRequest), response_of, renew_response, ResponseEvents)


@router.post(
    "/v1/chat/completions", response_model=ChatCompletion, openapi_extra=takes("ChatRequest")
)
async def chat_completions(request: Request) -> Response:
    """Answer a chat and say how sure the model is of it."""
    return await _respond(request, _CHAT)


@router.post("/v1/completions", response_model=Completion, openapi_extra=takes("CompletionRequest"))
async def completions(request: Request) -> Response:
    """Continue a text and say how sure the model is of it."""
    return await _respond(request, _TEXT)


@router.post("/v1/responses", response_model=ResponseBody, openapi_extra=takes("ResponseRequest"))
async def responses(request: Request) -> Response:
    """Answer an input and say how sure the model is of it; nothing is stored."""
    return await _respond(request, _RESPONSES)


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


async def _respond(request: Request, door: _Door) -> Response:
    repeats: Repeats = request.app.state.repeats
    seen = await repeats.seen(request)
    if seen.response is not None:
        return seen.response
    given = await read_body(request, door.body)
    body: _Body = given
    shown: dict[str, Any] = {}
    names: dict[str, str] = {}
    if isinstance(given, ResponseRequest):
        (body, names), shown = _chat_of(given), repeated(given)
    service: Service = request.app.state.service
    wanted = Wanted(
        request.state.request_id,
        body.model,
        body.wants_logprobs,
        body.wants_usage,
        body.n,
        names_of(body.tools_shown) if isinstance(body, ChatRequest) else (),
        shown,
    )

    params = {**PARAMS, **body.params}.items()
    request.state.names = names | {field: names.get(param, param) for field, param in params}
    scorer = service.ready_scorer()
    ask = ask_of(body, light=is_light(body.model, scorer.workers.generator.info))
    if body.wants_logprobs and "answer_token_logprobs" not in scorer.available_statistics(ask):
        raise StatisticUnavailable("this deployment's model tells no log-probs", field="logprobs")
    run = partial(service.run, replace(ask, in_background=is_in_background(request)), wanted.id)
    if body.stream:
        return EventStream(run, door.events(wanted), service.telemetry)
    async with unless_gone(request):
        result = await run()
    return json_response(repeats.keep(seen, result, door.whole(result, wanted), door.renew))


def _chat_of(body: ResponseRequest) -> tuple[ChatRequest, dict[str, str]]:
    """The same request as a chat, and names of its fields; faults have those of this body."""
    chat, names = body.as_chat()
    try:
        return ChatRequest.model_validate(chat), names
    except ValidationError as error:
        faults = faults_of(error)
        for fault in faults:
            place = list(map(str, fault["loc"]))
            for first in (".".join(place[:2]), *place[:1]):
                if first in names:
                    fault["loc"] = (names[first],)
                    break
        raise RequestValidationError(faults) from None
