"""What the OpenAPI document shows of OpenAI's endpoints; its numbers are `app.http.examples`'."""

from typing import Any

from app.http.examples import ERRORS, GENERATED, REQUEST_ID, Responses, answered, streamed
from app.http.openai.errors import openai_error
from app.http.openai.schemas import OpenAIError, Uncertainty
from app.http.schemas import ErrorBody

_UNCERTAINTY: dict[str, Any] = {
    "value": GENERATED["uncertainty"],
    "sample_tokens": GENERATED["usage"]["sample_tokens"],
}
for _name in Uncertainty.model_fields:
    _UNCERTAINTY.setdefault(_name, GENERATED.get(_name))

_HEAD: dict[str, Any] = {
    "id": REQUEST_ID,
    "created": 1_800_000_000,
    "model": "cocoa",
    "system_fingerprint": GENERATED["model"]["revision"],
    "usage": {"prompt_tokens": 8, "completion_tokens": 2, "total_tokens": 10},
}
_CHAT = {
    **_HEAD,
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": " Paris", "refusal": None},
            "logprobs": {
                "content": [
                    {
                        "token": " Paris",
                        "logprob": -0.3155,
                        "bytes": [32, 80, 97, 114, 105, 115],
                        "top_logprobs": [],
                    },
                    {"token": "", "logprob": -0.0008, "bytes": [], "top_logprobs": []},
                ],
                "refusal": None,
            },
            "finish_reason": "stop",
            "uncertainty": _UNCERTAINTY,
        }
    ],
}
_TEXT = {
    **_HEAD,
    "object": "text_completion",
    "choices": [
        {
            "index": 0,
            "text": " Paris",
            "logprobs": {
                "tokens": [" Paris", ""],
                "token_logprobs": [-0.3155, -0.0008],
                "top_logprobs": None,
                "text_offset": [0, 6],
            },
            "finish_reason": "stop",
            "uncertainty": _UNCERTAINTY,
        }
    ],
}
_CHUNKS = """data: {"object":"chat.completion.chunk","choices":[{"delta":{"content":" Paris"}}]}

data: {"object":"chat.completion.chunk","choices":[{"delta":{},"uncertainty":{"value":0.000188}}]}

data: [DONE]

"""
_MODEL = {"id": "cocoa", "object": "model", "created": 1_800_000_000, "owned_by": "cocoa-serve"}


def _failed(status: int, *codes: str) -> dict[str, Any]:
    """An error as the document tells it; with these codes, else with all of its status."""
    description, errors = ERRORS[status]
    shown = {}
    for code in codes or errors:
        message, field = errors[code]
        body = ErrorBody(code=code, message=message, field=field, request_id=REQUEST_ID)
        shown[code] = {"value": openai_error(status, body)}
    return {
        "model": OpenAIError,
        "description": description,
        "content": {"application/json": {"examples": shown}},
    }


def _answer(description: str, example: dict[str, Any]) -> dict[str, Any]:
    whole, chunks = answered(answer=example)["content"], streamed(_CHUNKS, "message")
    return {"description": description, "content": whole | chunks}


_STATUSES = (400, 401, 403, 408, 413, 415, 422, 429, 500, 504)
_FAILED = _failed(
    503, "not_ready", "engine_error", "generation_unavailable", "similarity_unavailable"
)
_ERRORS: Responses = {**{status: _failed(status) for status in _STATUSES}, 503: _FAILED}
_NOT_FOUND = _failed(404, "model_not_found") | {"description": "No such model is served here"}
_NAME_ERRORS: Responses = {
    401: _failed(401),
    429: _failed(429, "rate_limited"),
    503: _failed(503, "not_ready"),
}

CHAT: Responses = {
    200: _answer("The answer, or with `stream` its chunks", _CHAT),
    404: _NOT_FOUND,
    **_ERRORS,
}
COMPLETIONS: Responses = {
    200: _answer("How the text goes on, or with `stream` in chunks", _TEXT),
    404: _NOT_FOUND,
    **_ERRORS,
}
MODELS: Responses = {200: answered(models={"object": "list", "data": [_MODEL]}), **_NAME_ERRORS}
MODEL: Responses = {
    200: answered(model=_MODEL),
    404: _NOT_FOUND,
    422: _failed(422, "invalid_request"),
    **_NAME_ERRORS,
}

BY_PATH = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": COMPLETIONS,
    "/v1/models": MODELS,
    "/v1/models/{name}": MODEL,
}
