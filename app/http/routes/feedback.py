"""`POST /feedback`: what an application learns of an answer."""

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter

from app.http.json_calls import read_body, takes
from app.http.requests.feedback import FeedbackRequest
from app.http.schemas import FeedbackKept
from app.http.service import Service
from app.scoring.ask import current_caller
from models.errors import FeedbackDisabled

router = APIRouter(tags=["feedback"])
_BODY = TypeAdapter(FeedbackRequest)


@router.post("/feedback", response_model=FeedbackKept, openapi_extra=takes("FeedbackRequest"))
async def feedback(request: Request) -> Response:
    """Label an answer that was served: right or wrong, or how good; answered when it is durable."""
    body = await read_body(request, _BODY)
    service: Service = request.app.state.service
    if service.feedback is None:
        settings = "COCOA_FEEDBACK__PATH or COCOA_FEEDBACK__URL"
        raise FeedbackDisabled(f"no labels are collected here: set {settings}")
    quality = body.as_quality
    namespace = current_caller.get().namespace
    await service.feedback.label(body.id, quality, body.task, namespace)
    kept = FeedbackKept(id=body.id, quality=quality, task=body.task)
    return Response(kept.model_dump_json(), media_type="application/json")
