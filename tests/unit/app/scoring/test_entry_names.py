"""Names of entries: what changes the numbers changes the name, what does not leaves it."""

from dataclasses import replace

import pytest

from app.http.requests.bodies import GenerateRequest, ScoreRequest, ask_of
from app.scoring.ask import Ask
from app.scoring.deployment import Deployment, Models
from app.scoring.entries import digest, pair_name, statistics_name
from app.scoring.planning import make_plan
from models.records import SamplingParams
from models.similarity.pairs import PairRules
from models.statistics import supplied_by
from tests.results import PROBES, similarity_info
from workers.protocol import GeneratorInfo

BASE = {
    "prompt": "What is the capital of France?",
    "max_new_tokens": 8,
    "seed": 1,
    "num_samples": 4,
}
CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_new_tokens": 8, "seed": 1}
GENERATOR = GeneratorInfo(
    identity="fake",
    model_id="fake",
    revision="1",
    dtype="float64",
    statistics=supplied_by("answer", "samples", "question").union(PROBES),
    max_context_tokens=512,
    probes=PROBES,
)
SIMILARITY_SCORERS = {name: similarity_info(identity=name) for name in ("fake", "added")}
NLI = similarity_info(identity="nli")


LAW = SamplingParams(num_samples=4, max_new_tokens=8, seed=1)


def key(body, *, generator=GENERATOR, similarity_scorers=SIMILARITY_SCORERS, nli=NLI, **clamped):
    """The name of the statistics of a request's body."""
    is_scoring = "answer" in body and "mode" not in body
    ask = ask_of((ScoreRequest if is_scoring else GenerateRequest)(**body))
    ask = replace(ask, sampling=replace(ask.sampling, **clamped))
    models = Models(generator, similarity_scorers, "fake", nli)
    return statistics_name(make_plan(ask, Deployment(models)), models)


DIFFERENT = [
    {"prompt": "Another prompt"},
    {"max_new_tokens": 9},
    {"seed": 2},
    {"seed": None},
    {"temperature": 0.9},
    {"top_k": 49},
    {"top_p": 0.9},
    {"stop": ["."]},
    {"mode": "full", "strategy": "mbr"},
    {"similarity": "added"},
    {"estimators": ["inconsistency"]},
    {"estimators": ["semantic_entropy"]},
    {"max_reasoning_tokens": 5},
    {"max_sample_reasoning_tokens": 5},
]
SAME = [
    {"estimator": "sp"},
    {"estimators": ["cocoa_mte", "rb_cocoa_sp"]},
    {"return_samples": True},
    {"return_tokens": True},
    {"timeout_s": 5.0},
    {"similarity": "fake"},
    {"num_samples": 5},
]


@pytest.mark.parametrize("change", DIFFERENT, ids=str)
def test_what_changes_the_numbers_changes_the_name(change):
    assert key(BASE | change) != key(BASE)


def test_samples_that_are_shown_are_whole_and_so_of_another_name():
    def name(num_shown):
        ask = Ask(prompt="a", strategy="sample", num_shown=num_shown, sampling=LAW)
        models = Models(GENERATOR, SIMILARITY_SCORERS, "fake", NLI)
        return statistics_name(make_plan(ask, Deployment(models)), models)

    assert len({name(1), name(2), name(3)}) == 3


def test_each_bound_of_a_reasoning_has_a_name_of_its_own():
    bounds = ({"max_reasoning_tokens": 5}, {"max_sample_reasoning_tokens": 5})
    assert key(BASE | bounds[0]) != key(BASE | bounds[1])


def test_the_default_of_new_tokens_is_as_many_as_fit_this_context():
    default, larger = BASE | {"max_new_tokens": None}, replace(GENERATOR, max_context_tokens=1024)
    assert key(default, generator=larger) != key(default) != key(BASE | {"max_new_tokens": 256})
    assert key(BASE, generator=larger) == key(BASE)


def test_what_is_lowered_to_fit_answers_nobody_who_wants_it_refused_or_told():
    long = BASE | {"max_new_tokens": 4096}
    names = {key(long), key(long, clamps=True), key(long, clamps=True, clamps_quietly=True)}
    assert len(names) == 3
    assert key(BASE, clamps=True) == key(BASE), "few tokens fit, and all endpoints share them"


@pytest.mark.parametrize("change", SAME, ids=str)
def test_what_is_applied_on_the_way_out_does_not(change):
    assert key(BASE | change) == key(BASE)


def test_how_many_samples_there_are_counts_where_one_of_them_is_the_answer():
    chosen = BASE | {"strategy": "most_probable"}
    assert key(chosen) != key(chosen | {"num_samples": 5})


@pytest.mark.parametrize("change", [{"seed": 2}, {"temperature": 0.5}], ids=str)
def test_how_samples_are_drawn_does_not_matter_where_there_are_none(change):
    alone = BASE | {"estimators": ["sp"]}
    assert key(alone | change) == key(alone)
    shown = alone | {"return_samples": True}
    assert key(shown | change) != key(shown)


def test_a_chat_is_no_prompt_and_template_variables_count():
    names = {
        key(CHAT),
        key(CHAT | {"messages": [{"role": "system", "content": "Hi"}]}),
        key(CHAT | {"chat_template_kwargs": {"a": 1}}),
        key(CHAT | {"chat_template_kwargs": {"a": 10**400}}),
        key(CHAT | {"reasoning_effort": "low"}),
        key(CHAT | {"reasoning_effort": "high"}),
        key({"prompt": "Hi", "max_new_tokens": 8, "seed": 1}),
    }
    assert len(names) == 7


def test_what_a_client_brings_counts():
    given = {"prompt": BASE["prompt"], "answer": "Paris"}
    samples = [
        {"text": "Paris", "token_logprobs": [-0.5]},
        {"text": "Lyon", "token_logprobs": [-2.0]},
    ]
    names = {
        key(given),
        key(given | {"answer": "Rome"}),
        key(given | {"append_eos": False}),
        key(given | {"samples": samples}),
        key(given | {"samples": samples[::-1]}),
        key(given | {"samples": [samples[0] | {"token_logprobs": [-0.25]}, samples[1]]}),
        key(BASE),
    }
    assert len(names) == 7
    assert key(given | {"seed": 9}) != key(given)


def test_the_weights_that_speak_count_and_only_those():
    other = replace(GENERATOR, identity="other")
    assert key(BASE, generator=other) != key(BASE)
    alone = {"answer": "Paris", "samples": [{"text": "Rome"}]}
    assert key(alone, generator=other) == key(alone), "no model is asked"


def test_the_similarity_scorer_and_the_nli_model_count_where_they_are_asked():
    other = {"fake": similarity_info(identity="other")}
    assert key(BASE, similarity_scorers=other) != key(BASE)
    answer_only = BASE | {"estimators": ["sp"]}
    assert key(answer_only, similarity_scorers=other) == key(answer_only)
    entropy = BASE | {"estimators": ["semantic_entropy"]}
    assert key(entropy, nli=similarity_info(identity="other")) != key(entropy)
    assert key(BASE, nli=None) == key(BASE)


def test_the_rules_count_where_texts_are_matched_without_a_similarity_scorer():
    other = {"fake": similarity_info(identity="fake", rules=PairRules(strip=False))}
    matched = BASE | {"estimators": ["bsdetector"]}
    assert key(matched, similarity_scorers=other) != key(matched)


def test_another_probe_has_other_entries_and_full_mode_does_not_care():
    name, probe = next(iter(PROBES.items()))
    other = replace(GENERATOR, probes={name: replace(probe, sha256="other")})
    light = {"prompt": BASE["prompt"], "max_new_tokens": 8, "mode": "light"}
    assert key(light) != key(BASE)
    assert key(light, generator=other) != key(light)
    assert key(BASE, generator=other) == key(BASE)


def test_no_name_tells_the_prompt():
    assert "capital" not in key(BASE)
    assert "Paris" not in digest("Paris")


def test_a_pair_is_ordered_and_its_texts_do_not_run_together():
    names = {
        pair_name("", "model", "a", "b"),
        pair_name("", "model", "b", "a"),
        pair_name("", "model", "ab", ""),
        pair_name("", "other", "a", "b"),
    }
    assert len(names) == 4


def test_the_prompts_that_others_are_compared_with_are_part_of_the_name():
    comparing = [key(BASE, generator=replace(GENERATOR, prompts=one)) for one in ("", "a", "b")]
    assert comparing[0] == key(BASE)
    assert len(set(comparing)) == 3
