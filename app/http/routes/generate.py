"""`POST /generate-with-uncertainty`."""

from collections.abc import Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response

from app.http import examples
from app.http.disconnect import ClientGone, unless_gone
from app.http.json_body import JsonBodyRoute
from app.http.requests.generate import GenerateRequest
from app.http.responses import to_response
from app.http.schemas import GenerateResponse
from app.http.service import Service
from app.http.streams import EventStream, NamedEvents
from app.scoring.result import Result
from models.records import OnToken

router = APIRouter(tags=["generation"], route_class=JsonBodyRoute)


@router.post(
    "/generate-with-uncertainty", response_model=GenerateResponse, responses=examples.GENERATE
)
async def generate_with_uncertainty(body: GenerateRequest, request: Request) -> Response:
    """Answer a prompt and say how sure the model is of it."""
    service: Service = request.app.state.service
    request_id, ask = request.state.request_id, body.to_ask()

    def work(on_token: OnToken | None = None) -> Coroutine[Any, Any, Result]:
        return service.run(ask, request_id, on_token)

    if body.stream:
        return EventStream(work, NamedEvents(request_id), service.telemetry)
    try:
        result = await unless_gone(request, work())
    except ClientGone:
        return Response(status_code=499)  # nobody reads it; the metrics do
    response = to_response(result, request_id)
    return Response(response.model_dump_json(), media_type="application/json")
