"""OpenAI's `/v1/responses`: a chat by other names."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError

from app.http.json_calls import takes
from app.http.openai.requests import ChatRequest
from app.http.openai.routes import Endpoint, respond
from app.http.requests.faults import faults_of
from app.plugins.responses.replies import ResponseEvents, renew_response, repeated, response_of
from app.plugins.responses.requests import RESPONSE_TOKENS, ResponseRequest
from app.plugins.responses.schemas import ResponseBody

router = APIRouter(tags=["OpenAI"])


@router.post("/v1/responses", response_model=ResponseBody, openapi_extra=takes("ResponseRequest"))
async def responses(request: Request) -> Response:
    """Answer an input and say how sure the model is of it; nothing is stored."""
    return await respond(request, _RESPONSES)


class _AsChat(ChatRequest):
    default_tokens = RESPONSE_TOKENS


def _read(body: ResponseRequest) -> tuple[ChatRequest, dict[str, str], dict[str, Any], bool]:
    """The same request as a chat, and names of its fields; faults have those of this body."""
    chat, names = body.as_chat()
    try:
        has_search = dict in map(type, body.tools)  # the others are models
        return _AsChat.model_validate(chat), names, repeated(body), has_search
    except ValidationError as error:
        faults = faults_of(error)
        for fault in faults:
            place = list(map(str, fault["loc"]))
            for first in (".".join(place[:2]), *place[:1]):
                if first in names:
                    fault["loc"] = (names[first],)
                    break
        raise RequestValidationError(faults) from None


_RESPONSES = Endpoint(
    TypeAdapter(ResponseRequest), response_of, renew_response, ResponseEvents, _read
)
