"""Our own endpoints: prompts to answer, and answers to score."""

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import Discriminator, JsonValue, Tag, TypeAdapter

from app.http.errors import failure
from app.http.json_calls import (
    checked,
    is_in_background,
    json_response,
    read_body,
    takes,
    unless_gone,
)
from app.http.logs import current_request_id
from app.http.repeats import Repeats
from app.http.requests.bodies import GenerateRequest, ScoreBatch, ScoreRequest, ask_of
from app.http.responses import to_response
from app.http.schemas import GenerateResponse, ScoreResults
from app.http.service import Service
from app.http.streams import EventStream, NamedEvents
from app.scoring.ask import current_caller
from app.scoring.result import Result
from workers.calling import in_time

logger = logging.getLogger(__name__)
router = APIRouter()
_GENERATE_BODY = TypeAdapter(GenerateRequest)


def _score_kind(body: object) -> str:
    return "#ScoreBatch" if isinstance(body, dict) and "items" in body else "#ScoreRequest"


SCORE_BODY: TypeAdapter[ScoreRequest | ScoreBatch] = TypeAdapter(
    Annotated[
        Annotated[ScoreRequest, Tag("#ScoreRequest")] | Annotated[ScoreBatch, Tag("#ScoreBatch")],
        Discriminator(_score_kind),
    ]
)


@router.post(
    "/generate-with-uncertainty",
    response_model=GenerateResponse,
    openapi_extra=takes("GenerateRequest"),
    tags=["generation"],
)
async def generate_with_uncertainty(request: Request) -> Response:
    """Answer a prompt and say how sure the model is of it."""
    repeats: Repeats = request.app.state.repeats
    seen = await repeats.seen(request)
    if seen.response is not None:
        return seen.response
    body = await read_body(request, _GENERATE_BODY)
    service: Service = request.app.state.service
    request_id = request.state.request_id
    ask = replace(ask_of(body), in_background=is_in_background(request))
    if ask.grammar is not None:
        request.state.names = {"grammar": body.held_by}
    run = partial(service.run, ask, request_id)
    if body.stream:
        return EventStream(run, NamedEvents(request_id), service.telemetry)
    async with unless_gone(request):
        result = await run()
    return json_response(repeats.keep(seen, result, to_response(result, request_id), _renew))


def _renew(body: dict[str, Any], result: Result, request_id: str) -> None:
    body["id"], body["timing_ms"] = request_id, result.timing_ms


@router.post(
    "/score",
    response_model=GenerateResponse | ScoreResults,
    openapi_extra=takes("ScoreRequest", "ScoreBatch"),
    tags=["generation"],
)
async def score(request: Request) -> Response:
    """Score a given answer against samples drawn here or brought along.

    Or score several answers, each on its own.
    """
    body = await read_body(request, SCORE_BODY)
    service: Service = request.app.state.service
    request_id, in_background = request.state.request_id, is_in_background(request)
    async with unless_gone(request):
        if isinstance(body, ScoreBatch):
            return json_response(await _score_all(service, body.items, request_id))
        return json_response(await _score(service, body, request_id, in_background=in_background))


async def _score(
    service: Service, body: ScoreRequest, request_id: str, *, in_background: bool
) -> dict[str, Any]:
    ask = replace(ask_of(body), in_background=in_background)
    return to_response(await service.run(ask, request_id), request_id)


async def _score_all(service: Service, items: list[JsonValue], request_id: str) -> dict[str, Any]:
    admission, caller = service.ready_scorer().admission, current_caller.get()
    caller.charge(requests=len(items) - 1)
    began_at = asyncio.get_running_loop().time()
    # A call has few items in the queue, so that calls take turns fairly.
    own_turns = asyncio.Semaphore(admission.concurrent_items)

    async def scored(item: JsonValue, item_id: str) -> dict[str, Any]:
        body = checked(ScoreRequest.model_validate, item)
        # The time of each item begins with the call, and includes what it waits for its turn.
        deadline_s = service.deadline_s(body.timeout_s)
        async with in_time(deadline_s, began_at), own_turns:
            return await _score(service, body, item_id, in_background=True)

    async def outcome(item: JsonValue, number: int) -> dict[str, Any]:
        item_id = f"{request_id}-{number}"
        current_request_id.set(item_id)  # of this task alone
        try:
            return {"result": await scored(item, item_id), "error": None}
        except Exception as error:
            _, body = failure(error, item_id)
        service.telemetry.observe_one("errors", body.code)
        logger.info("item failed", extra={"route": "/score", "code": body.code})
        return {"result": None, "error": body}

    outcomes = [outcome(item, number) for number, item in enumerate(items)]
    return {"results": await asyncio.gather(*outcomes)}
