"""`POST /score`: answers that exist already."""

import json
import math
import threading
from itertools import permutations

import pytest

from models.estimators import ESTIMATORS
from models.similarity.added import added
from tests.api.errors_told import assert_error
from tests.api.scored import PROMPT, SAMPLES, scored
from tests.reasons import score_reasons

pytestmark = pytest.mark.anyio


async def test_a_given_answer_is_scored_against_samples_drawn_here(service):
    result = await scored(
        service, prompt=PROMPT, answer=" Paris", return_samples=True, return_tokens=True
    )

    provenance = result["provenance"]
    assert (result["text"], result["finish_reason"]) == (" Paris", "given")
    assert (provenance["strategy"], provenance["retokenized"]) == ("given", True)
    assert (provenance["samples_source"], provenance["num_samples"]) == ("model", 10)
    assert len(result["samples"]) == 10
    assert result["usage"]["completion_tokens"] == len(result["tokens"]) == 2
    assert result["scores"]["cocoa_ppl"] == pytest.approx(
        result["scores"]["ppl"] * result["scores"]["inconsistency"]
    )


async def test_how_a_given_answer_was_tokenised_is_said_where_a_model_read_it(service):
    read = await scored(service, prompt=PROMPT, answer=" Paris", estimators=["sp"])
    unread = await scored(service, answer="Paris", samples=SAMPLES)
    generated = (await service.generate()).json()

    assert read["provenance"]["answer_form"] == "literal"
    for body in (unread, generated):
        assert "answer_form" not in body["provenance"]
    assert "retokenized" not in generated["provenance"]


async def test_the_end_of_an_answer_counts_unless_it_is_left_open(service):
    ended = await scored(service, prompt=PROMPT, answer=" Paris", estimators=["sp"])
    open_ended = await scored(
        service, prompt=PROMPT, answer=" Paris", estimators=["sp"], append_eos=False
    )

    assert ended["usage"]["completion_tokens"] == open_ended["usage"]["completion_tokens"] + 1
    assert ended["scores"]["sp"] > open_ended["scores"]["sp"]


DRAWN = {"num_samples": 10, "max_new_tokens": 9, "temperature": 0.5, "top_k": 5, "top_p": 0.5}
DRAWN |= {"seed": 0, "stop": ["."]}


@pytest.mark.parametrize("field", DRAWN)
@pytest.mark.parametrize(
    "given",
    [{"samples": SAMPLES}, {"samples": SAMPLES, "prompt": PROMPT}, {"answer_token_logprobs": [-1]}],
    ids=["samples", "samples and a prompt", "log-probs and no prompt"],
)
async def test_how_samples_are_drawn_is_refused_where_none_are(service, given, field):
    body = {"answer": "Paris", **given, field: DRAWN[field]}
    response = await service.client.post("/score", json=body)

    message = assert_error(response, 422, "invalid_request", field)
    assert (
        message
        == "is of samples that are drawn here: not beside given samples, nor without a prompt"
    )


@pytest.mark.parametrize(
    "given",
    [
        {"samples": SAMPLES},
        {"answer_token_logprobs": [-1]},
        {"answer_token_logprobs": [-1], "prompt": PROMPT},
    ],
    ids=["samples", "log-probs", "log-probs and a prompt"],
)
async def test_whether_an_answer_ends_there_is_refused_where_nobody_reads_it(service, given):
    body = {"answer": "Paris", **given, "append_eos": False}
    response = await service.client.post("/score", json=body)
    told = assert_error(response, 422, "invalid_request", "append_eos")
    assert told.startswith("is of an answer that is read here")
    response = await service.client.post("/score", json=body | {"append_eos": True})
    assert response.status_code == 200


async def test_tokens_that_nobody_knows_are_null_with_a_reason(service):
    told = await scored(service, answer="Paris", samples=SAMPLES, return_tokens=True)
    assert told["tokens"] is None
    assert told["reasons"]["tokens"] == "the answer's tokens are not known"


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": 7}, "at #: type cannot be 7"),
        ({"type": []}, "at #: type cannot be []"),
        ({"multipleOf": 0}, "at #: multipleOf cannot be 0"),
        ({"minLength": -1}, "at #: minLength cannot be -1"),
        ({"maxItems": 1.5}, "at #: maxItems cannot be 1.5"),
        ({"properties": {"a": {"type": "text"}}}, "at #/properties/a: type 'text' is none of"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "$ref '#/$defs/b' points to no schema"),
        (
            {"properties": {"a": {"x-relative-tolerance": "5%"}}},
            "#/properties/a: x-relative-tolerance",
        ),
    ],
    ids=["a type", "no type", "no step", "less than none", "a half", "a field", "a $ref", "share"],
)
@pytest.mark.parametrize("answer", ['{"a": 1}', '{"b": 1}', "no JSON"])
async def test_a_schema_that_is_none_is_refused_whatever_the_answer_is(
    service, schema, told, answer
):
    body = {"answer": answer, "samples": [{"text": answer}], "units": "fields"}
    response = await service.client.post("/score", json=body | {"json_schema": schema})

    assert told in assert_error(response, 422, "invalid_request", "json_schema")


async def test_given_texts_that_end_a_reasoning_are_compared_behind_it(service):
    thoughts = "Paris, Rome or Lyon?\n</think>\n\n"
    samples = [{"text": f"{thoughts}{one['text']}"} for one in SAMPLES]
    plain = await scored(service, answer="Paris", samples=SAMPLES)
    reasoned = await scored(service, answer=f"{thoughts}Paris", samples=samples)
    leaked = await scored(service, answer="</think>\n\nParis", samples=samples)

    assert reasoned["text"].strip() == leaked["text"].strip() == "Paris"
    assert plain["scores"] == reasoned["scores"] == leaked["scores"]


async def test_given_samples_give_the_same_scores_in_every_order(service):
    samples = [{"text": "Paris", "token_logprobs": [one]} for one in (-5, -0.5, -0.51)]
    samples.append({"text": "Rome", "token_logprobs": [-1]})
    given = {"answer": "Paris", "answer_token_logprobs": [-0.01]}
    given["estimators"] = ["semantic_entropy", "rb_cocoa_root_sp", "mcse", "semantic_density"]
    first = await scored(service, **given, samples=samples)
    of_paris = math.log(math.exp(-5) + math.exp(-0.5))

    assert first["scores"]["semantic_entropy"] == pytest.approx(-0.75 * of_paris + 0.25)
    for order in permutations(samples):
        result = await scored(service, **given, samples=list(order))
        assert result["scores"] == pytest.approx(first["scores"])


async def test_an_empty_answer_without_its_end_has_no_likelihood(service):
    result = await scored(
        service, prompt=PROMPT, answer="", append_eos=False, estimators=["sp", "inconsistency"]
    )

    assert score_reasons(result) == {"sp": "empty answer"}
    assert result["scores"]["inconsistency"] is not None


async def test_an_answer_scored_equals_the_same_answer_generated(service):
    generated = (await service.generate(seed=3)).json()
    result = await scored(service, prompt=PROMPT, answer=generated["text"])

    there, here = generated["provenance"], result["provenance"]
    assert here["num_distinct_samples"] == there["num_distinct_samples"]
    assert result["scores"]["inconsistency"] == pytest.approx(generated["scores"]["inconsistency"])


async def test_messages_with_a_given_answer_are_scored(service):
    result = await scored(service, messages=[{"role": "user", "content": PROMPT}], answer="Paris")

    assert result["scores"]["cocoa_ppl"] is not None


async def test_own_samples_take_the_place_of_drawn_ones(service):
    before = service.engine.num_sequences
    result = await scored(
        service, prompt=PROMPT, answer="Paris", samples=SAMPLES, return_samples=True
    )

    assert service.engine.num_sequences == before + 1
    provenance = result["provenance"]
    assert (provenance["samples_source"], provenance["num_samples"]) == ("client", 3)
    assert "seed" not in provenance
    assert [sample["text"] for sample in result["samples"]] == ["Paris", "It is Paris.", "Lyon"]
    assert [sample["similarity"] for sample in result["samples"]] == [1.0, pytest.approx(0.0), 0.0]
    assert result["scores"]["cocoa_ppl"] is not None


async def test_texts_alone_get_inconsistency_without_any_model_and_reasons_for_the_rest(service):
    before = service.engine.num_calls
    result = await scored(service, answer="Paris", samples=SAMPLES)

    assert service.engine.num_calls == before
    provenance = result["provenance"]
    assert "model" not in provenance
    assert (provenance["retokenized"], provenance["samples_source"]) == (False, "client")
    assert result["scores"]["inconsistency"] is not None
    assert result["scores"]["cocoa_ppl"] is None
    assert result["reasons"]["cocoa_ppl"] == "answer_token_logprobs is not available"
    assert (result["estimator"], result["provenance"]["degraded"]) == ("inconsistency", True)
    assert result["uncertainty"] == result["scores"]["inconsistency"]


@pytest.mark.parametrize("similarity", ["fake", "added", "jaccard", "nli", "rouge_l"])
@pytest.mark.parametrize("with_logprobs", [False, True], ids=["texts", "texts and log-probs"])
async def test_what_texts_alone_define_is_scored_and_nothing_is_refused(
    service, with_logprobs, similarity
):
    logprobs = {"token_logprobs": [-0.5, -0.1]} if with_logprobs else {}
    samples = [sample | logprobs for sample in SAMPLES]
    asked = {"samples": samples, "estimators": list(ESTIMATORS), "similarity": similarity}
    result = await scored(service, answer="It is Paris.", **asked)

    textual = {"inconsistency", "degmat", "ce_degmat", "eigv", "num_sem_sets"}
    likelihoods = {"mcse", "mcnse", "semantic_entropy", "sentence_sar"}
    expected = textual | (likelihoods if with_logprobs else set())
    assert {name for name, value in result["scores"].items() if value is not None} == expected
    assert score_reasons(result).keys() == ESTIMATORS.keys() - expected


@pytest.mark.parametrize(("num_words", "num_samples"), [(1000, 2), (4, 30)])
async def test_many_or_long_texts_are_read_beside_the_event_loop(
    service, monkeypatch, num_words, num_samples
):
    threads = set()

    def noted(text, asked):
        threads.add(threading.current_thread())
        return added(text, asked)

    monkeypatch.setattr("models.similarity.pairs.added", noted)
    samples = [{"text": f"{'word ' * num_words}{number}"} for number in range(num_samples)]
    await scored(service, answer="word " * num_words, samples=samples, similarity="added")

    assert threads
    assert threading.current_thread() not in threads


INVALID = {
    "no prompt and no samples": ({"answer": "Paris"}, "prompt"),
    "both inputs": (
        {"prompt": "a", "messages": [{"role": "user", "content": "a"}], "answer": "b"},
        "prompt",
    ),
    "no answer": ({"prompt": "a"}, "answer"),
    "an unknown field": ({"prompt": "a", "answer": "b", "mode": "full"}, "mode"),
    "a positive log-prob": (
        {"answer": "b", "samples": [{"text": "c", "token_logprobs": [0.1]}]},
        None,
    ),
    "a positive log-prob of the answer": (
        {"answer": "b", "answer_token_logprobs": [-0.1, 0.1]},
        "answer_token_logprobs.1",
    ),
    "a log-prob below any float32": (
        {"answer": "b", "answer_token_logprobs": [-0.1, -1e39]},
        "answer_token_logprobs.1",
    ),
    "a log-prob that is not known": (
        {"answer": "b", "answer_token_logprobs": [-0.1, -9999.0]},
        "answer_token_logprobs.1",
    ),
    "no log-prob in the list": (
        {"answer": "b", "answer_token_logprobs": []},
        "answer_token_logprobs",
    ),
    "no samples in the list": ({"answer": "b", "samples": []}, "samples"),
    "half a surrogate pair": ({"prompt": "a", "answer": "\ud800"}, "answer"),
}


@pytest.mark.parametrize(("body", "field"), INVALID.values(), ids=INVALID)
async def test_a_bad_item_is_refused_with_its_field(service, body, field):
    # As escapes, since half a surrogate pair has no UTF-8.
    headers = {"Content-Type": "application/json"}
    response = await service.client.post("/score", content=json.dumps(body), headers=headers)

    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (422, "invalid_request")
    assert error["field"] == (field or "samples.0.token_logprobs.0")


async def test_an_answer_with_its_own_log_probs_needs_no_model_here(service):
    calls = service.engine.num_calls
    logprobs = [-0.2, -0.1, -0.3]
    result = await scored(
        service,
        answer="Paris",
        answer_token_logprobs=logprobs,
        samples=SAMPLES,
        estimators=["sp", "ppl", "cocoa_sp", "cocoa_ppl", "mte"],
        return_tokens=True,
    )

    scores = result["scores"]
    inconsistency = scores["cocoa_sp"] / scores["sp"]
    assert service.engine.num_calls == calls
    assert (scores["sp"], scores["ppl"]) == (pytest.approx(0.6), pytest.approx(0.2))
    assert scores["cocoa_ppl"] == pytest.approx(0.2 * inconsistency)
    assert 0 < inconsistency < 1
    assert score_reasons(result) == {"mte": "answer_token_entropies is not available"}
    assert [token["logprob"] for token in result["tokens"]] == logprobs
    assert not result["provenance"]["retokenized"]
    assert not result["provenance"].keys() & {"model", "answer_form"}
    assert result["usage"]["completion_tokens"] == 3


async def test_own_log_probs_alone_give_the_likelihoods(service):
    result = await scored(service, answer="Paris", answer_token_logprobs=[-0.5])

    assert (result["scores"]["sp"], result["scores"]["cocoa_sp"]) == (0.5, None)
    assert not result["provenance"].keys() & {"num_samples", "samples_source"}


async def test_the_lowest_log_probs_have_sums(service):
    lowest = [-3.4e38] * 8192
    samples = [{"text": text, "token_logprobs": lowest} for text in ("Paris", "Lyon")]
    result = await scored(
        service,
        answer="Paris",
        answer_token_logprobs=lowest,
        samples=samples,
        estimators=list(ESTIMATORS),
    )

    assert result["scores"]["sp"] == pytest.approx(3.4e38 * 8192)
    assert not any("failed" in reason for reason in result["reasons"].values())


@pytest.mark.parametrize("more", [{}, {"estimators": list(ESTIMATORS)}])
async def test_own_log_probs_win_over_those_of_the_model_that_draws_the_samples(service, more):
    body = {"prompt": PROMPT, "answer": "Paris", "answer_token_logprobs": [-0.5, -0.25], **more}
    result, again = await scored(service, **body), await scored(service, **body)
    other = await scored(service, **body | {"answer_token_logprobs": [-0.5]})

    assert result["scores"]["sp"] == 0.75
    provenance = result["provenance"]
    assert (provenance["samples_source"], provenance["retokenized"]) == ("model", False)
    assert "answer_form" not in provenance
    assert result["scores"]["cocoa_sp"] is not None
    assert result["scores"]["mte"] is None
    assert (again["cached"], again["scores"]) == (True, result["scores"])
    assert (other["cached"], other["scores"]["sp"]) == (False, 0.5)
