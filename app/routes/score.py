"""`POST /score`: answers that exist already."""

import asyncio
from collections.abc import Coroutine
from typing import Annotated

from fastapi import APIRouter, Body, Request, Response
from pydantic import BaseModel, Discriminator, JsonValue, Tag, ValidationError

from app.disconnect import ClientGone, unless_gone
from app.errors import error_body, invalid_body
from app.pipeline import Pipeline
from app.routes.json_body import JsonBodyRoute
from app.schemas import (
    ERROR_RESPONSES,
    GenerateResponse,
    ScoreBatch,
    ScoreOutcome,
    ScoreRequest,
    ScoreResults,
)
from models.errors import CocoaError

router = APIRouter(tags=["generation"], route_class=JsonBodyRoute)

# Items of one call that run at once: one call must not take all places of the admission limit.
_CONCURRENT_ITEMS = 8


def _kind(body: object) -> str:
    return "#batch" if isinstance(body, dict) and "items" in body else "#single"


ScoreBody = Annotated[
    Annotated[ScoreRequest, Tag("#single")] | Annotated[ScoreBatch, Tag("#batch")],
    Discriminator(_kind),
]


@router.post("/score", response_model=GenerateResponse | ScoreResults, responses=ERROR_RESPONSES)
async def score(body: Annotated[ScoreBody, Body()], request: Request) -> Response:
    """Score a given answer against samples drawn here or brought along.

    Or score several answers, each on its own.
    """
    pipeline: Pipeline = request.app.state.pipeline
    request_id = request.state.request_id
    work: Coroutine[None, None, BaseModel]
    if isinstance(body, ScoreRequest):
        work = pipeline.run(body, request_id)
    else:
        work = _score_all(pipeline, body.items, request_id)
    try:
        result = await unless_gone(request, work)
    except ClientGone:
        return Response(status_code=499)  # nobody reads it; the metrics do
    return Response(result.model_dump_json(), media_type="application/json")


async def _score_all(pipeline: Pipeline, items: list[JsonValue], request_id: str) -> ScoreResults:
    pipeline.ready_workers()
    places = asyncio.Semaphore(_CONCURRENT_ITEMS)

    async def outcome(item: JsonValue, item_id: str) -> ScoreOutcome:
        try:
            async with places:
                result = await pipeline.run(ScoreRequest.model_validate(item), item_id)
            return ScoreOutcome(result=result, error=None)
        except ValidationError as error:
            return ScoreOutcome(result=None, error=invalid_body(error.errors()[0], item_id))
        except CocoaError as error:
            return ScoreOutcome(result=None, error=error_body(error, item_id))

    ids = [f"{request_id}-{i}" for i in range(len(items))]
    return ScoreResults(results=await asyncio.gather(*map(outcome, items, ids)))
