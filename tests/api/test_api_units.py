"""`units`: the parts of an answer, through every endpoint."""

import json
from dataclasses import replace

import pytest

from tests.api.openai_calls import CHAT, answered, uncertainty_of
from tests.api.scored import scored

pytestmark = pytest.mark.anyio
PLACEMENTS = ["embedded", "remote"]

INVOICE = '{"number": "A-117", "total": 118.5, "lines": [{"name": "paper"}, {"name": "ink"}]}'
SAMPLES = [
    {"text": INVOICE},
    {"text": '{"number": "A-117", "total": 18.5, "lines": [{"name": "ink"}], "vat": 7}'},
    {"text": "no idea"},
]


def by_path(body):
    return {unit["path"]: unit for unit in body["units"] if unit["kind"] == "field"}


async def test_each_field_of_a_given_answer_has_its_support_and_what_samples_say(service):
    body = await scored(service, answer=INVOICE, samples=SAMPLES, units="fields")

    answer, *fields = body["units"]
    assert (answer["kind"], answer["scores"]) == ("answer", body["scores"])
    assert answer["missing"] == [{"path": "/vat", "share": pytest.approx(1 / 3)}]
    assert [unit["path"] for unit in fields] == [
        "/number",
        "/total",
        "/lines/0/name",
        "/lines/1/name",
    ]
    number, total, paper, ink = fields
    assert [one["support"] for one in fields] == pytest.approx([2 / 3, 1 / 3, 1 / 3, 2 / 3])
    assert (total["text"], INVOICE[slice(*total["span"])]) == ("118.5", "118.5")
    assert total["alternatives"][0]["share"] == pytest.approx(1 / 3)
    assert {one["value"] for one in total["alternatives"]} == {"118.5", "18.5", None}
    assert number["scores"]["inconsistency"] == pytest.approx(1 / 3)
    assert body["units_max"] == max(one["uncertainty"] for one in fields)
    assert body["provenance"]["similarity"] == "fake"
    assert "contradiction" not in paper
    assert "missing" not in ink


async def test_fields_that_a_model_has_read_have_their_own_probability(service):
    body = await scored(
        service,
        prompt="Which invoice?",
        answer='{"number": 117, "paid": false}',
        samples=[{"text": '{"number": 117}'}],
        units="fields",
        return_tokens=True,
    )

    for unit in by_path(body).values():
        first, behind = unit["tokens"]
        logprobs = [token["logprob"] for token in body["tokens"][first:behind]]
        assert unit["scores"]["sp"] == pytest.approx(-sum(logprobs))
        assert unit["uncertainty"] == unit["scores"]["cocoa_sp"]


async def test_the_same_units_come_from_the_cache(service):
    asked = {"prompt": "Which?", "answer": INVOICE, "samples": SAMPLES, "units": "fields"}
    first, again = await scored(service, **asked), await scored(service, **asked)

    assert (first["cached"], again["cached"]) == (False, True)
    assert again["units"] == first["units"]


async def test_without_units_nothing_of_them_is_told(service):
    body = (await service.generate()).json()

    assert body.keys().isdisjoint({"units", "units_mean", "units_max"})


async def test_a_generated_answer_that_is_no_json_has_no_fields_and_a_warning(service):
    body = (await service.generate(units="fields")).json()

    assert [unit["kind"] for unit in body["units"]] == ["answer"]
    assert (body["units_mean"], body["units_max"]) == (None, None)
    assert body["reasons"]["units_max"] == "no part of the answer has a score"
    assert "answer_not_json" in body["warnings"]


async def test_the_answer_alone_is_a_unit_with_all_its_scores(service):
    body = (await service.generate(units="answer")).json()

    [answer] = body["units"]
    assert answer["scores"] == body["scores"]
    assert answer["uncertainty"] == body["uncertainty"]
    assert answer["support"] == pytest.approx(1 - body["scores"]["inconsistency"])
    assert answer["span"] == [0, len(body["text"])]


async def test_a_stream_ends_in_a_result_with_units(service):
    asked = {"prompt": "Capital?", "units": "answer", "stream": True}
    response = await service.client.post("/generate-with-uncertainty", json=asked)

    *_, last = response.text.strip().split("\n\n")
    event, data = last.splitlines()
    assert event == "event: result"
    assert json.loads(data.removeprefix("data: "))["units"][0]["kind"] == "answer"


async def test_openais_endpoint_tells_units_beside_the_scores(service):
    body = await answered(service, CHAT, uncertainty={"units": "answer"})

    uncertainty = uncertainty_of(body)
    [answer] = uncertainty["units"]
    assert answer["scores"] == uncertainty["scores"]


@pytest.mark.parametrize(
    ("asked", "field", "said"),
    [
        ({"units": "sentence"}, "units", "fields"),
        ({"units": ["fields"]}, "units", "fields"),
        (
            {"answer": "{}", "answer_token_logprobs": [-1.0], "units": "fields"},
            "units",
            "needs samples",
        ),
        ({"json_schema": {}}, "json_schema", "units fields only"),
        ({"json_schema": {"$ref": 7}, "units": "fields"}, "json_schema", "at #: $ref cannot be 7"),
        (
            {"json_schema": {"enum": [0] * 20_000}, "units": "fields"},
            "json_schema",
            "at most 10000 values",
        ),
        (
            {"answer": json.dumps([0] * 2000), "samples": SAMPLES, "units": "fields"},
            "answer",
            "at most 1024 fields",
        ),
    ],
)
async def test_units_that_cannot_be_told_are_refused_by_name(service, asked, field, said):
    body = {"answer": INVOICE, "samples": SAMPLES} | asked
    if "answer_token_logprobs" in asked:
        del body["samples"]
    response = await service.client.post("/score", json=body)

    error = response.json()["error"]
    assert (response.status_code, error["field"]) == (422, field)
    assert said in error["message"]


async def test_sentences_need_no_nli_model(service):
    service.core.scorer.workers = replace(service.workers, nli=None)
    body = await scored(
        service,
        answer="Lima is in Peru. It is dry.",
        samples=[{"text": "Lima lies in Peru."}, {"text": "Lima is in Peru. It rains."}],
        units="sentences",
    )

    told = [(unit["support"], unit.get("contradiction")) for unit in body["units"][1:]]
    assert told == [(1.0, None), (0.0, None)]
    assert "nli_model" not in body["provenance"]


HOSTILE = {
    "nested deeply": "[" * 500 + "]" * 500,
    "a duplicate key": '{"a": 1, "a": 2}',
    "NaN": "[NaN]",
    "a huge integer": "[" + "9" * 5000 + "]",
    "an infinite number": "[1e999]",
    "keys with / and ~": '{"a/b": 1, "m~n": 2, "": 3}',
    "a lone surrogate": '["\\ud800"]',
    "cut JSON": '{"a": [1, 2',
    "blanks": " \n",
    "a string": '"Lima"',
    "an empty object": "{}",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
async def test_any_text_ends_in_units_or_a_warning(service, text):
    body = await scored(service, answer=text, samples=[{"text": text}], units="fields")

    told = [unit for unit in body["units"] if unit["kind"] == "field"]
    assert bool(told) != ("answer_not_json" in body["warnings"])
    for unit in told:
        assert unit["support"] == 1.0


SCHEMAS = {
    "one that refers to itself": {"$ref": "#"},
    "references in a circle": {"$ref": "#/a", "a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}},
    "a remote reference": {"$ref": "https://example.com/schema.json"},
    "one that nothing satisfies": {"allOf": [{"type": "string"}, {"type": "number"}]},
    "whole counts and nulls": {"minProperties": 1.0, "required": None, "properties": None},
    "a pattern that explodes": {"properties": {"number": {"pattern": "^(a+)+$"}}},
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=list(SCHEMAS))
async def test_any_schema_ends_in_units(service, schema):
    asked = {"answer": INVOICE, "samples": SAMPLES, "units": "fields", "json_schema": schema}

    assert len(by_path(await scored(service, **asked))) == 4


async def test_a_schema_says_how_values_agree(service):
    number = {"answer": '{"at": "2026-03-04", "km": 100}', "units": "fields"}
    samples = [{"text": '{"at": "2026-03-05", "km": 104}'}]
    schema = {"properties": {"at": {"format": "date"}, "km": {"x-relative-tolerance": 0.05}}}

    loose = by_path(await scored(service, **number, samples=samples))
    exact = by_path(await scored(service, **number, samples=samples, json_schema=schema))

    assert [unit["support"] for unit in exact.values()] == [0.0, 1.0]
    assert loose["/km"]["support"] == 0.0


async def test_keys_are_told_as_json_pointers(service):
    text = HOSTILE["keys with / and ~"]
    body = await scored(service, answer=text, samples=[{"text": text}], units="fields")

    assert list(by_path(body)) == ["/a~1b", "/m~0n", "/"]
