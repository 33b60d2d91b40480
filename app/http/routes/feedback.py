"""`POST /feedback`: labels of answers that were served."""

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter

from app.http.json_calls import json_response, read_body, takes
from app.http.requests.feedback import FeedbackRequest
from app.http.schemas import FeedbackKept
from app.http.service import Service

router = APIRouter(tags=["feedback"])
_BODY = TypeAdapter(FeedbackRequest)


@router.post("/feedback", response_model=FeedbackKept, openapi_extra=takes("FeedbackRequest"))
async def feedback(request: Request) -> Response:
    """Label an answer that was served, or parts of it; answered when the label is durable."""
    body = await read_body(request, _BODY)
    service: Service = request.app.state.service
    return json_response(await service.keep_label(body))
