"""Scaling, monitoring and routes in the chart: read from what is rendered."""

import json

import yaml

from tests.deploy.chart import ROOT, VLLM, container_of, environment, names, render

# Prometheus scrapes all of them.
WATCHED = {
    "monitoring": {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}},
    "networkPolicy": {"metricsFrom": [{"namespaceSelector": {}}]},
}


def test_operation_can_have_a_port_of_its_own():
    watched = {"monitoring": {"serviceMonitor": {"enabled": True}}}
    objects = render({"opsPort": 9000, **watched})
    container = container_of(objects, "gateway")
    assert {"name": "ops", "containerPort": 9000} in container["ports"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == 9000
    (endpoint,) = objects["ServiceMonitor", "cocoa-gateway"]["spec"]["endpoints"]
    assert endpoint["targetPort"] == "ops"
    rules = objects["NetworkPolicy", "cocoa-gateway"]["spec"]["ingress"]
    assert [one["port"] for rule in rules for one in rule["ports"]] == ["http", "ops"]
    # By default it has one, so that no Ingress shows metrics to everybody.
    by_default = render(watched)
    assert environment(by_default, "gateway")["COCOA_OPS_PORT"] == "8001"
    (port,) = by_default["Service", "cocoa-gateway"]["spec"]["ports"]
    assert port["targetPort"] == "http"
    together = render({"opsPort": None, **watched})
    assert "COCOA_OPS_PORT" not in environment(together, "gateway")
    (endpoint,) = together["ServiceMonitor", "cocoa-gateway"]["spec"]["endpoints"]
    assert endpoint["port"] == "http"
    assert container_of(together, "gateway")["readinessProbe"]["httpGet"]["port"] == 8000


def test_prometheus_and_the_test_of_helm_reach_a_gateway_that_few_may_ask():
    objects = render(ROOT / "helm/examples/everything.yaml")
    clients, metrics = objects["NetworkPolicy", "cocoa-all-gateway"]["spec"]["ingress"]
    test = objects["Pod", "cocoa-all-test"]["metadata"]["labels"]
    chosen = [one["podSelector"]["matchLabels"] for one in clients["from"] if "podSelector" in one]
    assert any(labels.items() <= test.items() for labels in chosen)
    (peer,) = metrics["from"]
    assert "monitoring" in peer["namespaceSelector"]["matchLabels"].values()
    assert [one["port"] for one in metrics["ports"]] == ["ops"]


def test_gateways_scale_on_requests_under_way_and_on_cpu():
    objects = render({"gateway": {"autoscaling": {"enabled": True}}})
    assert "replicas" not in objects["Deployment", "cocoa-gateway"]["spec"]
    spec = objects["HorizontalPodAutoscaler", "cocoa-gateway"]["spec"]
    requests, cpu = spec["metrics"]
    assert requests["pods"]["metric"]["name"] == "cocoa_admitted_requests"
    assert cpu["resource"]["name"] == "cpu"
    alone = {"gateway": {"autoscaling": {"enabled": True, "admittedRequests": 0}}}
    (only,) = render(alone)["HorizontalPodAutoscaler", "cocoa-gateway"]["spec"]["metrics"]
    assert only["type"] == "Resource"


def test_similarity_scales_on_cpu():
    autoscaling = {"enabled": True, "maxReplicas": 5}
    objects = render({"similarityWorker": {"autoscaling": autoscaling}})
    assert "replicas" not in objects["Deployment", "cocoa-similarity"]["spec"]
    spec = objects["HorizontalPodAutoscaler", "cocoa-similarity"]["spec"]
    assert spec["scaleTargetRef"]["name"] == "cocoa-similarity"
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 5)
    (only,) = spec["metrics"]
    assert only["resource"]["target"]["averageUtilization"] == 80


def test_keda_scales_on_our_queue_or_on_that_of_vllm():
    keda = {"enabled": True, "prometheusAddress": "http://prometheus:9090"}
    own = render({"generationWorker": {"keda": keda}, **WATCHED})
    assert "replicas" not in own["Deployment", "cocoa-generation"]["spec"]
    (trigger,) = own["ScaledObject", "cocoa-generation"]["spec"]["triggers"]
    of = 'namespace="cocoa", release="cocoa"'
    query = f'sum(cocoa_waiting_requests{{job="cocoa-generation", {of}}})'
    assert trigger["metadata"]["query"] == query
    scaling = own["ScaledObject", "cocoa-generation"]["spec"]["advanced"]
    behavior = scaling["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"] == {"stabilizationWindowSeconds": 300}
    given = {"enabled": True, "keda": {**keda, "samples": 10}}
    vllm = render({**VLLM, "vllm": given, **WATCHED})
    (trigger,) = vllm["ScaledObject", "cocoa-vllm"]["spec"]["triggers"]
    query = f'sum(vllm:num_requests_waiting{{job="cocoa-vllm", {of}}}) / 11'
    assert trigger["metadata"]["query"] == query
    other = render({"generationWorker": {"keda": {**keda, "query": "up"}}})
    (trigger,) = other["ScaledObject", "cocoa-generation"]["spec"]["triggers"]
    assert trigger["metadata"]["query"] == "up"


def test_prometheus_is_told_of_every_process_under_the_job_that_the_alerts_ask_for():
    objects = render(WATCHED)
    (endpoint,) = objects["ServiceMonitor", "cocoa-gateway"]["spec"]["endpoints"]
    assert endpoint["relabelings"] == [
        {"targetLabel": "job", "replacement": "cocoa-serve"},
        {"targetLabel": "release", "replacement": "cocoa"},
    ]
    assert names(objects, "PodMonitor") == {"cocoa-generation", "cocoa-similarity"}


def test_the_alerts_are_those_that_tests_e2e_tries():
    url = "https://docs.example/operations"
    rule = render({"monitoring": {"prometheusRule": {"enabled": True, "runbooks": url}}})
    alerts = ROOT / "docker/observability/alerts.yml"
    text = alerts.read_text().replace("docs/operations.md", url)
    assert rule["PrometheusRule", "cocoa-alerts"]["spec"] == yaml.safe_load(text)


def test_the_dashboard_is_the_one_of_this_repository():
    objects = render({"monitoring": {"dashboard": {"enabled": True}}})
    found = objects["ConfigMap", "cocoa-dashboard"]
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    ours = (ROOT / "docker/observability/dashboard.json").read_text()
    assert json.loads(found["data"]["cocoa-serve.json"]) == json.loads(ours)


def test_routes_lead_to_the_gateway():
    objects = render(ROOT / "helm/examples/everything.yaml")
    (rule,) = objects["Ingress", "cocoa-all-gateway"]["spec"]["rules"]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": "cocoa-all-gateway", "port": {"name": "http"}}
    (rule,) = objects["HTTPRoute", "cocoa-all-gateway"]["spec"]["rules"]
    assert rule["backendRefs"] == [{"name": "cocoa-all-gateway", "port": 8000}]
