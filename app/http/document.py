"""The OpenAPI document: what FastAPI says of the routes, with bodies, errors and examples.

FastAPI would read a body with its dependency solver, and drops what is null in examples. So routes
take the request alone and name the schema of their body, and its definition comes in here.
"""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.encoders import jsonable_encoder
from fastapi.openapi.models import OpenAPI
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from app.http.errors import body_of
from app.http.middleware import OPERATION_PATHS
from app.http.openai.requests import ChatRequest, CompletionRequest
from app.http.openai.schemas import OpenAIError
from app.http.openai_errors import is_of_openai, openai_error, openai_status
from app.http.requests.bodies import GenerateRequest, ScoreBatch, ScoreRequest
from app.http.schemas import ErrorBody, ErrorResponse
from models.errors import answered

_EXAMPLES = Path(__file__).with_name("examples.json")
_REQUEST_ID = "024eca7a12c344209145fa5bdab19d41"
_REF = "#/components/schemas/{model}"
_DEFINED: list[tuple[type[BaseModel], JsonSchemaMode]] = [
    (GenerateRequest, "validation"),
    (ScoreRequest, "validation"),
    (ScoreBatch, "validation"),
    (ChatRequest, "validation"),
    (CompletionRequest, "validation"),
    (ErrorResponse, "serialization"),
    (OpenAIError, "serialization"),
]


def add_document(app: FastAPI, bodies: Sequence[type[BaseModel]], *, needs_keys: bool) -> None:
    """Have `/openapi.json` say all of the routes, whose `bodies` plugins add."""
    make = app.openapi

    @cache
    def document() -> dict[str, Any]:
        made = _with_bodies(make(), bodies)
        shown = json.loads(_EXAMPLES.read_bytes())
        schemas = made["components"]["schemas"]
        for name in shown["bodies"].keys() & schemas.keys():
            schemas[name]["examples"] = shown["bodies"][name]
        _add_examples(made["paths"], shown)
        if needs_keys:
            _add_keys(made)
        return made

    app.openapi = document  # type: ignore[method-assign]


def _with_bodies(document: dict[str, Any], bodies: Sequence[type[BaseModel]]) -> dict[str, Any]:
    every = [*_DEFINED]
    for body in bodies:
        every.append((body, "validation"))
    _, defined = models_json_schema(every, ref_template=_REF)
    schemas = document["components"]["schemas"] | defined["$defs"]
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    # As FastAPI writes schemas: without fields that are null.
    whole: dict[str, Any] = jsonable_encoder(OpenAPI(**document), by_alias=True, exclude_none=True)
    return whole


def _add_examples(paths: dict[str, Any], shown: dict[str, Any]) -> None:
    for path, about in shown["operations"].items():
        if path not in paths:
            continue
        (operation,) = paths[path].values()
        if examples := about.get("request"):
            operation["requestBody"]["content"]["application/json"]["examples"] = examples
        responses, answer = operation["responses"], about["answer"]
        made = responses["200"].get("content", {})
        for kind, content in answer["content"].items():
            answer["content"][kind] = made.get(kind, {}) | content
        responses["200"] |= answer
        for status, codes in about["errors"].items():
            errors = shown["errors"][status]
            description = about.get("descriptions", {}).get(status, errors["description"])
            examples = _examples_of(int(status), path) | errors.get("examples", {})
            if isinstance(codes, list):
                examples = {code: examples[code] for code in codes}
            else:
                examples = {code: examples[code] for code in examples if code not in codes["not"]}
            responses[status] = _error(path, int(status), description, examples)


def _examples_of(status: int, path: str) -> dict[str, Any]:
    """The bodies at a path of our errors with this status, by code."""
    examples = {}
    for error in answered():
        documented = error.status
        if is_of_openai(path):
            documented = openai_status(documented, error.code)
        if documented == status:
            body = body_of(error(**error.example), _REQUEST_ID)
            examples[error.code] = ErrorResponse(error=body).model_dump()
    return examples


def _error(path: str, status: int, description: str, errors: dict[str, Any]) -> dict[str, Any]:
    """The documented response of one status, in the shape of the API that `path` belongs to."""
    schema = "ErrorResponse"
    if is_of_openai(path):
        schema = "OpenAIError"
        for code, shown in errors.items():
            errors[code] = openai_error(status, ErrorBody(**shown["error"]))
    examples = {code: {"value": shown} for code, shown in errors.items()}
    content = {"schema": {"$ref": _REF.format(model=schema)}, "examples": examples}
    return {"description": description, "content": {"application/json": content}}


def _add_keys(document: dict[str, Any]) -> None:
    schemes = document["components"].setdefault("securitySchemes", {})
    schemes["key"] = {"type": "http", "scheme": "bearer"}
    for path, operations in document["paths"].items():
        if path not in OPERATION_PATHS:
            for operation in operations.values():
                operation["security"] = [{"key": []}]
