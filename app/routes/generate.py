"""`POST /generate-with-uncertainty`."""

from fastapi import APIRouter, Request, Response

from app.disconnect import ClientGone, unless_gone
from app.pipeline import Pipeline
from app.routes.json_body import JsonBodyRoute
from app.schemas import ERROR_RESPONSES, GenerateRequest, GenerateResponse

router = APIRouter(tags=["generation"], route_class=JsonBodyRoute)


@router.post(
    "/generate-with-uncertainty", response_model=GenerateResponse, responses=ERROR_RESPONSES
)
async def generate_with_uncertainty(body: GenerateRequest, request: Request) -> Response:
    """Answer a prompt and say how sure the model is of it."""
    pipeline: Pipeline = request.app.state.pipeline
    try:
        result = await unless_gone(request, pipeline.run(body, request.state.request_id))
    except ClientGone:
        return Response(status_code=499)  # nobody reads it; the metrics do
    return Response(result.model_dump_json(), media_type="application/json")
