"""Parts of answers that may pass or not: told, removed, or the answer held back for them."""

import json

import pytest

from cocoa_lab.calibration.calibrating import to_json
from tests.api.openai_calls import CHAT, TEXT, answered, post, uncertainty_of
from tests.conftest import serving
from tests.fakes import engine
from tests.made_calibrators import calibrator, with_fields

pytestmark = pytest.mark.anyio

INVOICE = '{"number": "A-117", "total": 118.5, "lines": [{"name": "paper"}, {"name": "ink"}]}'
DECIDED = {"units": "fields", "target_error": 0.1}
PATHS = ["/number", "/total", "/lines/0/name", "/lines/1/name"]


@pytest.fixture
def judging(tmp_path, monkeypatch):
    """The service over a model that writes invoices: `async with await judging(threshold)`."""
    invoices = (INVOICE, INVOICE.replace("118.5", "18.5"), INVOICE.replace("ink", "oil"), "none")
    monkeypatch.setattr(engine, "_ANSWERS", (INVOICE,) * 4 + invoices)

    async def start(threshold=1.0, **changes):
        async with serving() as service:
            workers = service.workers
            made = calibrator(
                generator=workers.generator.info.identity,
                comparer=workers.similarity_scorers["fake"].info.identity,
                nli=workers.nli.info.identity,
            )
        path = tmp_path / "made.json"
        path.write_text(to_json(with_fields(made, threshold, **changes)))
        return serving(calibrator=str(path))

    return start


def fields_of(body):
    return {unit["path"]: unit for unit in body["units"] if unit["kind"] == "field"}


def between(body):
    """An uncertainty that half of the fields are below."""
    uncertainties = sorted(unit["uncertainty"] for unit in fields_of(body).values())
    assert uncertainties[1] < uncertainties[2], "the fields differ"
    return (uncertainties[1] + uncertainties[2]) / 2


async def asked(service, **body):
    response = await service.generate(**{"seed": 1, "units": "fields"} | body)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture
async def half(judging):
    """A service that accepts half of the fields, and its answer without a decision."""
    async with await judging() as service:
        plain = await asked(service)
    async with await judging(between(plain)) as service:
        yield service, plain


async def test_each_field_has_a_confidence_and_a_decision_and_they_are_the_calibrators(half):
    service, plain = half
    body = await asked(service, target_error=0.1)

    threshold = body["units_decision"]["threshold"]
    assert threshold == between(plain)
    for before, unit in zip(plain["units"][1:], body["units"][1:], strict=True):
        assert unit["uncertainty"] == before["uncertainty"]
        assert unit["confidence"] == before["confidence"]
        assert unit["decision"]["accept"] == (unit["uncertainty"] <= threshold)
        assert ("reason" in unit["decision"]) != unit["decision"]["accept"]
        assert "decision" not in before
    assert len({unit["confidence"] for unit in body["units"][1:]}) > 1
    assert "units.confidence" not in body["reasons"]
    assert body["units_decision"]["accept"] is False
    assert "on average over answers at most 10 %" in body["units_decision"]["guarantee"]
    assert body["units"][0].keys().isdisjoint({"confidence", "decision"})
    assert body["text"] == INVOICE


async def test_the_version_tells_what_may_be_asked_of_fields(half):
    service, plain = half
    told = (await service.client.get("/version")).json()["calibrator"]

    assert 0.1 in told["target_errors"]
    [one] = told["units"]["field"]
    assert (one["target_error"], one["uncertainty"]) == (0.1, between(plain))


async def test_what_does_not_pass_is_null_in_the_refined_text_and_stays_in_the_units(half):
    service, _ = half
    body = await asked(service, target_error=0.1, on_unit_reject="remove")

    assert body["text"] == INVOICE
    refined = json.loads(body["refined_text"])
    for path, unit in fields_of(body).items():
        place, key = refined, path.removeprefix("/")
        if "/" in key:
            _, index, key = key.split("/")
            place = refined["lines"][int(index)]
        accept = unit["decision"]["accept"]
        assert place[key] == (json.loads(unit["text"]) if accept else None)
        assert unit["decision"]["removed"] is not accept


async def test_a_schema_makes_other_scores_than_those_that_were_calibrated_without(half):
    service, _ = half
    refused = await service.generate(**DECIDED, json_schema={"type": "object"})

    error = refused.json()["error"]
    assert (error["code"], error["field"]) == ("not_calibrated", "target_error")
    assert "json_schema compared" in error["message"]


async def test_a_schema_that_was_calibrated_says_what_may_be_null(judging):
    string = {"type": "string"}
    schema = {
        "properties": {
            "number": string,
            "total": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "lines": {"items": {"properties": {"name": string}}},
        }
    }
    async with await judging(-1.0, schema_use="compared") as service:
        body = await asked(service, target_error=0.1, on_unit_reject="remove", json_schema=schema)

    assert json.loads(body["refined_text"]) == json.loads(INVOICE) | {"total": None}
    told = {path: unit["decision"]["removed"] for path, unit in fields_of(body).items()}
    assert told == dict.fromkeys(PATHS, False) | {"/total": True}
    assert "does not let it be null" in fields_of(body)["/number"]["decision"]["reason"]


async def test_an_answer_is_held_back_for_one_field_and_nothing_of_it_is_told(half):
    service, _ = half
    body = await asked(
        service, target_error=0.1, on_unit_reject="abstain", return_samples=True, return_tokens=True
    )
    metrics = (await service.client.get("/metrics")).text

    for name in ("text", "units", "samples", "tokens"):
        assert body[name] is None
        assert body["reasons"][name] == "the answer is held back: a part of it does not pass"
    assert body["units_decision"]["accept"] is False
    assert "A-117" not in json.dumps(body)
    assert 'cocoa_decisions_total{outcome="held_back"} 1.0' in metrics


async def test_an_answer_of_which_all_fields_pass_is_given(judging):
    async with await judging(1e6) as service:
        body = await asked(service, target_error=0.1, on_unit_reject="abstain")
        removed = await asked(service, target_error=0.1, on_unit_reject="remove")

    assert body["text"] == removed["refined_text"] == INVOICE
    assert body["units_decision"]["accept"] is True
    assert {unit["decision"]["accept"] for unit in body["units"][1:]} == {True}


async def test_an_answer_without_fields_never_passes(judging, monkeypatch):
    async with await judging(1e6) as service:
        monkeypatch.setattr(engine, "_ANSWERS", ("Lima",) * 6)
        held_back = await asked(service, target_error=0.1, on_unit_reject="abstain")
        removed = await asked(service, target_error=0.1, on_unit_reject="remove")
    async with await judging(1e6, input="messages") as service:
        chat = await answered(
            service, CHAT, uncertainty={**DECIDED, "on_unit_reject": "remove"}, seed=1
        )

    assert held_back["text"] is None
    assert held_back["units_decision"]["guarantee"] == "the answer has no parts: not accepted"
    assert (removed["text"], removed["refined_text"]) == ("Lima", None)
    assert removed["reasons"]["refined_text"] == "the answer has no parts"
    message = chat["choices"][0]["message"]
    assert message["content"] is None
    assert "held back" in message["refusal"]


async def test_of_more_fields_than_are_scored_none_is_removed_and_nothing_passes(
    judging, monkeypatch
):
    many = json.dumps(list(range(2000)))
    async with await judging(1e6) as service:
        monkeypatch.setattr(engine, "_ANSWERS", (many,) * 6)
        wanted = {"target_error": 0.1, "max_new_tokens": 64, "num_samples": 10}
        monkeypatch.setattr(engine, "_WORD", engine.re.compile(r"(?s).+"))
        removed = await asked(service, **wanted, on_unit_reject="remove")

    assert removed["units_decision"]["accept"] is False
    assert removed["refined_text"] is None
    assert removed["reasons"]["refined_text"] == "the answer has more parts than are scored"


async def test_openais_clients_read_the_refined_text_as_the_answer(half):
    service, _ = half
    wanted = DECIDED | {"on_unit_reject": "remove"}
    body = await answered(service, TEXT, uncertainty=wanted, seed=1, logprobs=0)

    [choice], told = body["choices"], uncertainty_of(body)
    assert choice["text"] == told["refined_text"] != INVOICE
    assert json.loads(choice["text"]).keys() == json.loads(INVOICE).keys()
    assert told["units"][0]["text"] == INVOICE
    assert choice["logprobs"] is None


async def test_a_given_answer_is_decided_as_given_answers_were_calibrated(judging):
    body = {"prompt": "Which?", "answer": INVOICE, **DECIDED}
    drawn = body | {"seed": 1}
    async with await judging(1e6) as service:
        other = await service.client.post("/score", json=drawn)
    async with await judging(1e6, strategy="given") as service:
        given = (await service.client.post("/score", json=drawn)).json()
        brought = await service.client.post("/score", json=body | {"samples": [{"text": "{}"}]})

    assert other.json()["error"]["code"] == "not_calibrated"
    assert "strategy" in other.json()["error"]["message"]
    assert given["units_decision"]["accept"] is True
    assert [unit["path"] for unit in given["units"][1:]] == PATHS
    assert "given samples" in brought.json()["error"]["message"]


HOSTILE = {
    "a duplicate key": ('{"a": 1, "a": 2}', '{"a": 1, "a": null}'),
    "keys with / and ~": (
        '{"a/b": 1, "m~n": [2], "": 3}',
        '{"a/b": null, "m~n": [null], "": null}',
    ),
    "escapes in keys and values": ('{"\\u00e9\\"": "\\ud83d\\ude00"}', '{"\\u00e9\\"": null}'),
    "a lone surrogate": ('["\\ud800", 1]', "[null, null]"),
    "a big integer": ("[" + "9" * 400 + "]", "[null]"),
    "a code block": ('```json\n{"a": 1}\n```', '```json\n{"a": null}\n```'),
    "an empty object": ("{}", "null"),
    "a string": ('"Lima"', "null"),
    "NaN": ("[NaN]", None),
    "an infinite number": ("[1e999]", None),
    "a huge integer": ("[" + "9" * 5000 + "]", None),
    "cut JSON": ('{"a": [1, 2', None),
    "nested deeply": ("[" * 500 + "]" * 500, None),
}


@pytest.fixture
async def refusing(judging):
    """A service that accepts no field of a given answer."""
    async with await judging(-1.0, strategy="given") as service:
        yield service


@pytest.mark.parametrize(("answer", "refined"), HOSTILE.values(), ids=list(HOSTILE))
async def test_of_any_text_what_does_not_pass_is_removed_or_nothing_is(refusing, answer, refined):
    wanted = {"prompt": "Which?", "answer": answer, "max_new_tokens": 64, **DECIDED}
    removed = await refusing.client.post("/score", json=wanted | {"on_unit_reject": "remove"})
    held_back = await refusing.client.post("/score", json=wanted | {"on_unit_reject": "abstain"})

    body = removed.json()
    assert (removed.status_code, body["text"]) == (200, answer)
    assert body["refined_text"] == refined
    assert body["units_decision"]["accept"] is False
    assert ("refined_text" in body["reasons"]) == (refined is None)
    assert held_back.json()["text"] is None


TOOL = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"properties": {"city": {"type": "string"}}}},
}


async def test_a_call_of_a_tool_is_made_as_a_whole_or_not(judging):
    wanted = {"units": "fields", "target_error": 0.1}
    async with await judging(input="messages") as service:
        remove = wanted | {"on_unit_reject": "remove"}
        removed = await post(service, CHAT, uncertainty=remove, tools=[TOOL])

    error = removed.json()["error"]
    assert (removed.status_code, error["param"]) == (422, "uncertainty.on_unit_reject")


async def test_without_a_calibrator_of_fields_it_is_said_why_there_is_no_confidence(service):
    body = await asked(service)
    assert body["reasons"]["units.confidence"].startswith("no calibrator is loaded")


@pytest.mark.parametrize(
    ("wanted", "field", "said"),
    [
        ({"on_unit_reject": "remove"}, "on_unit_reject", "needs target_error"),
        ({"on_unit_reject": "keep", "target_error": 0.07}, "target_error", "must be one of 0.1"),
        (
            {"on_unit_reject": "abstain", "target_error": 0.05, "units": "answer"},
            "on_unit_reject",
            "units fields",
        ),
        ({"on_unit_reject": "shout", "target_error": 0.1}, "on_unit_reject", "keep"),
        (
            {"on_unit_reject": "remove", "target_error": 0.1, "stream": True},
            "on_unit_reject",
            "streamed",
        ),
        ({"target_error": 0.1, "estimators": ["sp"]}, "target_error", "sp of a field"),
        ({"target_error": 0.1, "num_samples": 3}, "target_error", "num_samples 3"),
    ],
    ids=str,
)
async def test_what_cannot_be_decided_is_refused_before_any_work(judging, wanted, field, said):
    async with await judging() as service:
        calls = service.engine.num_calls
        response = await service.generate(**{"units": "fields"} | wanted)
        assert service.engine.num_calls == calls

    assert response.status_code == 422
    error = response.json()["error"]
    assert error["field"] == field
    assert said in error["message"]


async def test_of_several_choices_the_fields_are_told_only():
    wanted = {"units": "fields", "target_error": 0.1, "on_unit_reject": "remove"}
    async with serving() as service:
        response = await post(service, CHAT, uncertainty=wanted, n=2, temperature=1)

    assert response.status_code == 422
    assert response.json()["error"]["param"] == "uncertainty.on_unit_reject"


async def test_openais_endpoint_names_the_field_as_its_clients_send_it(judging):
    async with await judging() as service:
        wanted = {"units": "fields", "on_unit_reject": "remove"}
        response = await post(service, CHAT, uncertainty=wanted)

    assert response.status_code == 422
    assert response.json()["error"]["param"] == "uncertainty.on_unit_reject"
