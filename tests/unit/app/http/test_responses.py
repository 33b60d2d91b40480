"""From a result to the body of a response: every field, and what was not asked is absent."""

import json
from dataclasses import replace

import numpy as np
import pytest

from app.http.json_calls import json_of
from app.http.responses import to_response
from app.http.schemas import GenerateResponse
from app.scoring.ask import Ask
from app.scoring.judging import DecisionInfo, Judgement
from models.records import Reasoning
from tests.results import a_plan, a_result, generation, sequence, similarity_info


def body_of(result, request_id):
    """The body by its documented shape."""
    content = json_of(to_response(result, request_id))
    return GenerateResponse.model_validate_json(content, extra="forbid")


SHOWN = Ask(prompt="Where?", return_samples=True, return_tokens=True)


JUDGED = Judgement(
    decision=DecisionInfo(False, 0.1, 0.05, "…", "hand_over", "…"), reason="none is loaded"
)


def test_an_answer_that_is_held_back_says_why_of_all_that_would_tell_it():
    ask = replace(SHOWN, explain=True, target_error=0.05, on_reject="abstain")
    reasoned = sequence(" Rome", reasoning=Reasoning("hm", 3, is_finished=True))
    result = a_result(generation(reasoned), ask=ask, judgement=JUDGED)
    told = json.loads(json_of(to_response(result, "id")))

    telling = {"text", "reasoning", "explanation", "groups", "samples", "tokens"}
    assert {told[name] for name in telling} == {None}
    why = "the answer is held back: it does not pass at this target error"
    assert {told["reasons"].pop(name) for name in telling} == {why}
    assert "no confidence" in told["reasons"].pop("confidence_interval")
    assert told["reasons"] == {"confidence": "none is loaded"}
    assert told["decision"]["accept"] is False


def test_samples_that_nothing_compared_are_in_no_groups_and_it_says_why():
    ask = Ask(prompt="Where?", explain=True)
    told = json.loads(json_of(to_response(a_result(ask=ask), "id")))
    assert (told["explanation"], told["groups"]) == (None, None)
    assert told["reasons"].keys() == {"explanation", "groups", "confidence_interval"}

    statistics = {"similarity": np.ones(2), "similarity_matrix": np.ones((2, 2))}
    compared = a_result(ask=ask, statistics=statistics)
    known = json.loads(json_of(to_response(compared, "id")))
    assert known["explanation"] == "All 2 samples mean the same as the answer."
    assert [group["count"] for group in known["groups"]] == [2]
    assert known["reasons"].keys() == {"confidence_interval"}
    known = a_result(ask=ask, statistics=statistics, judgement=Judgement(0.5, interval=(0.4, 0.6)))
    assert json.loads(json_of(to_response(known, "id")))["confidence_interval"] == [0.4, 0.6]


def test_times_are_in_milliseconds():
    written = generation(queue_s=0.001, generate_s=2.0)
    timing = body_of(a_result(written), "id").timing_ms

    assert timing.model_dump() == {
        "queue": 1.0,
        "generate": 2000.0,
        "similarity": 30.0,
        "score": 4.0,
        "total": 2035.0,
    }


def test_tokens_carry_what_is_known_of_them():
    known = sequence(" so", token_texts=(" so", ""), token_entropies=np.array([0.5, 0.25]))
    body = body_of(a_result(generation(known), ask=SHOWN), "id")
    bare = replace(known, token_texts=None, token_logprobs=None, token_entropies=None)
    unknown = body_of(a_result(generation(bare), ask=SHOWN), "id")

    assert [(one.text, one.logprob, one.entropy) for one in body.tokens] == [
        (" so", -0.5, 0.5),
        ("", -0.5, 0.25),
    ]
    assert [(one.text, one.logprob, one.entropy) for one in unknown.tokens] == 2 * [
        ("", None, None)
    ]


def test_reasoning_that_was_left_out_of_any_text_is_warned_of():
    reasoned = sequence(" Rome", reasoning=Reasoning("hm", 3, is_finished=True))
    body = body_of(a_result(generation(reasoned)), "id")
    assert (body.warnings, body.reasoning) == (["reasoning_excluded"], "hm")
    assert (body.usage.completion_tokens, body.usage.reasoning_tokens) == (5, 3)
    written = generation(samples=(" Paris", reasoned))
    assert body_of(a_result(written), "id").warnings == ["reasoning_excluded"]


FOREIGN = similarity_info(is_out_of_domain=True)


EMBEDDED = similarity_info(model_id="embedded")


@pytest.mark.parametrize(
    ("similarity_scorers", "statistics"),
    [({"similarity_scorer": EMBEDDED}, {"similarity"}), ({"nli": EMBEDDED}, {"entailment"})],
    ids=["similarity", "NLI"],
)
@pytest.mark.parametrize("samples", [None, ()], ids=["drawn", "given"])
def test_an_embedded_pair_model_knows_no_samples_that_were_brought_along(
    similarity_scorers, statistics, samples
):
    planned = a_plan(statistics)
    planned = replace(planned, ask=replace(planned.ask, samples=samples))
    codes = [] if samples is None else ["similarity_out_of_domain"]
    assert body_of(a_result(plan=planned, **similarity_scorers), "id").warnings == codes


@pytest.mark.parametrize(
    ("similarity_scorers", "statistics", "codes"),
    [
        ({"similarity_scorer": FOREIGN}, {"similarity"}, ["similarity_out_of_domain"]),
        ({"nli": FOREIGN}, {"entailment"}, ["similarity_out_of_domain"]),
        ({"similarity_scorer": FOREIGN, "nli": FOREIGN}, {"sample_texts"}, []),
        ({"similarity_scorer": FOREIGN}, {"entailment"}, []),
        ({"nli": FOREIGN}, {"similarity"}, []),
    ],
    ids=["similarity", "NLI", "neither read", "the other one read", "NLI not read"],
)
def test_a_pair_model_of_other_answers_is_warned_of_where_it_was_read(
    similarity_scorers, statistics, codes
):
    body = body_of(a_result(plan=a_plan(statistics), **similarity_scorers), "id")
    assert body.warnings == codes
