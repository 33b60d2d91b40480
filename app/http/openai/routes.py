"""OpenAI's endpoints: chats and texts, the models that they may name, and tokens for lm-eval."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter

from app.http.json_calls import is_in_background, json_response, read_body, takes, unless_gone
from app.http.openai.chunks import Chunks
from app.http.openai.prompts import asks_of, completions_of
from app.http.openai.requests import (
    ChatRequest,
    CompletionRequest,
    Tokenize,
    UncertaintyWanted,
    ask_of,
    is_light,
    served_names,
    unknown_model,
)
from app.http.openai.responses import Wanted, chat_completion, completion, renew
from app.http.openai.schemas import (
    ChatCompletion,
    Completion,
    OpenAIError,
    ServedModel,
    ServedModels,
)
from app.http.repeats import Repeats
from app.http.service import Service
from app.http.streams import EventFormat, EventStream
from app.scoring.ask import Ask
from app.scoring.result import Result
from models.errors import InvalidRequest, StatisticUnavailable
from models.warnings import Warned
from workers.protocol import NO_TOKENS, Generator

router = APIRouter(tags=["OpenAI"])
# Names in these bodies of those fields of an `Ask` that are called differently there.
_PARAMS = {name: f"uncertainty.{name}" for name in UncertaintyWanted.model_fields}
_PARAMS |= {
    "answer_temperature": "temperature",
    "max_new_tokens": "max_tokens",
    "return_tokens": "logprobs",
    "primary": "uncertainty.estimator",
    "light": "uncertainty.mode",
}
_Body = ChatRequest | CompletionRequest
# A body as a chat or a text, names in it of fields of that, what the response repeats of it, and
# whether tools of it are left out.
_Read = tuple[_Body, dict[str, str], dict[str, Any], bool]


class Endpoint(NamedTuple):
    """The formats of an endpoint: its body, its whole response and the events of its stream."""

    body: TypeAdapter[Any]
    whole: Callable[[Result, Wanted], dict[str, Any]]
    renew: Callable[[dict[str, Any], Result, str], None]
    events: Callable[[Wanted], EventFormat]
    read: Callable[[Any], _Read] = lambda body: (body, {}, {}, False)


_CHAT = Endpoint(TypeAdapter(ChatRequest), chat_completion, renew, partial(Chunks, is_chat=True))
_TEXT = Endpoint(TypeAdapter(CompletionRequest), completion, renew, partial(Chunks, is_chat=False))
_TOKENIZE = TypeAdapter(Tokenize)


@router.post(
    "/v1/chat/completions", response_model=ChatCompletion, openapi_extra=takes("ChatRequest")
)
async def chat_completions(request: Request) -> Response:
    """Answer a chat and say how sure the model is of it."""
    return await respond(request, _CHAT)


@router.post("/v1/completions", response_model=Completion, openapi_extra=takes("CompletionRequest"))
async def completions(request: Request) -> Response:
    """Continue a text and say how sure the model is of it."""
    return await respond(request, _TEXT)


@router.get("/v1/models")
async def models(request: Request) -> ServedModels:
    """The names that requests may have as their model."""
    service: Service = request.app.state.service
    names = served_names(_generator_of(request).info)
    return ServedModels(data=[ServedModel(id=name, created=service.began_at) for name in names])


@router.get("/v1/models/{name:path}", responses={422: {"model": OpenAIError}})
async def model(name: str, request: Request) -> ServedModel:
    """One of these names."""
    service: Service = request.app.state.service
    generator = _generator_of(request).info
    if name not in served_names(generator):
        raise unknown_model(name, generator)
    return ServedModel(id=name, created=service.began_at)


@router.get("/tokenizer_info", include_in_schema=False)
async def tokenizer_info(request: Request) -> Response:
    info = _generator_of(request).info
    if not info.tokenizer:
        raise InvalidRequest(f"the tokenizer {NO_TOKENS}")
    return json_response(info.tokenizer)


@router.post("/tokenize", include_in_schema=False)
async def tokenize(request: Request) -> Response:
    body, generator = await read_body(request, _TOKENIZE), _generator_of(request)
    _, ids = await generator.tokenize(body.prompt, special=body.add_special_tokens)
    return json_response({"tokens": ids, "count": len(ids)})


def _generator_of(request: Request) -> Generator:
    service: Service = request.app.state.service
    return service.ready_scorer().workers.generator


async def respond(request: Request, endpoint: Endpoint) -> Response:
    """Answer a request in the formats of its endpoint."""
    repeats: Repeats = request.app.state.repeats
    seen = await repeats.seen(request)
    if seen.response is not None:
        return seen.response
    return await _computed(request, endpoint, partial(repeats.keep, seen))


async def _computed(request: Request, endpoint: Endpoint, keep: Callable[..., Any]) -> Response:
    body, names, shown, left_out = endpoint.read(await read_body(request, endpoint.body))
    service: Service = request.app.state.service
    params = {**_PARAMS, **body.params}.items()
    request.state.names = names | {field: names.get(param, param) for field, param in params}
    if body.samples_at:
        request.state.names["temperature"] = "temperature"
    scorer = service.ready_scorer()
    light = is_light(body.model, scorer.workers.generator.info)
    ask, asks = ask_of(body, light=light), dict[str, Ask]()
    if left_out:
        ask = replace(ask, unheeded=(*ask.unheeded, Warned.TOOLS_LEFT_OUT))
    ask = replace(ask, names=request.state.names, in_background=is_in_background(request))
    wanted = Wanted(
        id=request.state.request_id,
        model=body.model,
        logprobs=body.wants_logprobs,
        usage=body.stream_options.include_usage,
        usage_so_far=body.stream_options.continuous_usage_stats,
        n=body.n,
        tools=ask.tool_names,
        repeated=shown,
    )
    if isinstance(body, CompletionRequest):
        asks = await asks_of(scorer.workers.generator, ask, body.prompts)
        ask = next(iter(asks.values()))
    if body.wants_logprobs and "answer_token_logprobs" not in scorer.available_statistics(ask):
        raise StatisticUnavailable("this deployment's model tells no log-probs", field="logprobs")
    if len(asks) > 1:
        async with unless_gone(request):
            return json_response(await completions_of(service, asks, wanted))
    run = partial(service.run, ask, wanted.id)
    if body.stream:
        return EventStream(run, endpoint.events(wanted), service.telemetry)
    async with unless_gone(request):
        result = await run()
    return json_response(keep(result, endpoint.whole(result, wanted), endpoint.renew))
