"""`POST /generate-with-uncertainty`."""

from dataclasses import replace
from functools import partial

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter

from app.http.json_calls import answer, is_in_background, read_body, takes
from app.http.requests.bodies import GenerateRequest, ask_of
from app.http.responses import to_response
from app.http.schemas import GenerateResponse
from app.http.service import Service
from app.http.streams import EventStream, NamedEvents
from app.http.unit_events import EndedSentences

router = APIRouter(tags=["generation"])
_BODY = TypeAdapter(GenerateRequest)


@router.post(
    "/generate-with-uncertainty",
    response_model=GenerateResponse,
    openapi_extra=takes("GenerateRequest"),
)
async def generate_with_uncertainty(request: Request) -> Response:
    """Answer a prompt and say how sure the model is of it."""
    body = await read_body(request, _BODY)
    service: Service = request.app.state.service
    request_id, ask = request.state.request_id, ask_of(body)
    if is_in_background(request):
        ask = replace(ask, in_background=True)

    if body.stream:
        work = partial(service.run, ask, request_id)
        sentences = None
        if ask.units == "sentences":
            sentences = EndedSentences(request.app.state.settings.limits.max_units)
        return EventStream(work, NamedEvents(request_id, sentences), service.telemetry)

    async def whole() -> GenerateResponse:
        return to_response(await service.run(ask, request_id), request_id)

    return await answer(request, whole())
