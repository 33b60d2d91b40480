"""Names of entries: what changes the numbers changes the name, what does not leaves it."""

from dataclasses import replace

import pytest

from app.cache.keys import model_identities, pair_key, statistics_key
from app.planning import derivable, make_plan
from app.schemas import GenerateRequest, ScoreRequest
from app.settings import Settings
from models.engines.protocol import EngineConfig
from models.probes.protocol import ProbeConfig
from models.similarity.protocol import NliConfig, SimilarityConfig
from tests.tiny_probes import saved
from workers.build import load_workers

BASE = {
    "prompt": "What is the capital of France?",
    "max_new_tokens": 8,
    "seed": 1,
    "num_samples": 4,
}
CHAT = {"messages": [{"role": "user", "content": "Hi"}], "max_new_tokens": 8, "seed": 1}
SETTINGS = Settings(
    generation=EngineConfig(engine="fake"),
    similarity=SimilarityConfig(name="fake"),
    nli=NliConfig(name="fake_nli", model="fake"),
)


def load(probes=ProbeConfig()):  # noqa: B008, frozen
    return load_workers(
        SETTINGS.generation,
        SETTINGS.similarity,
        SETTINGS.nli,
        probes,
        on_step=lambda rows: None,
        on_batch=lambda size: None,
    )


@pytest.fixture(scope="module")
def workers(tmp_path_factory):
    return load(ProbeConfig(saved(tmp_path_factory.mktemp("probe")), ""))


def key(workers, body, settings=SETTINGS):
    request = (ScoreRequest if "answer" in body and "mode" not in body else GenerateRequest)(**body)
    plan = make_plan(request, derivable(workers.generation.statistics, has_nli=True))
    return statistics_key(plan, request, workers, model_identities(settings, workers))


DIFFERENT = [
    {"prompt": "Another prompt"},
    {"max_new_tokens": 9},
    {"seed": 2},
    {"seed": None},
    {"num_samples": 5},
    {"temperature": 0.9},
    {"top_k": 49},
    {"top_p": 0.9},
    {"stop": ["."]},
    {"mode": "full", "answer": "mbr"},
    {"mode": "light"},
    {"similarity": "rouge_l"},
    {"estimators": ["consistency"]},
    {"estimators": ["semantic_entropy"]},
]
SAME = [
    {"estimator": "sp"},
    {"estimators": ["cocoa_mte", "cocoa_sp"]},
    {"return_samples": True},
    {"return_tokens": True},
    {"timeout_s": 5.0},
    {"similarity": "fake"},
]


@pytest.mark.parametrize("change", DIFFERENT, ids=str)
def test_what_changes_the_numbers_changes_the_name(workers, change):
    assert key(workers, BASE | change) != key(workers, BASE)


@pytest.mark.parametrize("change", SAME, ids=str)
def test_what_is_applied_on_the_way_out_does_not(workers, change):
    assert key(workers, BASE | change) == key(workers, BASE)


@pytest.mark.parametrize("change", [{"seed": 2}, {"temperature": 0.5}, {"num_samples": 3}], ids=str)
def test_how_samples_are_drawn_does_not_matter_where_there_are_none(workers, change):
    alone = BASE | {"estimators": ["sp"]}
    assert key(workers, alone | change) == key(workers, alone)
    shown = alone | {"return_samples": True}
    assert key(workers, shown | change) != key(workers, shown)


def test_a_chat_is_no_prompt_and_template_variables_count(workers):
    names = {
        key(workers, CHAT),
        key(workers, CHAT | {"messages": [{"role": "system", "content": "Hi"}]}),
        key(workers, CHAT | {"chat_template_kwargs": {"a": 1}}),
        key(workers, CHAT | {"chat_template_kwargs": {"a": 10**400}}),
        key(workers, {"prompt": "Hi", "max_new_tokens": 8, "seed": 1}),
    }
    assert len(names) == 5


def test_what_a_client_brings_counts(workers):
    given = BASE | {"answer": "Paris"}
    samples = [
        {"text": "Paris", "token_logprobs": [-0.5]},
        {"text": "Lyon", "token_logprobs": [-2.0]},
    ]
    names = {
        key(workers, given),
        key(workers, given | {"answer": "Rome"}),
        key(workers, given | {"append_eos": False}),
        key(workers, given | {"samples": samples}),
        key(workers, given | {"samples": samples[::-1]}),
        key(workers, given | {"samples": [samples[0] | {"token_logprobs": [-0.25]}, samples[1]]}),
        key(workers, BASE),
    }
    assert len(names) == 7
    assert key(workers, given | {"samples": samples, "seed": 9}) == key(
        workers, given | {"samples": samples}
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"generation": EngineConfig(engine="other")},
        {"similarity": SimilarityConfig(name="fake", dtype="bfloat16")},
    ],
    ids=["engine", "precision of the pair model"],
)
def test_the_deployments_models_and_flags_count(workers, settings):
    assert key(workers, BASE, SETTINGS.model_copy(update=settings)) != key(workers, BASE)


def test_rules_and_revisions_count(workers):
    other = load()
    worker = other.similarity["fake"]
    worker.rules = replace(worker.rules, strip=False)
    assert key(other, BASE) != key(workers, BASE)
    revised = load()
    revised.generation.engine.revision = "2"
    assert key(revised, BASE) != key(workers, BASE)
    assert key(load(), BASE) == key(workers, BASE)


def test_another_probe_has_other_entries_and_full_mode_does_not_care(workers, tmp_path):
    other = load(ProbeConfig(saved(tmp_path, seed=5), ""))
    light = BASE | {"mode": "light"}
    assert key(other, light) != key(workers, light)
    assert key(other, BASE) == key(workers, BASE)


def test_weights_without_a_revision_serve_their_own_process_only(workers, monkeypatch):
    nameless = load()
    nameless.generation.engine.revision = None
    before = key(nameless, BASE)
    monkeypatch.setattr("app.cache.keys._THIS_PROCESS", "another process")
    assert key(nameless, BASE) != before
    assert key(workers, BASE) == key(workers, BASE)


def test_no_name_tells_the_prompt(workers):
    assert "capital" not in key(workers, BASE)
    assert "Paris" not in pair_key("model", ("Paris", "Rome"))


def test_a_pair_is_ordered_and_its_texts_do_not_run_together():
    names = {
        pair_key("model", ("a", "b")),
        pair_key("model", ("b", "a")),
        pair_key("model", ("ab", "")),
        pair_key("other", ("a", "b")),
    }
    assert len(names) == 4
