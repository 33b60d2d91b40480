"""What Prometheus and Grafana read.

Rules and dashboard name only what `/metrics` has, and a real Prometheus scrapes it.
"""

import asyncio
import json
import re
import socket
import subprocess
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.schemas import DEFAULT_ESTIMATORS
from app.telemetry import CONSISTENCY_NAMES, SCORE_NAMES
from tests.binaries import binary
from tests.chaos.cocoa_process import cocoa_serve
from tests.chaos.test_chaos_disconnect import listening
from tests.conftest import GENERATE

OBSERVABILITY = Path(__file__).parents[2] / "docker" / "observability"
RULES = OBSERVABILITY / "alerts.yml"
DASHBOARD = json.loads((OBSERVABILITY / "dashboard.json").read_text())
# What Prometheus adds itself, to series and as a series.
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
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]


def rule_expressions():
    """Of each rule by its name; the file is flat enough to be read without a YAML library."""
    text = re.sub(r"^ *#.*\n", "", RULES.read_text(), flags=re.MULTILINE)
    rules = re.split(r"^ {6}- (?=alert|record)", text, flags=re.MULTILINE)[1:]
    return {
        re.match(r"\w+: (\S+)", rule)[1]: re.search(
            r"expr:(.*?)(?=^ {8}\w|\Z)", rule, re.DOTALL | re.MULTILINE
        )[1]
        for rule in rules
    }


def metric_names(expression):
    """Names of the series that an expression reads.

    They are what is left of it without labels, durations and functions.
    """
    bare = re.sub(r'"[^"]*"|\{[^{}]*\}|\[[^\]]*\]', " ", re.sub(r'"[^"]*"', '""', expression))
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", bare)
    names = re.findall(r"(?<![\w.:$])([a-zA-Z_][\w:]*)\b(?!\s*\()", bare)
    return set(names) - KEYWORDS


def matchers(expression):
    """(metric, label, operator, value) of every condition in braces."""
    return {
        (name, *matcher)
        for name, inside in re.findall(r"([\w:]+)\{([^{}]*)\}", expression)
        for matcher in re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', inside)
    }


def unknown_names(expressions, samples, recorded=()):
    known = {sample.name for sample in samples} | FROM_PROMETHEUS | set(recorded)
    return set().union(*map(metric_names, expressions)) - known


def unmatched(expressions, samples):
    """Conditions that no sample of their metric meets, by equality or as a pattern."""
    values = {}
    for sample in samples:
        for label, value in sample.labels.items():
            values.setdefault((sample.name, label), set()).add(value)
    return {
        (name, label, wanted)
        for name, label, operator, wanted in set().union(*map(matchers, expressions))
        if label not in TARGET_LABELS and ":" not in name
        if (name, label) not in values
        or (operator == "=" and VARIABLES.get(wanted, wanted) not in values[name, label])
        or (
            operator == "=~"
            and label != "status"
            and not any(re.fullmatch(wanted, v) for v in values[name, label])
        )
    }


@pytest.fixture
async def samples(service):
    """What a running service exposes after its first request."""
    assert (await service.generate(seed=1)).status_code == 200
    exposition = (await service.client.get("/metrics")).text
    return [
        sample for family in text_string_to_metric_families(exposition) for sample in family.samples
    ]


@pytest.mark.anyio
async def test_every_metric_and_label_of_the_rules_is_exposed(samples):
    rules = rule_expressions()
    assert len(rules) == 9
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
    counts = {
        sample.labels["estimator"]: sample.value
        for sample in samples
        if sample.name in ("cocoa_score_nats_count", "cocoa_consistency_count")
    }
    assert counts == {
        name: float(name in DEFAULT_ESTIMATORS) for name in (*SCORE_NAMES, *CONSISTENCY_NAMES)
    }


@pytest.mark.anyio
async def test_the_limit_of_the_queue_is_that_of_the_settings(service, samples):
    (limit,) = [
        sample.value for sample in samples if sample.name == "cocoa_admission_limit_requests"
    ]
    assert limit == service.pipeline.admission.limit > 0


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
    cells = [
        (x, y)
        for panel in panels
        for at in (panel["gridPos"],)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    for panel in panels:
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            assert all(
                target["datasource"]["uid"] == "${datasource}" for target in panel["targets"]
            )


def promtool(*arguments, text=None):
    done = subprocess.run(
        [binary("promtool"), *map(str, arguments)], input=text, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_promtool_finds_no_fault_in_rules_and_configuration():
    assert "9 rules found" in promtool("check", "rules", RULES)
    promtool("check", "config", OBSERVABILITY / "prometheus.yml")


@pytest.mark.parametrize("tests", ["alerts_test.yml", "drift_test.yml"])
def test_the_alerts_fire_when_they_should_and_only_then(tests):
    assert "SUCCESS" in promtool("test", "rules", OBSERVABILITY / tests)


def test_every_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not():
    tests = "".join(
        (OBSERVABILITY / name).read_text() for name in ("alerts_test.yml", "drift_test.yml")
    )
    cases = re.findall(r"alertname: (\w+)\n +exp_alerts:( \[\])?", tests)
    alerts = {name for name in rule_expressions() if ":" not in name}
    assert (
        {name for name, empty in cases if empty}
        == {name for name, empty in cases if not empty}
        == alerts
    )


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
    try:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}/api/v1", timeout=30
        ) as client:
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

        (answered,) = await until_queried(
            client, f'cocoa_requests_total{{route="{GENERATE}",status="200"}} == 3'
        )
        assert answered["metric"]["job"] == "cocoa-serve"
        assert await until_queried(client, 'cocoa_score_nats_count{estimator="cocoa_ppl"} == 3')
        assert (await service.generate(seed=3)).status_code == 200
        assert await until_queried(
            client, f'rate(cocoa_requests_total{{route="{GENERATE}"}}[1m]) > 0'
        )

        (target,) = (await client.get("/targets")).json()["data"]["activeTargets"]
        assert (target["health"], target["lastError"]) == ("up", "")
        for expression in dashboard_expressions():
            for variable, value in VARIABLES.items():
                expression = expression.replace(variable, value)
            await query(client, expression)
        groups = (await client.get("/rules")).json()["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert len(rules) == 9
        assert {rule.get("lastError", "") for rule in rules} == {""}
        assert {
            rule["name"] for rule in rules if rule.get("state", "inactive") != "inactive"
        } == set()


def test_every_line_that_cocoa_serve_writes_is_json_and_tells_no_path_of_a_request():
    with cocoa_serve(COCOA_GENERATION__ENGINE="fake") as process:
        process.wait_ready()
        process.get("/sesame-4711?key=sesame-4711")
        assert process.generate("sesame-4711").status_code == 200
        process.popen.terminate()
        assert process.exit_code() == 0
    told = [json.loads(line) for line in process.log]
    assert {"time", "level", "logger", "message"} == set.intersection(*(set(line) for line in told))
    assert [line["status"] for line in told if line["message"] == "request"] == [404, 200]
    assert "sesame" not in str(told)
