"""Limits of what a client's texts may cost, over HTTP: refused before any model is asked."""

import pytest

from app.settings import Limits
from tests.conftest import serving

pytestmark = pytest.mark.anyio

PROMPT = "What is the capital of France?"
TOO_LONG = "x" * 32_769


def samples(*texts):
    return [{"text": text} for text in texts]


# id: what is sent, the field and the limit that the error names
REFUSED = {
    "an answer of 33 kB": ({"answer": TOO_LONG, "samples": samples("x")}, "answer", "32768"),
    "an answer of 33 kB after a prompt": (
        {"prompt": PROMPT, "answer": TOO_LONG},
        "answer",
        "32768",
    ),
    "a sample of 33 kB": (
        {"answer": "x", "samples": samples("x", TOO_LONG)},
        "samples.1.text",
        "32768",
    ),
}


def num_model_calls(service):
    pair_models = service.pair_model, service.nli_model
    return service.engine.num_calls, [len(model.batches) for model in pair_models]


@pytest.mark.parametrize(("body", "field", "limit"), REFUSED.values(), ids=REFUSED)
async def test_what_exceeds_a_limit_is_refused_by_field_and_limit_before_any_model_is_asked(
    service, body, field, limit
):
    before = num_model_calls(service)
    response = await service.client.post("/score", json=body)

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (422, "invalid_request")
    assert error["field"] == field
    assert limit in error["message"]
    assert num_model_calls(service) == before


# id: what is sent
ACCEPTED = {
    "64 samples of 9 kB": {
        "answer": "word " * 1800,
        "samples": samples(*[f"{number} " + "word " * 1800 for number in range(64)]),
    },
    "two texts of 32 kB": {"answer": "x" * 32_768, "samples": samples("y" * 32_768)},
    "257 sentences": {"answer": "It is Paris. " * 257, "samples": samples("x")},
    "64 samples, every pair of them": {
        "answer": "x",
        "samples": samples(*map(str, range(64))),
        "estimators": ["degmat", "inconsistency"],
    },
}


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED)
async def test_what_keeps_the_limits_is_scored(service, body):
    response = await service.client.post("/score", json=body)

    assert response.status_code == 200, response.text


async def test_an_item_over_a_limit_fails_alone(service):
    good = {"answer": "Paris", "samples": samples("Rome"), "estimators": ["inconsistency"]}
    items = [good, good | {"answer": TOO_LONG}]
    results = (await service.client.post("/score", json={"items": items})).json()["results"]

    assert results[0]["result"]["scores"]["inconsistency"] is not None
    assert results[1]["error"]["field"] == "answer"


# id: an estimator, for which three samples make six pairs
SIX_PAIRS = {"similarity": "inconsistency", "NLI": "num_sem_sets"}


@pytest.mark.parametrize("estimator", SIX_PAIRS.values(), ids=SIX_PAIRS)
async def test_given_texts_of_more_pairs_than_the_deployment_allows_are_refused(estimator):
    body = {"prompt": PROMPT, "answer": "x", "estimators": [estimator]}
    async with serving(limits=Limits(max_pairs=5)) as service:
        before = num_model_calls(service)
        more = await service.client.post("/score", json=body | {"samples": samples("a", "b", "c")})
        assert num_model_calls(service) == before
        fewer = await service.client.post("/score", json=body | {"samples": samples("a", "b")})

    error = more.json()["error"]
    assert (more.status_code, error["code"], error["field"]) == (422, "invalid_request", "samples")
    assert "6 pairs" in error["message"]
    assert error["message"].endswith("may take 5")
    assert fewer.status_code == 200


# id: the limit, and an estimator whose work on generated texts exceeds it
GENERATED = {
    "pairs of samples": (Limits(max_pairs=5), "degmat"),
    "pairs of texts without a token": (Limits(max_pairs=1), "token_sar"),
    "characters of texts without a token": (Limits(max_relevance_characters=20), "token_sar"),
}


@pytest.mark.parametrize(("limits", "estimator"), GENERATED.values(), ids=GENERATED)
async def test_generated_texts_over_a_limit_are_refused_before_they_are_compared(limits, estimator):
    async with serving(limits=limits) as service:
        num_batches = len(service.pair_model.batches)
        response = await service.generate(estimators=[estimator], seed=3)
        assert len(service.pair_model.batches) == num_batches

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (422, "invalid_request")
    assert error["field"] == "estimators"


# id: a path, and a body that names no deadline
WITHOUT_A_DEADLINE = {
    "a prompt": ("/generate-with-uncertainty", {"prompt": PROMPT}),
    "an answer": ("/score", {"prompt": PROMPT, "answer": "Paris"}),
    "a response": ("/v1/responses", {"model": "cocoa", "input": PROMPT}),
    "several texts": ("/v1/completions", {"model": "cocoa", "prompt": [PROMPT, "Hi"]}),
}


@pytest.mark.parametrize(
    ("path", "body"), WITHOUT_A_DEADLINE.values(), ids=list(WITHOUT_A_DEADLINE)
)
async def test_a_request_that_names_no_deadline_has_that_of_the_deployment(path, body):
    async with serving(limits=Limits(timeout_s=0.2)) as service:
        undo = service.generation_takes(0.5)
        late = await service.client.post(path, json=body)
        item = {"prompt": PROMPT, "answer": "Rome"}
        together = await service.client.post("/score", json={"items": [item]})
        undo()
    assert (late.status_code, late.json()["error"]["code"]) == (504, "deadline_exceeded")
    assert "timeout_s = 0.2 s" in late.json()["error"]["message"]
    assert together.json()["results"][0]["error"]["code"] == "deadline_exceeded"
