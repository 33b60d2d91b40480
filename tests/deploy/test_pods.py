"""The rendered default chart, really started as pods; see `cluster.py` for what stands in."""

import json
import os
import signal
import time

import pytest

from tests.deploy.chart import container_of, render
from tests.deploy.cluster import NETWORK, Cluster
from tests.deploy.containers import ENVIRONMENT, RESTRICTED, podman, run
from tests.deploy.load import ask, load

pytestmark = pytest.mark.usefixtures("gateway_image", "worker_image")


@pytest.fixture(scope="module")
def cluster(gateway_image, worker_image):
    with Cluster(render()) as cluster:
        cluster.wait_ready()
        yield cluster


def started_at(pods):
    return [podman("inspect", "--format", "{{.State.StartedAt}}", pod.container) for pod in pods]


def test_the_default_chart_answers_a_full_and_a_light_request(cluster):
    url = cluster.url("cocoa-gateway")
    full = ask(url, "What is the capital of France?", num_samples=10)
    assert full.status_code == 200, full.text
    assert full.json()["provenance"]["mode"] == "full"
    assert full.json()["scores"]["rb_cocoa_root_sp"] is not None
    light = ask(url, "What is the capital of France?", mode="light", num_samples=None)
    assert light.status_code == 200, light.text
    assert light.json()["provenance"]["mode"] == "light"
    print(f"\nfull: {full.json()['text']!r}, light: {light.json()['text']!r}")


def test_pods_are_as_restricted_as_the_chart_says(cluster):
    for pod in cluster.pods:
        (found,) = json.loads(podman("inspect", pod.container))
        assert found["HostConfig"]["ReadonlyRootfs"] is True
        assert found["EffectiveCaps"] in ([], None)
        status = podman("exec", pod.container, "cat", "/proc/1/status")
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert fields["Uid"].split() == ["10001"] * 4
        assert fields["Gid"].split() == ["10001"] * 4
        assert fields["NoNewPrivs"] == "1"
        assert int(fields["CapEff"], 16) == 0


def test_the_test_of_helm_passes(cluster):
    (pod,) = [one for (kind, _), one in cluster.objects.items() if kind == "Pod"]
    (container,) = pod["spec"]["containers"]
    service = cluster.services["cocoa-gateway"]
    hosts = ("--network", NETWORK, "--add-host", f"{service.name}:{service.address}")
    image = f"localhost/{container['image']}"
    command = ("podman", "run", "--rm", *hosts, *RESTRICTED, image, *container["args"])
    done = run(*command, env=ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_one_gateway_computed_the_other_finds_in_redis(cluster):
    first, second = cluster.of("gateway")
    prompt = "What is the capital of Portugal?"
    answers = [
        ask(f"http://{pod.address}:8000", prompt, seed=1, timeout_s=60) for pod in (first, second)
    ]
    assert [one.status_code for one in answers] == [200, 200]
    (redis,) = cluster.of("redis")
    deadline = time.monotonic() + 30
    while podman("exec", redis.container, "redis-cli", "dbsize") == "0":
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_what_the_default_chart_serves_is_told(cluster):
    started = time.monotonic()
    with load(cluster.url("cocoa-gateway"), num_samples=10, max_new_tokens=32) as seen:
        time.sleep(20)
    seconds = time.monotonic() - started
    print(f"\nM = 10, up to 32 tokens, 3 clients: {dict(seen.seen)} in {seconds:.0f} s")
    assert seen.num_failed == 0
    assert seen.seen["answered"] > 0


@pytest.mark.parametrize("component", ["gateway", "generation", "similarity"])
def test_a_rolling_restart_loses_no_request(cluster, component):
    before = started_at(cluster.of("gateway"))
    with load(cluster.url("cocoa-gateway")) as seen:
        wait_for_answers(seen, 3)
        codes = cluster.restart(f"cocoa-{component}")
        wait_for_answers(seen, seen.seen["answered"] + 3)
    print(f"\nrolling restart of {component}: {dict(seen.seen)}, exit codes {codes}")
    assert seen.num_failed == 0, (seen.seen, seen.untyped)
    assert codes == [0] * len(codes)
    if component != "gateway":
        assert started_at(cluster.of("gateway")) == before


@pytest.mark.parametrize(
    ("component", "code"),
    [("generation", "generation_unavailable"), ("similarity", "similarity_unavailable")],
)
def test_a_worker_that_is_killed_costs_typed_errors_and_heals_by_itself(cluster, component, code):
    before = started_at(cluster.of("gateway"))
    (pod,) = cluster.of(component)
    first = cluster.process(pod)
    with load(cluster.url("cocoa-gateway")) as seen:
        wait_for_answers(seen, 3)
        os.kill(first, signal.SIGKILL)
        cluster.wait_started_anew(pod, first)
        wait_for_answers(seen, seen.seen["answered"] + 3)
    print(f"\n{component} killed: {dict(seen.seen)}")
    assert seen.untyped == []
    assert set(seen.seen) <= {"answered", code, "not_ready"}
    assert started_at(cluster.of("gateway")) == before
    assert ask(cluster.url("cocoa-gateway")).status_code == 200


def test_nothing_that_was_asked_stands_in_a_log(cluster):
    for pod in cluster.pods:
        done = run("podman", "logs", pod.container, env=ENVIRONMENT)
        log = done.stdout + done.stderr
        assert log
        assert "capital" not in log


def test_every_container_asks_for_as_little_as_the_chart_says(cluster):
    for component in ("gateway", "generation", "similarity", "redis"):
        limit = container_of(cluster.objects, component)["resources"]["limits"]["memory"]
        for pod in cluster.of(component):
            used = int(podman("exec", pod.container, "cat", "/proc/1/statm").split()[1]) * 4096
            print(f"\n{pod.name}: {used / 1e6:.0f} MB resident, limit {limit}")
            assert used < int(limit[:-2]) * {"Mi": 2**20, "Gi": 2**30}[limit[-2:]]


def wait_for_answers(seen, number, timeout_s=400):
    end = time.monotonic() + timeout_s
    while seen.seen["answered"] < number:
        assert time.monotonic() < end, (seen.seen, seen.untyped)
        time.sleep(0.1)
