"""Rules and dashboard name only what `/metrics` exposes, and a real Prometheus scrapes it."""

import asyncio
import json
import re
import socket
import subprocess
from collections import defaultdict
from contextlib import asynccontextmanager, suppress
from itertools import chain, product
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.http.telemetry import CONSISTENCY_NAMES, SCORE_NAMES
from app.scoring.plan import DEFAULT_ESTIMATORS
from tests.binaries import binary
from tests.chaos.cocoa_process import cocoa_serve
from tests.chaos.listening import listening
from tests.conftest import GENERATE, serving
from tests.made_keys import bearer, keys_in

OBSERVABILITY = Path(__file__).parents[2] / "docker" / "observability"
RULES = OBSERVABILITY / "alerts.yml"
DASHBOARD = json.loads((OBSERVABILITY / "dashboard.json").read_text())
# Labels and series that Prometheus adds itself.
TARGET_LABELS = {"job", "instance"}
FROM_PROMETHEUS = {"up"}
VARIABLES = {
    "$__rate_interval": "1m",
    "$__range": "1h",
    "$job": "cocoa-serve",
    "$instance": ".+",
    "$estimator": "cocoa_ppl",
}
KEYWORDS = {"and", "or", "unless", "offset", "by", "without", "on", "ignoring", "bool"}


def dashboard_expressions():
    expressions = []
    for panel in DASHBOARD["panels"]:
        expressions += [target["expr"] for target in panel.get("targets", ())]
    return expressions


def rule_expressions():
    """Expressions by name of their rule; the file is flat enough to need no YAML library."""
    text = re.sub(r"^ *#.*\n", "", RULES.read_text(), flags=re.MULTILINE)
    expressions = {}
    for rule in re.split(r"^ {6}- (?=alert|record)", text, flags=re.MULTILINE)[1:]:
        name = re.match(r"\w+: (\S+)", rule)[1]
        expression = re.search(r"expr:(.*?)(?=^ {8}\w|\Z)", rule, re.DOTALL | re.MULTILINE)
        expressions[name] = expression[1]
    return expressions


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
    exposed = {sample.name for sample in samples} | FROM_PROMETHEUS | set(recorded)
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
    async with serving(doors={"keys": keys_in(tmp_path, search={})}) as running:
        running.client.headers.update(bearer("search"))
        yield running


@pytest.fixture
async def samples(service):
    """What a running service exposes after its first request, which is streamed."""
    assert (await service.generate(seed=1, stream=True)).status_code == 200
    exposition = (await service.client.get("/metrics")).text
    families = text_string_to_metric_families(exposition)
    return [*chain.from_iterable(family.samples for family in families)]


@pytest.mark.anyio
async def test_every_metric_and_label_of_the_rules_is_exposed(samples):
    rules = rule_expressions()
    assert len(rules) == 10
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
async def test_every_metric_is_on_the_dashboard(samples):
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
        if sample.name in ("cocoa_score_nats_count", "cocoa_consistency_count"):
            counts[sample.labels["estimator"]] = sample.value
    names = (*SCORE_NAMES, *CONSISTENCY_NAMES)
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
        assert f"docs/operations.md#{name.lower()}" in text
        assert f"\n### {name}\n" in operations
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


def promtool(*arguments, text=None):
    command = [binary("promtool"), *map(str, arguments)]
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def test_promtool_finds_no_fault_in_rules_and_configuration():
    assert "10 rules found" in promtool("check", "rules", RULES)
    promtool("check", "config", OBSERVABILITY / "prometheus.yml")


@pytest.mark.parametrize("tests", ["alerts_test.yml", "drift_test.yml"])
def test_the_alerts_fire_when_they_should_and_only_then(tests):
    assert "SUCCESS" in promtool("test", "rules", OBSERVABILITY / tests)


def test_every_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not():
    names = ("alerts_test.yml", "drift_test.yml")
    tests = "".join((OBSERVABILITY / name).read_text() for name in names)
    cases = re.findall(r"alertname: (\w+)\n +exp_alerts:( \[\])?", tests)
    quiet = {name for name, empty in cases if empty}
    firing = {name for name, empty in cases if not empty}
    assert quiet == firing == {name for name in rule_expressions() if ":" not in name}


@pytest.mark.anyio
async def test_promtool_finds_no_fault_in_the_metrics(service):
    assert (await service.generate()).status_code == 200
    assert promtool("check", "metrics", text=(await service.client.get("/metrics")).text) == ""


@asynccontextmanager
async def prometheus(folder, target_port):
    """A client of a Prometheus with our rules that scrapes a gateway on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    example = (OBSERVABILITY / "prometheus.yml").read_text()
    configuration = (
        example.replace("cocoa-serve:8000", f"127.0.0.1:{target_port}")
        .replace("scrape_interval: 15s", "scrape_interval: 250ms")
        .replace("evaluation_interval: 1m", "evaluation_interval: 250ms")
        .replace("- alerts.yml", f"- {RULES}")
    )
    assert configuration.count("250ms") == 2
    (folder / "prometheus.yml").write_text(configuration)
    process = await asyncio.create_subprocess_exec(
        binary("prometheus"),
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    )
    url = f"http://127.0.0.1:{port}/api/v1"
    try:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            yield client
    finally:
        process.kill()
        await process.wait()


async def query(client, expression):
    """Series that Prometheus answers; none while it starts."""
    with suppress(httpx.ConnectError):
        response = await client.get("/query", params={"query": expression})
        if response.status_code != 503:
            assert response.json()["status"] == "success", (expression, response.text)
            return response.json()["data"]["result"]
    return []


async def until_queried(client, expression):
    async with asyncio.timeout(60):
        while not (result := await query(client, expression)):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return result


@pytest.mark.anyio
async def test_a_real_prometheus_scrapes_the_service_and_understands_rules_and_dashboard(tmp_path):
    async with listening() as (service, port, gate), prometheus(tmp_path, port) as client:
        gate.opened.set()
        await until_queried(client, 'up{job="cocoa-serve"} == 1')
        for seed in range(3):
            assert (await service.generate(seed=seed)).status_code == 200

        requests = f'cocoa_requests_total{{route="{GENERATE}",status="200"}}'
        (series,) = await until_queried(client, f"{requests} == 3")
        assert series["metric"]["job"] == "cocoa-serve"
        assert await until_queried(client, 'cocoa_score_nats_count{estimator="cocoa_ppl"} == 3')
        assert (await service.generate(seed=3)).status_code == 200
        assert await until_queried(client, f"rate({requests}[1m]) > 0")

        (target,) = (await client.get("/targets")).json()["data"]["activeTargets"]
        assert (target["health"], target["lastError"]) == ("up", "")
        for expression in dashboard_expressions():
            for variable, value in VARIABLES.items():
                expression = expression.replace(variable, value)
            await query(client, expression)
        groups = (await client.get("/rules")).json()["data"]["groups"]
        rules = [*chain.from_iterable(group["rules"] for group in groups)]
        assert len(rules) == 10
        assert {rule.get("lastError", "") for rule in rules} == {""}
        active = {rule["name"] for rule in rules if rule.get("state", "inactive") != "inactive"}
        assert active == set()


def test_every_line_that_cocoa_serve_writes_is_json_and_tells_no_path_of_a_request():
    with cocoa_serve(COCOA_GENERATION__ENGINE="fake") as process:
        process.wait_ready()
        process.get("/sesame-4711?key=sesame-4711")
        assert process.generate("sesame-4711").status_code == 200
        process.popen.terminate()
        assert process.exit_code() == 0
    lines = [json.loads(line) for line in process.log]
    assert {"time", "level", "logger", "message"} == set.intersection(*map(set, lines))
    assert [line["status"] for line in lines if line["message"] == "request"] == [404, 200]
    assert "sesame" not in str(lines)
