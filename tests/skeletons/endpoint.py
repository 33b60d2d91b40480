"""An endpoint: a question in, an answer with one number out."""

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field, TypeAdapter

from app.http.json_calls import json_response, read_body, unless_gone
from app.http.service import Service
from app.scoring.ask import Ask

router = APIRouter()


class Question(BaseModel):
    """The body: shapes and bounds are checked here, all else by `app.scoring.check`."""

    text: str = Field(min_length=1, max_length=1000)


_BODY = TypeAdapter(Question)


@router.post("/ask")
async def ask(request: Request) -> Response:
    """Answer a question; `surprise` is the answer's negative log-probability, in nats."""
    body = await read_body(request, _BODY)
    service: Service = request.app.state.service
    wanted = Ask(prompt=body.text, estimators=("sp",))
    async with unless_gone(request):
        result = await service.run(wanted, request.state.request_id)
    return json_response({"answer": result.text, "surprise": result.uncertainty})
