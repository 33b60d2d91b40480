"""Rules and dashboard in the real promtool and the real Prometheus."""

import asyncio
import re
import socket
from contextlib import asynccontextmanager, suppress
from itertools import chain

import httpx
import pytest

from tests.binaries import binary
from tests.chaos.listening import listening
from tests.conftest import GENERATE
from tests.e2e.observability import (
    OBSERVABILITY,
    RULES,
    VARIABLES,
    dashboard_expressions,
    promtool,
    rule_expressions,
)

NUM_RULES = 32
TESTS = sorted(OBSERVABILITY.glob("*_test.yml"))


def test_promtool_finds_no_fault_in_rules_and_configuration():
    assert f"{NUM_RULES} rules found" in promtool("check", "rules", RULES)
    promtool("check", "config", OBSERVABILITY / "prometheus.yml")


def test_every_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not():
    tests = "".join(path.read_text() for path in TESTS)
    cases = re.findall(r"alertname: (\w+)\n +exp_alerts:( \[\])?", tests)
    quiet = {name for name, empty in cases if empty}
    firing = {name for name, empty in cases if not empty}
    assert quiet == firing == {name for name in rule_expressions() if ":" not in name}


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
        (series,) = await until_queried(client, "cocoa:requests:rate5m > 0")
        assert series["metric"]["model"] == "fake"

        for expression in dashboard_expressions():
            for variable, value in VARIABLES.items():
                expression = expression.replace(variable, value)
            await query(client, expression)
        groups = (await client.get("/rules")).json()["data"]["groups"]
        rules = [*chain.from_iterable(group["rules"] for group in groups)]
        assert len(rules) == NUM_RULES
        assert {rule.get("lastError", "") for rule in rules} == {""}
        active = {rule["name"] for rule in rules if rule.get("state", "inactive") != "inactive"}
        assert active == set()
