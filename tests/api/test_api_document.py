"""The OpenAPI document: every field of a response described, an example of every response."""

import re

import pytest
from pydantic import TypeAdapter

from app.http.described import ABSENT
from app.http.openai.schemas import (
    ChatCompletion,
    Completion,
    OpenAIError,
    ServedModel,
    ServedModels,
)
from app.http.routes.ops_schemas import EstimatorList, Status, Version
from app.http.schemas import ErrorResponse, GenerateResponse, ScoreResults
from app.plugins.labels.bodies import FeedbackKept
from app.plugins.responses.schemas import ResponseBody
from models.errors import answered
from tests.conftest import GENERATE

pytestmark = pytest.mark.anyio

MODELS = {
    GENERATE: GenerateResponse,
    "/score": GenerateResponse | ScoreResults,
    "/feedback": FeedbackKept,
    "/livez": Status,
    "/readyz": Status,
    "/version": Version,
    "/estimators": EstimatorList,
    "/v1/chat/completions": ChatCompletion,
    "/v1/completions": Completion,
    "/v1/responses": ResponseBody,
    "/v1/models": ServedModels,
    "/v1/models/{name}": ServedModel,
}


BODIES = ("GenerateRequest", "ScoreRequest", "ScoreBatch", "FeedbackRequest")


async def document_of(service):
    return (await service.client.get("/openapi.json")).json()


def operations(document):
    for path, methods in document["paths"].items():
        for operation in methods.values():
            yield path, operation


def names_of(schema):
    """Names of the schemas that one refers to."""
    if isinstance(schema, list):
        return set().union(*map(names_of, schema))
    if not isinstance(schema, dict):
        return set()
    found = set().union(*map(names_of, schema.values()))
    if "$ref" in schema:
        found.add(schema["$ref"].rpartition("/")[2])
    return found


async def test_every_field_of_every_response_is_described(service):
    document = await document_of(service)
    schemas = document["components"]["schemas"]
    named = names_of([operation["responses"] for _, operation in operations(document)])
    walked = set()
    while named - walked:
        for name in named - walked:
            walked.add(name)
            named |= names_of(schemas[name])
    assert len(walked) > 15
    undescribed = []
    for name in sorted(walked):
        for field, schema in schemas[name].get("properties", {}).items():
            if "description" not in schema:
                undescribed.append(f"{name}.{field}")
    assert undescribed == []


def numbers_of(schema):
    """The numbers that a field may hold, with what is said of them there."""
    kind = schema.get("type")
    if kind in ("integer", "number") and not {"const", "enum"} & schema.keys():
        yield schema
    inner = schema.get("anyOf", [])
    if kind in ("array", "object"):
        inner = [schema.get("items", {}), schema.get("additionalProperties", {})]
    for one in inner:
        if isinstance(one, dict):
            yield from numbers_of(one)


async def test_every_field_of_every_request_is_described(service):
    schemas = (await document_of(service))["components"]["schemas"]
    undescribed = []
    for name in (*BODIES, "ChatMessage"):
        for field, schema in schemas[name]["properties"].items():
            if "description" not in schema:
                undescribed.append(f"{name}.{field}")
    assert undescribed == []


async def test_every_number_has_a_range(service):
    schemas = (await document_of(service))["components"]["schemas"]
    without, num_found = [], 0
    for name, schema in schemas.items():
        for field, about in schema.get("properties", {}).items():
            for number in numbers_of(about):
                num_found += 1
                told = re.search(r"[≤≥]|\d to \d|real number", about.get("description", ""))
                if not (told or any("imum" in key.lower() for key in number)):
                    without.append(f"{name}.{field}")
    assert not without, without
    assert num_found > 50


async def test_operation_ids_are_what_a_client_calls_the_operations(service):
    names = [operation["operationId"] for _, operation in operations(await document_of(service))]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)
    assert {"generate_with_uncertainty", "score", "feedback", "version", "estimators"} < set(names)


async def test_every_response_of_every_route_has_an_example(service):
    without = []
    for path, operation in operations(await document_of(service)):
        for status, response in operation["responses"].items():
            for kind, content in response["content"].items():
                if not content.get("examples") and "example" not in content:
                    without.append((path, status, kind))
    assert without == []


async def test_every_route_with_a_body_has_an_example_of_it_that_is_answered(service):
    num_sent = 0
    document = await document_of(service)
    for path, operation in operations(document):
        if "requestBody" not in operation:
            continue
        content = operation["requestBody"]["content"]["application/json"]
        shown = [example["value"] for example in content.get("examples", {}).values()]
        for name in names_of(content["schema"]):
            shown += document["components"]["schemas"][name].get("examples", [])
        assert shown, path
        for body in shown:
            response = await service.client.post(path, json=body)
            num_sent += 1
            if path == "/feedback":  # which is off, unless a deployment sets where labels go
                assert response.json()["error"]["code"] == "feedback_disabled"
                continue
            assert response.status_code == 200, response.text
            for outcome in response.json().get("results", []):
                assert outcome["error"] is None
    assert num_sent == 9


async def test_every_example_of_a_response_is_one(service):
    for path, operation in operations(await document_of(service)):
        for status, response in operation["responses"].items():
            content = response["content"].get("application/json", {})
            error = OpenAIError if path.startswith("/v1/") else ErrorResponse
            adapter = TypeAdapter(MODELS.get(path) if status == "200" else error)
            for example in content.get("examples", {}).values():
                read = adapter.validate_python(example["value"], extra="forbid")
                if path != "/version" or status != "200":
                    for name in type(read).model_fields.keys() - read.model_fields_set:
                        assert type(read).model_fields[name].default is ABSENT, name


async def test_what_may_be_absent_is_not_required_and_provenance_is_never_null(service):
    schemas = (await document_of(service))["components"]["schemas"]

    optional = {"reasoning", "decision", "explanation", "groups", "samples", "tokens"}
    optional |= {"tool_calls", "units", "units_mean", "units_max", "units_decision", "refined_text"}
    optional |= {"refusal", "support", "grounded", "confidence_interval"}
    whole = schemas["GenerateResponse"]
    assert whole["properties"].keys() - set(whole["required"]) == optional
    provenance = schemas["Provenance"]
    assert set(provenance["required"]) == {"mode", "strategy", "degraded"}
    for about in (whole["properties"]["decision"], *provenance["properties"].values()):
        assert {"type": "null"} not in about.get("anyOf", [])
        assert "default" not in about


async def test_every_error_has_an_example_at_its_status(service):
    shown = {}
    for _, operation in operations(await document_of(service)):
        for status, response in operation["responses"].items():
            examples = response["content"].get("application/json", {}).get("examples", {})
            for example in examples.values():
                if code := (example["value"].get("error") or {}).get("code"):
                    shown[code] = int(status)
    typed = {error.code: error.status for error in answered()}
    assert shown.items() >= typed.items()
