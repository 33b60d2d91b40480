"""Rules and dashboard name only what `/metrics` exposes."""

import re
from collections import defaultdict
from itertools import chain, product

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.http.metrics import INCONSISTENCY_NAMES, SCORE_NAMES
from app.scoring.capabilities import Capability
from app.scoring.defaults import DEFAULT_ESTIMATORS
from tests.api.keyed import ops_metrics
from tests.conftest import serving
from tests.e2e.observability import (
    DASHBOARD,
    OBSERVABILITY,
    RULES,
    VARIABLES,
    dashboard_expressions,
    promtool,
    rule_expressions,
)
from tests.made_keys import bearer, keys_in

# Labels and series that Prometheus adds itself.
TARGET_LABELS = {"job", "instance", "namespace", "release"}
FROM_OTHERS = {"up", "vllm:num_requests_waiting"}  # of Prometheus itself, and of vLLM
KEYWORDS = {"and", "or", "unless", "offset", "by", "without", "on", "ignoring", "bool"}
KEYWORDS |= {"group_left", "group_right"}


def metric_names(expression):
    """Names of the series that an expression reads: what is left without labels and functions."""
    bare = re.sub(r'"[^"]*"|\{[^{}]*\}|\[[^\]]*\]', " ", re.sub(r'"[^"]*"', '""', expression))
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", bare)
    names = re.findall(r"(?<![\w.:$])([a-zA-Z_][\w:]*)\b(?!\s*\()", bare)
    return set(names) - KEYWORDS


def matchers(expression):
    """(metric, label, operator, value) of every condition in braces."""
    conditions = set()
    for name, inside in re.findall(r"([\w:]+)\{([^{}]*)\}", expression):
        for condition in re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', inside):
            conditions.add((name, *condition))
    return conditions


def unknown_names(expressions, samples, recorded=()):
    exposed = {sample.name for sample in samples} | FROM_OTHERS | set(recorded)
    return set().union(*map(metric_names, expressions)) - exposed


def is_met(label, operator, wanted, values):
    """Whether one of a label's values meets a condition; patterns of a status are not checked."""
    if operator == "=":
        return VARIABLES.get(wanted, wanted) in values
    if operator == "=~" and label != "status":
        return any(re.fullmatch(wanted, value) for value in values)
    return bool(values)


def unmatched(expressions, samples):
    """Conditions that no sample of their metric meets."""
    values = defaultdict(set)
    for sample in samples:
        for label, value in sample.labels.items():
            values[sample.name, label].add(value)
    conditions = set()
    for name, label, operator, wanted in set().union(*map(matchers, expressions)):
        if label in TARGET_LABELS or ":" in name:
            continue
        if not is_met(label, operator, wanted, values[name, label]):
            conditions.add((name, label, wanted))
    return conditions


@pytest.fixture
async def service(anyio_backend, tmp_path):
    """The service with a key, whose metrics exist only there."""
    async with serving(access={"keys": keys_in(tmp_path, search={})}) as running:
        running.client.headers.update(bearer("search"))
        yield running


@pytest.fixture
async def samples(service):
    """What a running service exposes after its first request, which is streamed."""
    assert (await service.generate(seed=1, stream=True)).status_code == 200
    for worker in ("generation", "similarity"):
        service.telemetry.set_server(worker, "http://elsewhere:8000", "")
    service.telemetry.set_capabilities({"calibrator": Capability("", "COCOA_CALIBRATOR")})
    families = text_string_to_metric_families(await ops_metrics(service))
    return [*chain.from_iterable(family.samples for family in families)]


@pytest.mark.anyio
async def test_every_metric_and_label_of_the_rules_is_exposed(samples):
    rules = rule_expressions()
    assert len(rules) > 25
    recorded = {name for name in rules if ":" in name}
    assert unknown_names(rules.values(), samples, recorded) == set()
    assert unmatched(rules.values(), samples) == set()


@pytest.mark.anyio
async def test_every_metric_and_label_of_the_dashboard_is_exposed(samples):
    expressions = dashboard_expressions()
    assert len(expressions) > 30
    assert unknown_names(expressions, samples) == set()
    assert unmatched(expressions, samples) == set()


@pytest.mark.anyio
async def test_every_metric_of_ours_is_on_the_dashboard(samples):
    samples = [one for one in samples if not one.name.startswith("process_")]
    shown = set().union(*map(metric_names, dashboard_expressions()))
    families = {re.sub(r"_(bucket|sum|count|total|created)$", "", name) for name in shown}
    exposed = {re.sub(r"_(bucket|sum|count|total|created)$", "", sample.name) for sample in samples}
    assert exposed == families


@pytest.mark.parametrize(
    "expression",
    [
        "sum(rate(cocoa_requets_total[5m]))",
        'cocoa_redy{job="cocoa-serve"} == 0',
        'sum by (le) (rate(cocoa_score_nats_bukket{estimator="cocoa_ppl"}[5m])) > 1',
        "up == 0 or absent(upp)",
        "cocoa_ready and on (job) cocoa_ready:mean",
    ],
)
@pytest.mark.anyio
async def test_a_misspelt_metric_is_found(samples, expression):
    assert len(unknown_names([expression], samples)) == 1


@pytest.mark.parametrize(
    "expression",
    [
        'cocoa_score_nats_count{estimator="cocoa_pppl"}',
        'cocoa_score_nats_count{estimators="cocoa_ppl"}',
        'cocoa_requests_total{route=~"/generate|/scores", status="200"}',
    ],
)
@pytest.mark.anyio
async def test_a_misspelt_label_is_found(samples, expression):
    assert len(unmatched([expression], samples)) == 1


@pytest.mark.anyio
async def test_one_request_is_one_value_of_each_score(samples):
    counts = {}
    for sample in samples:
        if sample.name in ("cocoa_score_nats_count", "cocoa_inconsistency_count"):
            counts[sample.labels["estimator"]] = sample.value
    names = (*SCORE_NAMES, *INCONSISTENCY_NAMES)
    assert counts == {name: float(name in DEFAULT_ESTIMATORS) for name in names}


@pytest.mark.anyio
async def test_the_limit_of_the_queue_is_that_of_the_settings(service, samples):
    (limit,) = [s.value for s in samples if s.name == "cocoa_admission_limit_requests"]
    assert limit == service.admission.limit > 0


def test_every_alert_has_its_severity_texts_and_a_runbook_that_exists():
    alerts = [name for name in rule_expressions() if ":" not in name]
    operations = (OBSERVABILITY.parents[1] / "docs" / "operations.md").read_text()
    text = RULES.read_text()
    for name in alerts:
        assert f"runbook_url: docs/operations.md#{name.lower()}\n" in text
        runbook = operations.partition(f"\n### {name}\n")[2].partition("\n#")[0]
        for part in ("**Cause**", "**Query**", "**Remedy**"):
            assert part in runbook, (name, part)
    for key in ("severity: ", "summary: ", "description: "):
        assert text.count(key) == len(alerts)


def test_the_dashboard_asks_its_data_source_and_has_no_panel_on_top_of_another():
    assert DASHBOARD["schemaVersion"] >= 39
    assert DASHBOARD["templating"]["list"][0]["type"] == "datasource"
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = []
    for panel in panels:
        at = panel["gridPos"]
        columns = range(at["x"], at["x"] + at["w"])
        rows = range(at["y"], at["y"] + at["h"])
        cells += product(columns, rows)
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    for panel in panels:
        if panel["type"] != "row":
            uids = {target["datasource"]["uid"] for target in panel["targets"]}
            assert uids == {panel["datasource"]["uid"]} == {"${datasource}"}


@pytest.mark.anyio
async def test_promtool_finds_no_fault_in_the_metrics(service):
    assert (await service.generate()).status_code == 200
    assert promtool("check", "metrics", text=(await service.client.get("/metrics")).text) == ""
