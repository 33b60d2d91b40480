"""`response_format`: answers and samples that are held to JSON, at both endpoints."""

import asyncio
import json

import jsonschema_rs
import pytest

from tests.api.openai_calls import CHAT, text_of, uncertainty_of
from tests.conftest import GENERATE, serving
from tests.events import events_of, named

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 8},
        "kind": {"enum": ["capital", "town"]},
        "since": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["city", "kind", "since"],
    "additionalProperties": False,
}
QUESTION = "Which country is Pirot in?"


def held_to(schema=SCHEMA, **changes):
    named_schema = {"name": "place", "schema": schema} | changes
    return {"type": "json_schema", "json_schema": named_schema}


@pytest.fixture(scope="module", params=["embedded", "remote"])
async def service(request, anyio_backend):
    options = {"engine": "transformers", "model": "embedded"}
    async with serving(placement=request.param, **options) as running:
        yield running


async def posted(service, path=GENERATE, **body):
    given = {"prompt": QUESTION, "num_samples": 4, "seed": 5, "max_new_tokens": 100}
    if path == CHAT:
        given = {"model": "cocoa", "messages": [{"role": "user", "content": QUESTION}], "seed": 5}
    return await service.client.post(path, json=given | body)


async def answered(service, path=GENERATE, **body):
    response = await posted(service, path, **body)
    assert response.status_code == 200, response.text
    return response.json()


def is_valid(text, schema=SCHEMA):
    return jsonschema_rs.is_valid(schema, json.loads(text))


async def test_answer_and_samples_are_valid_and_fields_are_scored_by_default(service):
    body = await answered(service, response_format=held_to(strict=True), return_samples=True)

    finished = 0
    for one in (body, *body["samples"]):
        if one["finish_reason"] == "stop":
            assert is_valid(one["text"])
            finished += 1
    assert finished >= 4
    assert [unit.get("path") for unit in body["units"]] == [None, "/city", "/kind", "/since"]
    assert body["units"][2]["scores"]["sp"] < body["units"][1]["scores"]["sp"]
    assert (await answered(service, response_format=held_to(strict=True)))["cached"]


async def test_a_chat_of_openai_is_held_to_its_schema(service):
    body = await answered(service, CHAT, response_format=held_to(), max_tokens=100)

    assert is_valid(text_of(body))
    assert len(uncertainty_of(body)["units"]) == 4


async def test_any_json_object_has_no_units_unless_they_are_asked_for(service):
    body = await answered(service, response_format={"type": "json_object"}, max_new_tokens=4)

    assert body["text"].startswith("{")
    assert "units" not in body
    plain = await answered(service, response_format={"type": "text"})
    assert "units" not in plain
    assert plain["text"] == (await answered(service))["text"]


async def test_who_wants_no_fields_says_so(service):
    body = await answered(service, response_format=held_to(), units="answer")
    assert [unit["kind"] for unit in body["units"]] == ["answer"]


async def test_json_that_its_length_cuts_off_is_told(service):
    body = await answered(service, response_format=held_to(), max_new_tokens=5)

    assert body["finish_reason"] == "length"
    assert "answer_not_json" in body["warnings"]


async def test_a_stream_brings_the_json_piece_by_piece(service):
    response = await posted(service, response_format=held_to(), stream=True, cache=False)
    events = events_of(response.text)
    pieces = [event["text"] for event in named(events, "token")]

    [result] = named(events, "result")
    assert "".join(pieces) == result["text"]
    assert len(pieces) > 5
    assert is_valid(result["text"])


async def test_requests_at_once_are_held_to_schemas_of_their_own(service):
    schemas = [{"enum": [f"number {i}", i]} for i in range(6)]
    asked = [answered(service, response_format=held_to(one), num_samples=2) for one in schemas]
    free = answered(service, cache=False)
    *bodies, plain = await asyncio.gather(*asked, free)

    for schema, body in zip(schemas, bodies, strict=True):
        assert is_valid(body["text"], schema)
    assert not plain["text"].startswith('"')


DEEP = {"type": "object"}
for _ in range(40):
    DEEP = {"type": "object", "properties": {"a": DEEP}}
INT = {"type": "integer"}
OPEN = {"additionalProperties": False, "minProperties": 2, "maxProperties": 2}
REFUSED = [
    (held_to({"type": "banana"}), "at #: type 'banana' is none of"),
    (held_to({"type": 7}), "type cannot be 7"),
    (held_to({"$ref": 7}), "at #: $ref cannot be 7"),
    (held_to({"$ref": "#"}), "no finite value"),
    (held_to({"$ref": "https://example.com/a.json"}), "must point into the schema itself"),
    (held_to({"not": {}}), "the keyword 'not' is not supported"),
    (held_to({"type": "string", "pattern": "(?=a)"}), "look-around"),
    (held_to({"items": INT | {"minimum": 2, "maximum": 1}}), "at #/items: no integer lies"),
    (held_to(INT | {"minimum": -(2**53) - 9, "maximum": -(2**53) - 4}), "leave nothing between"),
    (held_to(INT | {"minimum": 2**53 + 1, "maximum": 2**53 + 4}), "leave nothing between"),
    (held_to({"patternProperties": {"^k$": INT}} | OPEN), "take all of properties to be required"),
    (held_to({"patternProperties": {f"^a{i}_.$": INT for i in range(33)}}), "32 patterns"),
    (held_to({"properties": {"a": {"pattern": "("}}}), "held to it: a pattern cannot be"),
    (held_to({"allOf": [{"type": "null"}, INT]}), "held to it: nothing is valid under it"),
    (held_to({"enum": ["a" * 70_000]}), "more than 65536 characters"),
    (held_to({"enum": ["a" * 950_000]}), "more than 65536 characters"),
    (held_to({"enum": list(range(10_001))}), "at most 10000 values"),
    (held_to(name="a b"), "should match pattern"),
    (held_to(name="a" * 65), "should match pattern"),
    (held_to(None, strict=True), "is needed with strict"),
    (held_to(kind="?"), "Extra inputs are not permitted"),
    ({"type": "json_schema"}, "Field required"),
    ({"type": "xml"}, 'type is "text", "json_object" or "json_schema"'),
    ("json_object", 'type is "text", "json_object" or "json_schema"'),
]


@pytest.mark.parametrize("path", [GENERATE, CHAT], ids=["generate", "chat"])
@pytest.mark.parametrize(("wanted", "told"), REFUSED, ids=[told for _, told in REFUSED])
async def test_what_cannot_be_heeded_is_refused_by_field_and_reason(service, path, wanted, told):
    response = await posted(service, path, response_format=wanted)
    error = response.json()["error"]

    assert (response.status_code, error["code"]) == (422, "invalid_request")
    assert (error.get("field") or error["param"]).startswith("response_format")
    said = json.dumps(error, ensure_ascii=False).replace('\\"', '"')
    assert told in said


HEEDED = [
    {"type": "integer", "minimum": -(2**60), "maximum": 2**60},
    {"const": 9007199254740992},
    {"type": "array", "items": {"enum": [1]}, "maxItems": 2, "uniqueItems": False},
    {"type": "array", "items": {"const": 1}, "minItems": 1.0, "maxItems": 2.0},
    {"type": "object", "propertyNames": {"type": "string"}, "maxProperties": 0},
    *({"type": "string", "maxLength": 4, "format": name} for name in ("password", "binary")),
    *({"type": "string", "maxLength": 4, "format": name} for name in ("path", "uri-reference")),
]


@pytest.mark.parametrize("schema", HEEDED, ids=json.dumps)
async def test_what_says_nothing_or_can_be_written_in_another_way_is_heeded(service, schema):
    body = await answered(service, response_format=held_to(schema), num_samples=2)
    assert body["finish_reason"] == "length" or is_valid(body["text"], schema)
    if "const" in schema:
        assert body["text"] == str(schema["const"])


# 5 is valid under both branches.
TOUCHING = [{"const": 5}, {"type": "integer", "minimum": 5, "maximum": 5}]


@pytest.mark.parametrize("path", [GENERATE, CHAT], ids=["generate", "chat"])
@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
async def test_one_of_is_held_as_any_of_with_a_warning(service, path, keyword):
    body = await answered(service, path, response_format=held_to({keyword: TOUCHING}))

    told = body if path == GENERATE else uncertainty_of(body)
    assert (body["text"] if path == GENERATE else text_of(body)) == "5"
    assert ("one_of_as_any_of" in told["warnings"]) == (keyword == "oneOf")


async def test_a_schema_that_is_nested_deeply_is_heeded(service):
    body = await answered(service, response_format=held_to(DEEP), max_new_tokens=3)
    assert body["text"].startswith("{")


@pytest.mark.parametrize(
    ("path", "more", "field"),
    [
        (GENERATE, {"stop": ["}"]}, "stop"),
        (GENERATE, {"units": "fields", "json_schema": {}}, "json_schema"),
        (CHAT, {"stop": "}"}, "stop"),
        (CHAT, {"uncertainty": {"units": "fields", "json_schema": {}}}, "uncertainty.json_schema"),
    ],
)
async def test_what_contradicts_a_format_is_refused(service, path, more, field):
    response = await posted(service, path, response_format=held_to(), **more)
    error = response.json()["error"]

    assert response.status_code == 422
    assert (error.get("field") or error["param"]) == field


async def test_an_engine_that_follows_no_grammar_says_so():
    async with serving() as service:
        response = await posted(service, response_format=held_to())

    error = response.json()["error"]
    assert (response.status_code, error["field"]) == (422, "response_format")
    assert "no text can be held to a schema" in error["message"]
