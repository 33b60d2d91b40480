"""Every error code over HTTP, in the one shape, and without a word of the prompt."""

import logging
import re

import numpy as np
import pytest

from app.http.errors import body_of
from models import errors
from models.statistics import supplied_by
from tests.api.errors_told import SENTINEL, assert_error
from tests.conftest import GENERATE, serving, until
from tests.reasons import score_reasons

pytestmark = pytest.mark.anyio

BODY = {"prompt": f"{SENTINEL} is the prompt", "max_new_tokens": 8}


def raising(error):
    return lambda service: service.generation_raises(error)


def generation_is_slow(service):
    service.generation_takes(60)


def engine_dies(service):
    service.engine_dies()


def no_entropies(service):
    service.without_statistics("answer_token_entropies")


def tokenizer_raises(service):
    def prepare(request, *, streams):
        raise RuntimeError(f"cannot tokenise {request.prompt}")

    service.engine.prepare = prepare


def contexts_raise(service):
    def fit_contexts(texts):
        raise RuntimeError(f"cannot fit {texts}")

    service.pair_model.fit_contexts = fit_contexts


def pair_model_raises(service):
    def score(pairs):
        raise ValueError(f"cannot score {pairs} of {SENTINEL}")

    service.pair_model.score = score


def pair_model_returns_nan(service):
    whole = service.pair_model.score

    def score(pairs):
        scores = whole(pairs)
        return type(scores)(np.full_like(scores.values, np.nan), scores.truncated)

    service.pair_model.score = score


def nothing(service):
    pass


# id: (what is wrong with the service, with the request, "status code field")
SCENARIOS = {
    "a field out of its bounds": (nothing, {"num_samples": 0}, "422 invalid_request num_samples"),
    "too many tokens": (nothing, {"max_new_tokens": 8192}, "422 prompt_too_long max_new_tokens"),
    "too long a prompt": (nothing, {"prompt": f"{SENTINEL} " * 600}, "422 prompt_too_long prompt"),
    "messages that the template refuses": (
        nothing,
        {"prompt": None, "messages": [{"role": "tool", "content": SENTINEL}]},
        "422 chat_template_error messages",
    ),
    "a named estimator without its statistic": (
        no_entropies,
        {"estimators": ["sp", "mte"]},
        "422 statistic_unavailable estimators",
    ),
    "a primary estimator without its statistic": (
        no_entropies,
        {"estimator": "cocoa_mte"},
        "422 statistic_unavailable estimator",
    ),
    "a failed step": (raising(errors.EngineError("a step failed")), {}, "503 engine_error"),
    "invalid logits": (raising(errors.InvalidLogits("NaN in a row")), {}, "500 invalid_logits"),
    "a tokenizer that raises": (tokenizer_raises, {}, "503 engine_error"),
    "an unfit text": (contexts_raise, {"estimators": ["token_sar"]}, "503 similarity_unavailable"),
    "workers that are gone": (
        raising(errors.GenerationUnavailable("none has answered")),
        {},
        "503 generation_unavailable",
    ),
    "a failing pair model": (pair_model_raises, {}, "503 similarity_unavailable"),
    "a pair model that returns NaN": (pair_model_returns_nan, {}, "503 similarity_unavailable"),
    "a deadline that passes": (generation_is_slow, {"timeout_s": 0.02}, "504 deadline_exceeded"),
    "a dying engine": (engine_dies, {}, "503 not_ready"),
    "an unexpected exception": (
        raising(RuntimeError(f"bad: {SENTINEL}")),
        {},
        "500 internal_error",
    ),
    "an unexpected exception with a cause": (
        raising(ExceptionGroup(SENTINEL, [KeyError(SENTINEL)])),
        {},
        "500 internal_error",
    ),
}


@pytest.mark.parametrize(("breakage", "change", "told"), SCENARIOS.values(), ids=list(SCENARIOS))
async def test_each_way_to_fail_has_its_code_and_quotes_no_prompt(
    service, caplog, breakage, change, told
):
    caplog.set_level(logging.DEBUG)
    status, code, *field = told.split()
    breakage(service)
    response = await service.client.post(GENERATE, json=BODY | change)
    assert_error(response, int(status), code, *field or [None])
    metrics = (await service.client.get("/metrics")).text
    assert f'cocoa_errors_total{{code="{code}"}} 1.0' in metrics
    assert f'cocoa_requests_total{{route="{GENERATE}",status="{status}"}} 1.0' in metrics
    assert SENTINEL not in response.text + str(response.headers) + caplog.text + metrics
    await until(lambda: service.admission.num_admitted == 0)


@pytest.mark.parametrize("error", errors.answered(), ids=lambda error: error.code)
def test_every_error_can_be_made_as_its_example_says(error):
    body = body_of(error(**error.example), "an id")
    assert (body.code, body.message) == (error.code, error.example["message"])


def test_every_code_is_of_one_error_alone():
    codes = [error.code for error in errors.answered()]
    assert len(set(codes)) == len(codes) > 20


async def test_an_unexpected_exception_is_logged_by_request_id_type_and_place(service, caplog):
    service.generation_raises(RuntimeError(SENTINEL))
    response = await service.generate()
    records = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(records) == 1
    assert re.fullmatch(
        rf"request {response.headers['x-request-id']} failed: RuntimeError at .*conftest\.py:\d+",
        records[0],
    )


async def test_the_message_names_the_missing_statistic(service):
    no_entropies(service)
    message = assert_error(
        await service.generate(estimators=["mte"]), 422, "statistic_unavailable", "estimators"
    )
    assert "mte" in message
    assert "answer_token_entropies" in message
    assert service.engine.num_calls == 1, "only the warm-up: refused before any work"


async def test_a_default_estimator_without_its_statistic_is_null_with_its_reason(service):
    no_entropies(service)
    result = (await service.generate()).json()
    assert {name for name, value in result["scores"].items() if value is None} == {
        "mte",
        "cocoa_mte",
    }
    assert score_reasons(result) == {
        "mte": "answer_token_entropies is not available",
        "cocoa_mte": "answer_token_entropies is not available",
    }


async def test_an_engine_that_draws_no_samples_supplies_no_similarity(service):
    service.without_statistics(*supplied_by("samples"))
    message = assert_error(
        await service.generate(estimators=["cocoa_ppl"]), 422, "statistic_unavailable", "estimators"
    )
    assert "similarity" in message
    result = (await service.generate()).json()
    assert "num_samples" not in result["provenance"]
    assert result["scores"]["sp"] is not None
    assert result["scores"]["inconsistency"] is None
    assert result["reasons"]["inconsistency"]


async def test_above_the_admission_limit_the_answer_is_429_with_retry_after():
    async with serving(admission_limit=1) as service:
        async with service.admission.admit():
            response = await service.generate()
        assert "1" in assert_error(response, 429, "overloaded")
        assert int(response.headers["retry-after"]) >= 1
        assert (await service.generate()).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"), [("POST", GENERATE), ("GET", "/readyz"), ("GET", "/estimators")]
)
async def test_before_the_models_are_loaded_the_answer_is_503(method, path):
    async with serving(ready=False) as service:
        message = assert_error(
            await service.client.request(method, path, json=BODY if method == "POST" else None),
            503,
            "not_ready",
        )
        assert "starting" in message
        assert (await service.client.get("/livez")).status_code == 200


async def test_an_unknown_path_is_404_and_does_not_reach_the_metrics(service):
    assert_error(await service.client.get(f"/{SENTINEL}"), 404, "not_found")
    metrics = (await service.client.get("/metrics")).text
    assert SENTINEL not in metrics
    assert 'cocoa_requests_total{route="none",status="404"} 1.0' in metrics


async def test_an_unknown_method_is_405_and_the_allowed_one_is_named(service):
    response = await service.client.get(GENERATE)
    assert_error(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "POST"


async def test_a_success_leaves_no_word_of_prompt_or_answer_in_logs_and_metrics(service, caplog):
    caplog.set_level(logging.DEBUG)
    response = await service.generate(prompt=SENTINEL, return_samples=True, return_tokens=True)
    metrics = (await service.client.get("/metrics")).text
    assert response.json()["text"].strip()
    assert SENTINEL not in caplog.text + metrics
    assert response.json()["text"].strip() not in caplog.text + metrics
