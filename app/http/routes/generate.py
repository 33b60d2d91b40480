"""`POST /generate-with-uncertainty`."""

from fastapi import APIRouter, Request, Response

from app.http import examples
from app.http.disconnect import ClientGone, unless_gone
from app.http.json_body import JsonBodyRoute
from app.http.requests.generate import GenerateRequest
from app.http.responses import to_response
from app.http.schemas import GenerateResponse
from app.http.service import Service
from app.http.streams import NamedEvents, stream

router = APIRouter(tags=["generation"], route_class=JsonBodyRoute)


@router.post(
    "/generate-with-uncertainty", response_model=GenerateResponse, responses=examples.GENERATE
)
async def generate_with_uncertainty(body: GenerateRequest, request: Request) -> Response:
    """Answer a prompt and say how sure the model is of it."""
    if body.stream:
        return stream(request, body.to_ask(), NamedEvents(request.state.request_id))
    service: Service = request.app.state.service
    request_id = request.state.request_id
    try:
        result = await unless_gone(request, service.run(body.to_ask(), request_id))
    except ClientGone:
        return Response(status_code=499)  # nobody reads it; the metrics do
    response = to_response(result, request_id)
    return Response(response.model_dump_json(), media_type="application/json")
