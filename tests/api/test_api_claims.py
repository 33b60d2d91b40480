"""Claims of a given answer, which the client has made itself."""

import re

import pytest

from models.similarity.protocol import NliConfig
from tests.api.keyed import metric, with_keys
from tests.api.scored import PROMPT, scored
from tests.conftest import GENERATE, serving
from tests.made_keys import bearer

pytestmark = pytest.mark.anyio
PLACEMENTS = ["embedded", "remote"]

ANSWER = "Lima is the capital of Peru. It has nine people."
SAMPLES = [{"text": "Lima is the capital of Peru."}, {"text": "Lima has ten people."}]
CLAIMS = [
    {"text": "Lima is the capital of Peru.", "quotes": ["Lima", "capital of Peru"]},
    {"text": "Lima has nine people.", "quotes": ["nine people"]},
    {"text": "Lima has people."},
]


async def test_own_claims_have_support_without_a_prompt(service):
    asked = {"answer": ANSWER, "samples": SAMPLES, "claims": CLAIMS, "explain": True}
    body = await scored(service, **asked)

    _, *claims = body["units"]
    assert [one["kind"] for one in claims] == ["claim"] * 3
    assert [one["text"] for one in claims] == [one["text"] for one in CLAIMS]
    assert claims[0]["span"] == [0, 27]
    assert claims[0]["spans"] == [[0, 4], [12, 27]]
    assert "spans" not in claims[1]
    assert "span" not in claims[2]
    # Word for word in one sample, and denied by the number of the other; of the others the fake
    # entails the share of the premise's words that the hypothesis has.
    assert [one["support"] for one in claims] == pytest.approx([15 / 24, 0, 11 / 24])
    assert [one["contradicted_by"] for one in claims] == [[], [1], []]
    for one in claims:
        assert one["scores"]["inconsistency"] == pytest.approx(1 - one["support"])
        assert one["uncertainty"] == one["scores"]["inconsistency"]
    assert body["provenance"]["unit_pairs"] == 6
    assert "2 of 3 claims" in body["explanation"]


async def test_own_claims_have_the_probability_of_their_quotes(service):
    asked = {"prompt": PROMPT, "answer": " Lima, says he.", "claims": CLAIMS}
    body = await scored(service, return_tokens=True, **asked)

    _, first, second, third = body["units"]
    assert body["warnings"] == ["quotes_not_found"]
    for one in (first, second, third):
        assert one["estimator"] == "inconsistency"
        assert one["uncertainty"] == one["scores"]["inconsistency"]
        assert one["reasons"]["sp"] == "the unit has no tokens"
    assert body["units_max"] == max(one["uncertainty"] for one in (first, second, third))
    quoted = {"text": "He speaks.", "quotes": ["Lima,", "he."]}
    body = await scored(service, return_tokens=True, **asked | {"claims": [quoted, CLAIMS[2]]})
    [_, unit, without] = body["units"]
    assert (without["estimator"], without["uncertainty"] is None) == ("inconsistency", False)
    assert body["units_mean"] == body["units_max"] == unit["uncertainty"]
    logprobs = [token["logprob"] for token in body["tokens"]]
    assert unit["scores"]["sp"] == pytest.approx(-logprobs[0] - logprobs[2])
    assert unit["tokens"] == [0, 3]
    assert unit["estimator"] == "cocoa_sp"


async def test_the_uncertainty_of_claims_without_any_quotes_is_their_inconsistency(service):
    claims = [{"text": one["text"]} for one in CLAIMS]
    body = await scored(service, prompt=PROMPT, answer=ANSWER, claims=claims)

    for one in body["units"][1:]:
        assert one["estimator"] == "inconsistency"
        assert one["uncertainty"] is not None


@pytest.mark.parametrize(
    ("asked", "field", "said"),
    [
        ({"claims": []}, "claims", "at least 1"),
        ({"claims": [{"text": "So."}] * 1025}, "claims", "at most 1024"),
        ({"claims": [{"text": "x" * 32_769}]}, "claims.0.text", "at most 32768 characters"),
        ({"claims": [{"text": " \n"}]}, "claims.0.text", "must say something"),
        ({"claims": [{}]}, "claims.0.text", "required"),
        ({"claims": ["So."]}, "claims.0", "must be an object"),
        ({"claims": [{"text": "So.", "quotes": [""]}]}, "claims.0.quotes.0", "at least 1"),
        ({"claims": [{"text": "So.", "quotes": ["x"] * 65}]}, "claims.0.quotes", "at most 64"),
        ({"claims": [{"text": "So.", "quote": "x"}]}, "claims.0.quote", "quotes"),
        ({"units": "sentences"}, "claims", "leave units out"),
        (
            {
                "claims": [{"text": f"{i}"} for i in range(1000)],
                "samples": [{"text": f"{i} " * 10_000} for i in range(2)],
            },
            "samples",
            "pairs of texts to compare",
        ),
        ({"samples": None}, "prompt", "nothing to score the answer by"),
        ({"on_unit_reject": "remove", "target_error": 0.1}, "on_unit_reject", "claims"),
        ({"on_unit_reject": "abstain"}, "on_unit_reject", "needs target_error"),
        ({"target_error": 0.1}, "target_error", "calibrator"),
        ({"json_schema": {}}, "json_schema", "units fields only"),
    ],
    ids=[
        "none",
        "too many",
        "too long",
        "white space",
        "no text",
        "a string",
        "an empty quote",
        "too many quotes",
        "misspelt",
        "other units",
        "too many pairs",
        "nothing to compare",
        "removed",
        "no target error",
        "no calibrator",
        "a schema",
    ],
)
async def test_claims_that_cannot_be_judged_are_refused_by_name(service, asked, field, said):
    body = {"answer": ANSWER, "samples": SAMPLES, "claims": CLAIMS} | asked
    response = await service.client.post("/score", json=body)

    error = response.json()["error"]
    assert (response.status_code, error["field"]) == (422, field)
    assert said in error["message"]


CHAT = {"model": "fake", "messages": [{"role": "user", "content": PROMPT}]}
SPLIT = {"units": "claims"}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (GENERATE, {"prompt": PROMPT} | SPLIT, "units"),
        ("/v1/chat/completions", CHAT | {"uncertainty": SPLIT}, "uncertainty.units"),
        ("/score", {"prompt": PROMPT, "answer": ANSWER} | SPLIT, "units"),
        ("/score", {"answer": ANSWER, "samples": SAMPLES} | SPLIT, "units"),
    ],
    ids=["generated", "chat", "given", "given without a prompt"],
)
async def test_no_model_splits_an_answer_and_the_refusal_says_what_to_do(
    service, path, body, field
):
    num_calls = service.engine.num_calls
    response = await service.client.post(path, json=body)

    error = response.json()["error"]
    assert (response.status_code, error.get("param", error.get("field"))) == (422, field)
    told = "'answer', 'fields' or 'sentences'|send them as claims"
    assert re.search(told, error["message"])
    assert service.engine.num_calls == num_calls


async def test_what_is_read_of_pairs_is_charged_once(tmp_path):
    # Of the claim the samples have neither all words nor another number.
    body = {"answer": ANSWER, "samples": SAMPLES, "claims": [{"text": "Lima lies in Peru."}]}
    async with with_keys(tmp_path, one={}) as service:
        for _ in range(2):
            response = await service.client.post("/score", json=body, headers=bearer("one"))
            assert response.status_code == 200, response.text
            # The fake's tokens are words: 4 of the claim beside 6 and 4 of the samples, and one for
            # four of the 96 characters of answer and samples.
            assert await metric(service, 'cocoa_key_tokens_total{key="one"} 42.0')


async def test_without_an_nli_model_claims_are_compared_by_their_words():
    async with serving(nli=NliConfig(name="fake_nli", model="")) as service:
        samples = [{"text": one["text"]} for one in CLAIMS]
        body = {"answer": ANSWER, "claims": CLAIMS, "samples": samples}
        response = await service.client.post("/score", json=body)

        assert response.status_code == 200, response.text
        told = [one for one in response.json()["units"] if one["kind"] == "claim"]
        assert len(told) == len(CLAIMS)
        for one in told:
            assert 1 / len(CLAIMS) <= one["support"] <= 1
            assert "contradiction" not in one
