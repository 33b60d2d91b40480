"""`POST /generate-with-uncertainty`."""

from dataclasses import replace
from functools import partial

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter

from app.http.json_calls import is_in_background, json_response, read_body, takes, unless_gone
from app.http.repeats import Repeats
from app.http.requests.bodies import GenerateRequest, ask_of
from app.http.responses import renew, to_response
from app.http.schemas import GenerateResponse
from app.http.service import Service
from app.http.streams import EventStream, NamedEvents

router = APIRouter(tags=["generation"])
_BODY = TypeAdapter(GenerateRequest)


@router.post(
    "/generate-with-uncertainty",
    response_model=GenerateResponse,
    openapi_extra=takes("GenerateRequest"),
)
async def generate_with_uncertainty(request: Request) -> Response:
    """Answer a prompt and say how sure the model is of it."""
    repeats: Repeats = request.app.state.repeats
    seen = await repeats.seen(request)
    if seen.response is not None:
        return seen.response
    body = await read_body(request, _BODY)
    service: Service = request.app.state.service
    request_id = request.state.request_id
    ask = replace(ask_of(body), in_background=is_in_background(request))
    request.state.names = {"grammar": body.held_by}
    run = partial(service.run, ask, request_id)
    if body.stream:
        return EventStream(run, NamedEvents(request_id), service.telemetry)
    async with unless_gone(request):
        result = await run()
    return json_response(repeats.keep(seen, result, to_response(result, request_id), renew))
