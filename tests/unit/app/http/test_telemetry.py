"""Metrics: names are stable, and labels come from fixed sets.

A gauge is read from its owner when scraped.
"""

import re
from types import SimpleNamespace

import pytest

from app.http.metrics import INCONSISTENCY_NAMES, SCORE_NAMES
from app.http.requests.bodies import GenerateRequest
from app.http.telemetry import Telemetry
from app.main import create_app
from app.plugins.keys.buckets import LIMITS
from app.scoring.capabilities import Capability
from app.scoring.judging import Judgement
from app.settings import Settings
from models.estimators import ESTIMATORS
from models.records import ProbeReading
from tests.results import a_result, generation

# name: (type, labels)
NAMES = {
    "cocoa_build_info": ("gauge", ["version", "python"]),
    "cocoa_model_info": ("gauge", ["worker", "model", "revision", "identity"]),
    "cocoa_capability": ("gauge", ["name", "configured"]),
    "cocoa_server_up": ("gauge", ["worker", "server"]),
    "cocoa_confidence": ("histogram", ["decision"]),
    "cocoa_requests": ("counter", ["route", "status"]),
    "cocoa_errors": ("counter", ["code"]),
    "cocoa_joined_requests": ("counter", []),
    "cocoa_tokens": ("counter", ["kind"]),
    "cocoa_samples": ("counter", []),
    "cocoa_distinct_samples": ("counter", []),
    "cocoa_pairs": ("counter", ["kind"]),
    "cocoa_cache_lookups": ("counter", ["result"]),
    "cocoa_cache_corrupt_entries": ("counter", []),
    "cocoa_cache_breaker_openings": ("counter", []),
    "cocoa_redis_suspicions": ("counter", ["use"]),
    "cocoa_cache_breaker_open": ("gauge", []),
    "cocoa_probe_readings": ("counter", ["domain"]),
    "cocoa_worker_calls": ("counter", ["worker", "outcome"]),
    "cocoa_worker_call_seconds": ("histogram", ["worker"]),
    "cocoa_missing_scores": ("counter", ["estimator"]),
    "cocoa_metric_failures": ("counter", []),
    "cocoa_closed_connections": ("counter", ["reason"]),
    "cocoa_lost_log_lines": ("counter", []),
    "cocoa_decisions": ("counter", ["outcome"]),
    "cocoa_feedback_answers": ("counter", ["outcome"]),
    "cocoa_feedback_labels": ("counter", ["outcome"]),
    "cocoa_calibration_shift_ratio": ("gauge", ["group", "estimator"]),
    "cocoa_score_nats": ("histogram", ["estimator"]),
    "cocoa_inconsistency": ("histogram", ["estimator"]),
    "cocoa_request_seconds": ("histogram", ["route"]),
    "cocoa_first_token_seconds": ("histogram", ["route"]),
    "cocoa_stage_seconds": ("histogram", ["stage"]),
    "cocoa_decode_batch_rows": ("histogram", []),
    "cocoa_similarity_batch_pairs": ("histogram", []),
    "cocoa_running_rows": ("gauge", []),
    "cocoa_key_requests": ("counter", ["key"]),
    "cocoa_key_tokens": ("counter", ["key"]),
    "cocoa_key_refusals": ("counter", ["key", "limit"]),
    "cocoa_keys": ("gauge", []),
    "cocoa_keys_file_broken": ("gauge", []),
    "cocoa_key_limits_breaker_open": ("gauge", []),
    "cocoa_ready": ("gauge", []),
    "cocoa_admitted_requests": ("gauge", []),
    "cocoa_admission_limit_requests": ("gauge", []),
    "cocoa_waiting_requests": ("gauge", []),
    # as every client of Prometheus names them
    "process_cpu_seconds": ("counter", []),
    "process_max_fds": ("gauge", []),
    "process_open_fds": ("gauge", []),
    "process_resident_memory_bytes": ("gauge", []),
    "process_start_time_seconds": ("gauge", []),
    "process_virtual_memory_bytes": ("gauge", []),
}


def test_the_names_are_those_that_dashboards_know():
    telemetry = create_app(Settings()).state.service.telemetry
    types = {family.name: family.type for family in telemetry.registry.collect()}
    assert types == {name: kind for name, (kind, _) in NAMES.items()}


def test_the_labels_are_those_that_dashboards_know():
    telemetry = create_app(Settings()).state.service.telemetry
    telemetry.set_keys(["a"], LIMITS, is_broken=False)
    telemetry.observe_request("/score", 200, 0.5)
    telemetry.observe_first_token("/score", 0.5)
    telemetry.observe_one("errors", "overloaded")
    telemetry.set_server("generation", "http://a:8000", "")
    telemetry.set_capabilities({"light": Capability("")})
    found = {}
    for family in telemetry.registry.collect():
        found[family.name] = set().union(*(sample.labels for sample in family.samples)) - {"le"}
    assert found == {name: set(labels) for name, (_, labels) in NAMES.items()}


@pytest.mark.parametrize(
    ("role", "of_others"), [("generation", "cocoa_pairs"), ("similarity", "cocoa_running_rows")]
)
def test_a_worker_tells_nothing_that_only_gateways_and_other_workers_have(role, of_others):
    told = {family.name for family in Telemetry(role).registry.collect()}
    assert {"cocoa_build_info", "cocoa_ready", "cocoa_requests"} < told < NAMES.keys()
    assert not told & {of_others, "cocoa_decisions", "cocoa_key_requests", "cocoa_cache_lookups"}


def test_each_server_and_each_capability_is_told_as_it_is_now():
    telemetry = Telemetry()
    for trouble in ("", "unreachable"):
        telemetry.set_server("generation", "http://a:8000", trouble)
        telemetry.set_capabilities({"light": Capability(trouble, "COCOA_PROBES__INCONSISTENCY")})
    value = telemetry.registry.get_sample_value
    server = {"worker": "generation", "server": "http://a:8000"}
    assert value("cocoa_server_up", server) == 0
    assert value("cocoa_capability", {"name": "light", "configured": "true"}) == 0


def test_a_model_that_is_replaced_is_told_in_place_of_the_one_before():
    telemetry = Telemetry()
    for revision in ("1", "2"):
        info = SimpleNamespace(model_id="m", revision=revision, identity="0123456789abcdef")
        telemetry.set_models({"generation": SimpleNamespace(info=info)})
    [line] = [one for one in telemetry.exposition().splitlines() if one.startswith(b"cocoa_model")]
    assert (b'revision="2"' in line, b'identity="0123456789ab"' in line) == (True, True)


def test_confidence_is_told_by_what_became_of_the_answer():
    telemetry = Telemetry()
    telemetry.observe_result(a_result(judgement=Judgement(confidence=0.87), source="cache"))
    telemetry.observe_result(a_result(source="cache"))
    assert buckets(telemetry, "cocoa_confidence", decision="none") == {"0.9": 1}


def scored(telemetry, scores):
    """One answer that was served from the cache, so that only its scores are news."""
    telemetry.observe_result(a_result(scores=scores, source="cache"))


def counts(telemetry, name, label, values):
    value = telemetry.registry.get_sample_value
    return [value(name, {label: one}) for one in values]


@pytest.mark.parametrize("source", ["cache", "joined"])
def test_what_others_have_paid_for_counts_its_samples_and_no_tokens(source):
    telemetry = Telemetry()
    telemetry.observe_result(a_result(source=source))

    value = telemetry.registry.get_sample_value
    assert value("cocoa_tokens_total", {"kind": "answer"}) == 0
    assert value("cocoa_stage_seconds_count", {"stage": "score"}) == 0
    assert (value("cocoa_samples_total"), value("cocoa_distinct_samples_total")) == (2, 2)


def test_an_empty_step_resets_the_running_rows_and_is_no_batch():
    telemetry = Telemetry()
    telemetry.observe_step(7)
    telemetry.observe_step(0)
    assert telemetry.registry.get_sample_value("cocoa_running_rows") == 0
    assert telemetry.registry.get_sample_value("cocoa_decode_batch_rows_count") == 1
    assert telemetry.registry.get_sample_value("cocoa_decode_batch_rows_sum") == 7


def buckets(telemetry, name, **labels):
    """Upper bounds of the buckets that hold something, with their own counts."""
    filled, seen = {}, 0
    for family in telemetry.registry.collect():
        for sample in family.samples:
            is_bucket = sample.name == f"{name}_bucket"
            if is_bucket and sample.labels.items() >= labels.items() and sample.value > seen:
                filled[sample.labels["le"]], seen = sample.value - seen, sample.value
    return filled


def test_scores_fall_into_buckets_of_1_2_and_5_per_decade():
    telemetry = Telemetry()
    for value in (0.0, 3e-5, 0.3, 0.45, 1000.0):
        scored(telemetry, {"cocoa_ppl": value})
    assert buckets(telemetry, "cocoa_score_nats", estimator="cocoa_ppl") == {
        "1e-05": 1,
        "5e-05": 1,
        "0.5": 2,
        "+Inf": 1,
    }


def test_latencies_have_buckets_up_to_the_longest_deadline():
    [longest] = [field.le for field in GenerateRequest.model_fields["timeout_s"].metadata[1:]]
    telemetry = Telemetry()
    telemetry.observe_request("/score", 504, longest)
    assert buckets(telemetry, "cocoa_request_seconds") == {f"{longest:.1f}": 1}


def test_inconsistency_falls_into_steps_of_0_05():
    telemetry = Telemetry()
    for value in (0.0, 0.05, 0.06, 0.15, 1.0):
        scored(telemetry, {"inconsistency": value})
    assert buckets(telemetry, "cocoa_inconsistency", estimator="inconsistency") == {
        "0.0": 1,
        "0.05": 1,
        "0.1": 1,
        "0.15": 1,
        "1.0": 1,
    }


def test_a_score_without_a_value_is_counted_and_in_no_bucket():
    telemetry = Telemetry()
    scored(telemetry, {"cocoa_mte": None, "inconsistency_light": None, "cocoa_ppl": 0.1})
    value = telemetry.registry.get_sample_value
    missing = {}
    for name in (*SCORE_NAMES, *INCONSISTENCY_NAMES):
        missing[name] = value("cocoa_missing_scores_total", {"estimator": name})
    assert {name for name, count in missing.items() if count} == {
        "cocoa_mte",
        "inconsistency_light",
    }
    assert value("cocoa_score_nats_count", {"estimator": "cocoa_mte"}) == 0
    assert value("cocoa_inconsistency_count", {"estimator": "inconsistency_light"}) == 0


def test_every_estimator_with_a_histogram_exists_and_all_of_cocoa_have_one():
    of_cocoa = r"(rb_)?(cocoa_\w+|inconsistency)(_light)?"
    names = {name for name in ESTIMATORS if re.fullmatch(of_cocoa, name)}
    assert {*SCORE_NAMES, *INCONSISTENCY_NAMES} == names


def test_lookups_pairs_samples_and_probes_count_by_kind():
    telemetry = Telemetry()
    for result in ("hit", "miss", "hit"):
        telemetry.observe_one("cache_lookups", result)
    telemetry.observe_one("joined_requests")
    telemetry.observe_one("pairs", "asked", by=5)
    telemetry.observe_one("pairs", "cached", by=2)
    telemetry.observe_batch(3)
    reading = ProbeReading(0.5, 100.0, out_of_domain=True)
    written = generation(probe_readings={"predicted_dissimilarity": reading})
    telemetry.observe_result(a_result(written))
    value = telemetry.registry.get_sample_value
    assert value("cocoa_cache_lookups_total", {"result": "hit"}) == 2
    assert value("cocoa_cache_lookups_total", {"result": "miss"}) == 1
    assert value("cocoa_joined_requests_total") == 1
    kinds = ("asked", "cached", "computed")
    assert counts(telemetry, "cocoa_pairs_total", "kind", kinds) == [5, 2, 3]
    assert value("cocoa_similarity_batch_pairs_sum") == 3
    assert counts(telemetry, "cocoa_probe_readings_total", "domain", ("in", "out")) == [0, 1]


def test_a_breaker_that_opens_twice_is_counted_twice_and_shown_as_it_is():
    telemetry = Telemetry()
    shown = []
    for state in ("closed", "suspect", "open", "closed", "open"):
        telemetry.set_breaker(state)
        shown.append(telemetry.registry.get_sample_value("cocoa_cache_breaker_open"))
    assert shown == [0, 0, 1, 0, 1]
    assert telemetry.registry.get_sample_value("cocoa_cache_breaker_openings_total") == 2


def test_a_suspicion_is_counted_by_the_use_of_redis():
    telemetry = Telemetry()
    telemetry.set_breaker("suspect")
    for state in ("suspect", "closed", "suspect", "open"):
        telemetry.set_limits_breaker(state)
    name, uses = "cocoa_redis_suspicions_total", ("cache", "limits")
    assert counts(telemetry, name, "use", uses) == [1, 2]
    assert telemetry.registry.get_sample_value("cocoa_key_limits_breaker_open") == 1


def test_a_failed_estimator_is_logged_by_type_and_place_without_what_its_error_quotes(caplog):
    try:
        raise ValueError("zanzibar-sentinel")
    except ValueError as error:
        Telemetry().observe_failure("sp", error)

    assert "estimator sp failed: ValueError at" in caplog.text
    assert "zanzibar-sentinel" not in caplog.text


def raising(*_):
    raise RuntimeError("secret")


def test_a_metric_that_cannot_be_read_is_left_out_counted_and_logged_once(caplog):
    telemetry = Telemetry()
    telemetry.read_gauges(ready=raising, admitted_requests=lambda: 7)
    for count in (1, 2):
        text = telemetry.exposition().decode()
        assert "cocoa_ready" not in text
        assert "cocoa_admitted_requests 7.0" in text
        assert f"cocoa_metric_failures_total {count}.0" in text
    assert [record.getMessage() for record in caplog.records] == [
        "a metric cannot be told: cocoa_ready"
    ]


def test_what_is_exposed_is_what_the_registry_holds():
    telemetry = Telemetry()
    exposed = set(re.findall(r"^# TYPE (\w+?)(?:_total)? ", telemetry.exposition().decode(), re.M))
    held = {family.name for family in telemetry.registry.collect()}
    assert exposed == held, "no time at which each series was born"


def test_a_metric_that_cannot_be_told_harms_nobody(monkeypatch, caplog):
    telemetry = Telemetry()
    monkeypatch.setattr(telemetry.counters["requests"], "labels", raising)
    monkeypatch.setattr(telemetry.histograms["score_nats"], "labels", raising)
    for _ in range(2):
        telemetry.observe_request("/score", 200, 0.5)
        scored(telemetry, {"cocoa_sp": 0.5})
    assert telemetry.registry.get_sample_value("cocoa_metric_failures_total") == 4
    assert len(caplog.records) == 2
