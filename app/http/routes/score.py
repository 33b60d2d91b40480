"""`POST /score`: answers that exist already."""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from typing import Annotated

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, Discriminator, JsonValue, Tag, ValidationError

from app.http import examples
from app.http.disconnect import ClientGone, unless_gone
from app.http.errors import failure, invalid_body
from app.http.json_body import JsonBodyRoute
from app.http.logs import current_request_id
from app.http.requests.score import ScoreBatch, ScoreRequest
from app.http.responses import to_response
from app.http.schemas import (
    ErrorBody,
    GenerateResponse,
    ScoreOutcome,
    ScoreResults,
)
from app.http.service import Service
from app.scoring.ask import current_caller
from app.scoring.deadline import deadline

logger = logging.getLogger(__name__)
router = APIRouter(tags=["generation"], route_class=JsonBodyRoute)


def _kind(body: object) -> str:
    return "#batch" if isinstance(body, dict) and "items" in body else "#single"


ScoreBody = Annotated[
    Annotated[ScoreRequest, Tag("#single")] | Annotated[ScoreBatch, Tag("#batch")],
    Discriminator(_kind),
]


@router.post("/score", response_model=GenerateResponse | ScoreResults, responses=examples.SCORE)
async def score(
    body: Annotated[ScoreBody, Body(openapi_examples=examples.SCORE_REQUESTS)], request: Request
) -> Response:
    """Score a given answer against samples drawn here or brought along.

    Or score several answers, each on its own.
    """
    service: Service = request.app.state.service
    request_id = request.state.request_id
    work: Coroutine[None, None, BaseModel]
    if isinstance(body, ScoreRequest):
        work = _score(service, body, request_id)
    else:
        work = _score_all(service, body.items, request_id)
    try:
        result = await unless_gone(request, work)
    except ClientGone:
        return Response(status_code=499)  # nobody reads it; the metrics do
    return Response(result.model_dump_json(), media_type="application/json")


async def _score(service: Service, body: ScoreRequest, request_id: str) -> GenerateResponse:
    return to_response(await service.run(body.to_ask(), request_id), request_id)


async def _score_all(service: Service, items: list[JsonValue], request_id: str) -> ScoreResults:
    admission, caller = service.ready_scorer().admission, current_caller.get()
    if service.access is not None:
        service.access.charge_requests(caller, len(items) - 1)
    all_turns = admission.item_turns[caller.name]
    began_at = asyncio.get_running_loop().time()
    # No call has more in the queue for turns than there are turns: so calls pass them on in turn.
    own_turns = asyncio.Semaphore(admission.concurrent_items)

    async def in_turn(item: JsonValue, item_id: str) -> GenerateResponse:
        body = ScoreRequest.model_validate(item)
        # All items begin with their call: what one waits for its turn is of its own time.
        async with deadline(body.timeout_s, began_at), own_turns, all_turns:
            return await _score(service, body, item_id)

    async def outcome(item: JsonValue, number: int) -> ScoreOutcome:
        item_id = f"{request_id}-{number}"
        current_request_id.set(item_id)  # of this task alone
        return await _outcome(service, in_turn(item, item_id), item_id)

    outcomes = [outcome(item, number) for number, item in enumerate(items)]
    return ScoreResults(results=await asyncio.gather(*outcomes))


async def _outcome(
    service: Service, scoring: Awaitable[GenerateResponse], item_id: str
) -> ScoreOutcome:
    """What became of one item; its error is answered, counted and logged as a request's is."""
    try:
        return ScoreOutcome(result=await scoring, error=None)
    except ValidationError as error:
        body = invalid_body(error.errors(include_url=False), item_id)
    except Exception as error:
        _, body = failure(error, item_id)
    return _failed(service, body)


def _failed(service: Service, error: ErrorBody) -> ScoreOutcome:
    service.telemetry.observe_error(error.code)
    logger.info("item failed", extra={"route": "/score", "code": error.code})
    return ScoreOutcome(result=None, error=error)
