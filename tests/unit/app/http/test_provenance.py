"""Where the scores of a result come from: what is known, and nothing that is not."""

import numpy as np
import pytest
from pydantic import MISSING

from app.http.provenance_schemas import Provenance
from app.http.responses import provenance_of, to_response
from app.http.schemas import GenerateResponse
from app.scoring.ask import Ask, GivenSample
from app.scoring.derive import Evidence
from app.scoring.questions import subject_of
from models.records import GivenAnswer, ProbeReading, SamplingParams
from tests.results import a_plan, a_result, comparer_info, generation, sequence


def about_of(result):
    """The provenance by its documented shape."""
    return Provenance.model_validate(provenance_of(result), extra="forbid")


def test_light_mode_has_no_samples_and_so_no_source_and_no_seed_of_them():
    written = generation(samples=())
    ask = Ask(prompt="Where?", light=True)
    about = about_of(a_result(written, ask=ask))

    assert about.mode == "light"
    assert about.model_fields_set == {"model", "mode", "strategy", "degraded"}


def test_texts_alone_name_no_model_and_cost_no_tokens():
    ask = Ask(answer=GivenAnswer("Paris"), samples=(GivenSample("Rome", (-1.0,)),))
    evidence = Evidence(subject_of(ask, None), {}, {}, False)
    plan = a_plan(strategy="given")
    told = to_response(a_result(ask=ask, generation=None, evidence=evidence, plan=plan), "id")
    body = GenerateResponse.model_validate(told, extra="forbid")

    about = body.provenance
    assert (body.finish_reason, about.samples_source) == ("given", "client")
    assert (about.strategy, about.retokenized) == ("given", False)
    assert not about.model_fields_set & {"model", "seed", "answer_form"}
    assert body.usage.model_dump() == dict.fromkeys(body.usage.model_dump(), 0)


def test_a_given_answer_that_a_model_scored_was_tokenised_again():
    assert about_of(a_result(plan=a_plan(strategy="given"))).retokenized


def test_draws_that_do_not_repeat_have_no_standard_error():
    known = {"similarity": np.array([0.5, 1.0])}
    unrepeated = Ask(prompt="Where?", sampling=SamplingParams(distinct=True))

    assert about_of(a_result(statistics=known)).consistency_std_error == pytest.approx(0.25)
    about = about_of(a_result(statistics=known, ask=unrepeated))
    assert "consistency_std_error" not in about.model_fields_set


def test_the_nli_model_is_named_where_it_was_asked():
    nli = comparer_info(model_id="judge")
    asked = a_result(nli=nli, plan=a_plan({"entailment"}))

    assert about_of(asked).nli_model.id == "judge"
    assert about_of(a_result(nli=nli)).nli_model is MISSING


def test_the_probe_behind_the_score_is_named_with_its_reading():
    readings = {"predicted_dissimilarity": ProbeReading(0.25, 99.5, True)}
    about = about_of(a_result(generation(probe_readings=readings)))

    assert about.probe.model_dump() == {
        "id": "abc",
        "training_set": "prompts.jsonl",
        "distance_percentile": 99.5,
        "out_of_domain": True,
    }


def test_the_mass_found_is_that_of_the_answer_and_its_distinct_samples_or_absent():
    statistics = {"exact_match": np.array([1.0, 0.0])}
    logprobs = {"token_logprobs": np.log([0.5, 0.5])}
    samples = (sequence(" Paris", **logprobs), sequence(" Rome", **logprobs))
    written = generation(sequence(" Paris", **logprobs), samples)
    about = about_of(a_result(written, statistics=statistics))

    assert about.found_mass == pytest.approx(0.5)
    assert about_of(a_result(written)).found_mass is MISSING


def test_an_answer_without_tokens_has_found_no_mass_that_could_be_told():
    written = generation(sequence("", 0), (sequence(" Rome"),))
    statistics = {"exact_match": np.zeros(1)}
    assert about_of(a_result(written, statistics=statistics)).found_mass is MISSING
