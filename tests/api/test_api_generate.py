"""What a success over HTTP holds.

Every documented field is there, numbers agree with each other, and no work is done unasked.
"""

import asyncio

import numpy as np
import pytest

from app.scoring.defaults import DEFAULT_ESTIMATORS
from app.scoring.plan import NO_CALIBRATOR
from tests.api.generated import SEEDED, generated

pytestmark = pytest.mark.anyio


async def test_what_was_not_asked_for_is_absent_and_the_rest_is_there(service):
    result = await generated(service)
    assert list(result) == [
        "id",
        "text",
        "finish_reason",
        "usage",
        "uncertainty",
        "estimator",
        "confidence",
        "support",
        "scores",
        "reasons",
        "warnings",
        "timing_ms",
        "cached",
        "provenance",
    ]
    assert result["timing_ms"].keys() == {"queue", "generate", "similarity", "score", "total"}
    assert (result["finish_reason"], result["warnings"], result["cached"]) == ("stop", [], False)
    assert result["confidence"] is None
    assert result["reasons"] == {"confidence": NO_CALIBRATOR}
    provenance = result["provenance"]
    assert provenance["model"] == provenance["similarity_model"] == {"id": "fake", "revision": "1"}
    assert (provenance["mode"], provenance["strategy"]) == ("full", "greedy")
    assert None not in provenance.values()
    assert provenance["sample_limit"] == 32


async def test_what_was_asked_for_is_there(service):
    result = await generated(service, explain=True, return_samples=True, return_tokens=True)
    assert len(result["samples"]) == 10
    assert sum(group["count"] for group in result["groups"]) == 10
    assert result["explanation"]
    assert "".join(token["text"] for token in result["tokens"]) == result["text"]


async def test_cocoa_is_uncertainty_times_inconsistency(service):
    scores = (await generated(service, **SEEDED))["scores"]
    assert 0 < scores["inconsistency"] < 1
    for name in ("sp", "ppl", "mte"):
        assert scores[f"cocoa_{name}"] == pytest.approx(
            scores[name] * scores["inconsistency"], abs=1e-6
        )
        assert scores[name] > 0


async def test_scores_follow_from_the_returned_tokens_and_samples(service):
    result = await generated(
        service,
        **SEEDED,
        estimators=["mcse", *DEFAULT_ESTIMATORS],
        return_samples=True,
        return_tokens=True,
    )
    scores, tokens, samples = result["scores"], result["tokens"], result["samples"]
    logprobs = [token["logprob"] for token in tokens]
    dissimilarities = 1 - np.array([sample["similarity"] for sample in samples])
    assert scores["sp"] == pytest.approx(-sum(logprobs))
    assert scores["ppl"] == pytest.approx(-sum(logprobs) / len(logprobs))
    assert scores["mte"] == pytest.approx(np.mean([token["entropy"] for token in tokens]))
    assert scores["mcse"] == pytest.approx(-np.mean([sample["logprob"] for sample in samples]))
    assert scores["inconsistency"] == pytest.approx(dissimilarities.mean())
    assert result["provenance"]["inconsistency_std_error"] == pytest.approx(
        dissimilarities.std(ddof=1) / np.sqrt(len(samples))
    )
    distinct = {sample["text"].strip() for sample in samples}
    assert len(distinct) == result["provenance"]["num_distinct_samples"] > 1
    assert "".join(token["text"] for token in tokens) == result["text"]


async def test_usage_counts_tokens_of_prompt_answer_and_samples(service):
    result = await generated(
        service, prompt="one two three", return_tokens=True, max_new_tokens=1, num_samples=7
    )
    tokens = {"prompt_tokens": 4, "completion_tokens": 1, "reasoning_tokens": 0, "sample_tokens": 7}
    assert result["usage"] == tokens


@pytest.mark.parametrize(
    ("body", "scored", "primary"),
    [
        pytest.param({}, list(DEFAULT_ESTIMATORS), "rb_cocoa_root_sp", id="default"),
        pytest.param({"estimators": ["mte", "sp"]}, ["mte", "sp"], "mte", id="the first named"),
        pytest.param(
            {"estimators": ["sp", "cocoa_sp"]},
            ["sp", "cocoa_sp"],
            "cocoa_sp",
            id="cocoa_sp if named",
        ),
        pytest.param(
            {"estimators": ["sp", "ppl"], "estimator": "ppl"}, ["sp", "ppl"], "ppl", id="as asked"
        ),
        pytest.param(
            {"estimators": ["sp"], "estimator": "mte"},
            ["sp", "mte"],
            "mte",
            id="asked and not named",
        ),
        pytest.param(
            {"estimator": "mcse"},
            [*DEFAULT_ESTIMATORS, "mcse"],
            "mcse",
            id="asked beside the default",
        ),
        pytest.param({"estimators": ["sp", "sp"]}, ["sp"], "sp", id="named twice"),
    ],
)
async def test_only_what_is_named_comes_back_and_the_primary_is_the_uncertainty(
    service, body, scored, primary
):
    result = await generated(service, **body)
    assert list(result["scores"]) == scored
    assert result["estimator"] == primary
    assert result["uncertainty"] == result["scores"][primary] is not None


@pytest.mark.parametrize(
    ("body", "num_sequences", "asks_pairs"),
    [
        pytest.param({"estimators": ["sp"]}, 1, False, id="one estimator of the answer"),
        pytest.param(
            {"estimators": ["sp", "ppl", "mte"], "return_tokens": True},
            1,
            False,
            id="all of the answer",
        ),
        pytest.param({"estimators": ["mcse"]}, 6, False, id="samples without similarity"),
        pytest.param(
            {"estimators": ["sp"], "return_samples": True}, 6, False, id="samples to return"
        ),
        pytest.param({"estimators": ["inconsistency"]}, 6, True, id="similarity"),
        pytest.param({}, 6, True, id="the default"),
    ],
)
async def test_nothing_is_computed_that_nothing_reads(service, body, num_sequences, asks_pairs):
    before, batches_before = service.engine.num_sequences, len(service.pair_model.batches)
    result = await generated(service, num_samples=5, seed=1, **body)
    assert service.engine.num_sequences - before == num_sequences
    assert (len(service.pair_model.batches) > batches_before) == asks_pairs
    provenance = result["provenance"]
    assert ("similarity_model" in provenance) == asks_pairs
    assert ("inconsistency_std_error" in provenance) == asks_pairs
    assert provenance.get("num_samples", 0) == num_sequences - 1


async def test_samples_come_back_when_asked_for_and_with_null_similarity_where_none_was_computed(
    service,
):
    result = await generated(service, estimators=["sp"], return_samples=True, num_samples=3)
    assert len(result["samples"]) == 3
    for sample in result["samples"]:
        assert sample.keys() == {"text", "logprob", "similarity", "finish_reason"}
        assert sample["similarity"] is None
        assert sample["logprob"] < 0


async def test_tokens_hold_logprob_and_entropy_even_where_no_estimator_reads_them(service):
    result = await generated(service, estimators=["sp"], return_tokens=True)
    assert list(result["scores"]) == ["sp"]
    assert all(token["logprob"] <= 0 < token["entropy"] for token in result["tokens"])


async def test_one_sample_has_inconsistency_and_no_standard_error(service):
    result = await generated(service, num_samples=1)
    assert result["scores"]["cocoa_ppl"] is not None
    assert "inconsistency_std_error" not in result["provenance"]


async def test_samples_that_all_equal_the_answer_make_cocoa_zero_and_ask_no_pair(
    service, monkeypatch
):
    monkeypatch.setattr("tests.fakes.engine._ANSWERS", (" Paris",) * 6)
    batches_before = len(service.pair_model.batches)
    result = await generated(service)
    assert (
        result["scores"]["inconsistency"]
        == result["scores"]["cocoa_sp"]
        == result["uncertainty"]
        == 0
    )
    assert result["provenance"]["num_distinct_samples"] == 1
    assert len(service.pair_model.batches) == batches_before


async def test_empty_samples_count_as_wholly_dissimilar(service, monkeypatch):
    monkeypatch.setattr("tests.fakes.engine._ANSWERS", (" Paris",) * 4 + ("", ""))
    result = await generated(service, **SEEDED, return_samples=True)
    num_empty = [sample["text"] for sample in result["samples"]].count("")
    assert 0 < num_empty < 10
    assert result["scores"]["inconsistency"] == pytest.approx(num_empty / 10)


async def test_a_score_that_is_no_finite_number_is_null_with_its_reason(service, monkeypatch):
    monkeypatch.setattr(
        "tests.fakes.engine._pseudo", lambda tokens, scale: np.full(len(tokens), np.inf)
    )
    result = await generated(service)
    assert result["scores"]["sp"] is None
    assert result["uncertainty"] is None
    assert result["reasons"]["sp"] == "not a finite number"
    assert result["scores"]["inconsistency"] is not None


async def test_messages_are_answered_in_the_models_own_template(service):
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    result = await generated(service, messages=messages)
    raw = await generated(service, prompt="[user]What is the capital of France?")
    assert (result["text"], result["scores"]) == (raw["text"], raw["scores"])


async def test_requests_at_once_are_answered_as_each_alone(service):
    bodies = []
    for number in range(16):
        bodies.append({"prompt": f"Question {number}?", "seed": number, "return_samples": True})
    together = await asyncio.gather(*(generated(service, **body) for body in bodies))
    for body, result in zip(bodies, together, strict=True):
        alone = await generated(service, **body)
        for key in ("text", "samples", "scores"):
            assert alone[key] == result[key]


async def test_an_engine_with_the_fewest_statistics_still_gives_inconsistency(service):
    service.without_statistics(*(service.generator.info.statistics - {"sample_texts"}))
    result = await generated(service, return_samples=True, return_tokens=True)
    assert {name for name, value in result["scores"].items() if value is not None} == {
        "inconsistency"
    }
    assert (result["estimator"], result["provenance"]["degraded"]) == ("inconsistency", True)
    assert result["uncertainty"] == result["scores"]["inconsistency"]
    assert all(sample["logprob"] is None for sample in result["samples"])
    assert all(token["logprob"] is None and token["entropy"] is None for token in result["tokens"])


async def test_support_is_told_wherever_samples_were_compared_whatever_the_model(service):
    body = (await service.generate(num_samples=4, explain=True, seed=1)).json()
    assert body["support"] == body["groups"][0]["share"]
    assert body["confidence"] is None
    assert "cocoa calibrate" in body["reasons"]["confidence"]
    for without in ({"estimators": ["sp"]}, {"mode": "light", "estimators": ["ppl"]}):
        assert "support" not in (await service.generate(**without)).json()
    sent = {"messages": [{"role": "user", "content": "a"}], "model": "cocoa", "max_tokens": 64}
    sent["uncertainty"] = {"num_samples": 4}
    chat = (await service.client.post("/v1/chat/completions", json=sent)).json()
    assert 0 <= chat["choices"][0]["uncertainty"]["support"] <= 1
