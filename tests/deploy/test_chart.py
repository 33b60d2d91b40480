"""The chart without a cluster: rendered by both helms, checked against the API, read."""

import json
import shutil

import pytest
import yaml

from tests.deploy.chart import (
    CHART,
    DEPLOY,
    EXAMPLES,
    HELMS,
    ROOT,
    container_of,
    environment,
    helm,
    kinds,
    names,
    pod_of,
    refusal,
    render,
    run,
    variable,
)

VALUE_SETS = [None, *EXAMPLES]
VLLM = {"vllm": {"enabled": True}, "generation": {"model": "Qwen/Qwen3-8B"}}

# What fails on purpose, and why. Any other failed check fails the test.
UNCHECKED = {
    "CKV_K8S_11": "a CPU limit throttles a model that could have idle cores",
    "CKV_K8S_15": "tags are versions, which do not move",
    "CKV_K8S_21": "the namespace is the release's",
    "CKV_K8S_35": "the service reads its secrets from variables, or from files where one says so",
    "CKV_K8S_43": "digests are for whoever builds the images: `image.digest`",
    "CKV_K8S_8": "the pod of `helm test` ends by itself",
    "CKV_K8S_9": "the pod of `helm test` ends by itself",
    "CKV2_K8S_6": "the pod of `helm test` has no port",
}


def set_id(values):
    return "default" if values is None else values.stem


def test_there_are_eight_value_sets_beside_the_default():
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize("version", HELMS)
@pytest.mark.parametrize("values", VALUE_SETS, ids=set_id)
def test_helm_lints_and_renders(values, version, tmp_path):
    lint = helm(version, "lint", "--strict", CHART, values=values)
    assert lint.returncode == 0, lint.stdout + lint.stderr
    assert render(values, version)


@pytest.mark.parametrize("values", VALUE_SETS, ids=set_id)
def test_both_helms_render_the_same(values):
    assert render(values, "helm3") == render(values, "helm4")


@pytest.mark.parametrize("values", VALUE_SETS, ids=set_id)
def test_the_api_accepts_what_is_rendered(values, tmp_path):
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text(helm("helm4", "template", "cocoa", CHART, values=values).stdout)
    for kubernetes in ("1.29", "1.33"):
        done = run(DEPLOY / "venv/bin/kubernetes-validate", "--strict", "-k", kubernetes, rendered)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("values", [None, EXAMPLES[0]], ids=set_id)
def test_checkov_finds_nothing_but_what_is_meant(values, tmp_path):
    assert EXAMPLES[0].stem == "everything"
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text(helm("helm4", "template", "cocoa", CHART, values=values).stdout)
    options = ["--framework", "kubernetes", "--skip-download", "--compact", "--quiet", "-o", "json"]
    done = run(DEPLOY / "venv/bin/checkov", *options, "-f", rendered)
    report = json.loads(done.stdout)
    assert report["summary"]["passed"] > 100
    failed = {(one["check_id"], one["resource"]) for one in report["results"]["failed_checks"]}
    assert {one for one in failed if one[0] not in UNCHECKED} == set()
    of_pods_only = ("CKV_K8S_8", "CKV_K8S_9", "CKV2_K8S_6")
    on_test_pod = {name for check, name in failed if check in of_pods_only}
    assert all(name.startswith("Pod.") for name in on_test_pod)


def test_hadolint_finds_nothing():
    done = run(DEPLOY / "venv/bin/hadolint", *sorted((ROOT / "docker").glob("*.Dockerfile")))
    assert done.returncode == 0, done.stdout


def test_the_chart_can_be_packaged_with_alerts_and_dashboard_inside(tmp_path):
    done = helm("helm4", "package", CHART, "--destination", tmp_path)
    assert done.returncode == 0, done.stderr
    (package,) = tmp_path.glob("*.tgz")
    held = run("tar", "-xzOf", package, "cocoa/files/alerts.yml").stdout
    assert held == (ROOT / "docker/observability/alerts.yml").read_text()


# What the default installs.


def test_the_default_is_a_gateway_the_embedded_workers_and_a_redis():
    objects = render()
    deployments = {"cocoa-gateway", "cocoa-generation", "cocoa-similarity", "cocoa-redis"}
    assert names(objects, "Deployment") == deployments
    assert "Secret" not in kinds(objects)
    assert environment(objects, "gateway") == {
        "COCOA_HOST": "0.0.0.0",
        "COCOA_PORT": "8000",
        "COCOA_DRAIN_S": "70",
        "COCOA_GENERATION__URL": "http://cocoa-generation:8000",
        "COCOA_GENERATION__API": "cocoa",
        "COCOA_SIMILARITY__URL": "http://cocoa-similarity:8000",
        "COCOA_SIMILARITY__API": "cocoa",
        "COCOA_CACHE__URL": "redis://cocoa-redis:6379",
    }
    resources = [container_of(objects, one)["resources"] for one in ("gateway", "generation")]
    assert "nvidia.com/gpu" not in json.dumps(resources)


def test_urls_are_names_and_ports_of_services():
    objects = render(release="mine")
    settings = environment(objects, "gateway", "mine-cocoa")
    for setting in ("COCOA_GENERATION__URL", "COCOA_SIMILARITY__URL", "COCOA_CACHE__URL"):
        host, port = settings[setting].split("//")[1].split(":")
        (found,) = objects["Service", host]["spec"]["ports"]
        assert found["port"] == int(port)
        named = container_of(objects, host.removeprefix("mine-cocoa-"), "mine-cocoa")["ports"]
        assert found["targetPort"] in {one["name"] for one in named}


@pytest.mark.parametrize("values", VALUE_SETS, ids=set_id)
def test_a_service_and_a_policy_choose_pods_that_there_are(values):
    objects = render(values)
    labels = []
    for (kind, _), one in objects.items():
        if kind == "Deployment":
            template = one["spec"]["template"]["metadata"]["labels"]
            assert one["spec"]["selector"]["matchLabels"].items() <= template.items()
            labels.append(template)
    for (kind, name), one in objects.items():
        selector = {
            "Service": lambda spec: spec["selector"],
            "NetworkPolicy": lambda spec: spec["podSelector"]["matchLabels"],
            "PodDisruptionBudget": lambda spec: spec["selector"]["matchLabels"],
        }.get(kind)
        if selector is not None:
            chosen = [one_ for one_ in labels if selector(one["spec"]).items() <= one_.items()]
            assert len(chosen) == 1, (kind, name)


@pytest.mark.parametrize("values", VALUE_SETS, ids=set_id)
def test_every_pod_is_restricted(values):
    objects = render(values)
    for (kind, name), one in objects.items():
        if kind == "Deployment":
            pod = one["spec"]["template"]["spec"]
        elif kind == "Pod":
            pod = one["spec"]
        else:
            continue
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["runAsNonRoot"] is True
            assert security["runAsUser"] >= 10000
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]
            assert "/tmp" in {one["mountPath"] for one in container["volumeMounts"]}


@pytest.mark.parametrize("values", VALUE_SETS, ids=set_id)
def test_a_pod_drains_for_longer_than_the_deadline_and_ends_after_that(values):
    objects = render(values)
    for (kind, name), one in objects.items():
        if kind != "Deployment" or name.endswith("redis"):
            continue
        pod = one["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        waits = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
        drain = 70
        assert drain > 60  # the default of `timeout_s`
        assert pod["terminationGracePeriodSeconds"] > waits + drain


def test_a_longer_drain_moves_every_bound():
    objects = render({"drainS": 610, **VLLM})
    assert pod_of(objects, "gateway")["terminationGracePeriodSeconds"] == 630
    assert pod_of(objects, "vllm")["terminationGracePeriodSeconds"] == 625
    assert environment(objects, "gateway")["COCOA_DRAIN_S"] == "610"
    assert "--shutdown-timeout=610" in container_of(objects, "vllm")["args"]


@pytest.mark.parametrize("component", ["gateway", "generation", "similarity", "vllm"])
def test_a_model_has_ten_minutes_to_start(component):
    values = VLLM if component == "vllm" else None
    probe = container_of(render(values), component)["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 600


def test_a_gateway_whose_workers_are_away_is_not_restarted():
    container = container_of(render(), "gateway")
    assert container["startupProbe"]["httpGet"]["path"] == "/livez"
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_only_gateways_reach_workers_and_redis():
    objects = render()
    for component in ("generation", "similarity", "redis"):
        policy = objects["NetworkPolicy", f"cocoa-{component}"]["spec"]
        assert policy["policyTypes"] == ["Ingress"]
        (rule,) = policy["ingress"]
        (peer,) = rule["from"]
        assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "gateway"
        assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/instance"] == "cocoa"


def test_pods_are_made_anew_when_what_they_read_changes():
    def checksum(values, component):
        template = render(values)["Deployment", f"cocoa-{component}"]["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/config"]

    slower = {"generation": {"maxRows": 8}}
    assert checksum(None, "generation") != checksum(slower, "generation")
    assert checksum(None, "gateway") == checksum(slower, "gateway")
    first, second = ({"generation": {"url": "http://x", "apiKey": key}} for key in "ab")
    assert checksum(first, "gateway") != checksum(second, "gateway")


# By values: other servers.


def test_an_external_server_takes_the_place_of_the_worker():
    objects = render({"generation": {"url": "http://vllm:8000", "api": "openai", "model": "m"}})
    assert "cocoa-generation" not in names(objects, "Deployment")
    settings = environment(objects, "gateway")
    assert settings["COCOA_GENERATION__URL"] == "http://vllm:8000"
    assert settings["COCOA_GENERATION__API"] == "openai"
    assert settings["COCOA_GENERATION__MODEL"] == "m"
    # Which pair models serve depends on whose answers they compare.
    assert environment(objects, "similarity")["COCOA_GENERATION__MODEL"] == "m"


def test_own_vllm_serves_the_model_and_the_gateway_asks_it():
    objects = render(ROOT / "helm/examples/own-vllm.yaml")
    container = container_of(objects, "vllm")
    assert container["command"] == ["vllm", "serve"]
    assert container["args"][0] == "Qwen/Qwen3-8B"
    assert "--generation-config=vllm" in container["args"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1
    mounts = {one["mountPath"] for one in container["volumeMounts"]}
    assert mounts == {"/tmp", "/data", "/dev/shm"}
    volumes = {one["name"]: one for one in pod_of(objects, "vllm")["volumes"]}
    assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "2Gi"}
    assert volumes["data"]["persistentVolumeClaim"] == {"claimName": "cocoa-models"}
    assert {"name": "HF_HOME", "value": "/data"} in container["env"]
    assert container["envFrom"] == [{"secretRef": {"name": "cocoa-vllm"}}]
    settings = environment(objects, "gateway")
    assert settings["COCOA_GENERATION__URL"] == "http://cocoa-vllm:8000"
    assert settings["COCOA_GENERATION__API"] == "openai"
    assert ("Deployment", "cocoa-generation") not in objects


def test_revision_and_number_format_of_own_vllm_are_its_arguments():
    model = {"model": "m", "revision": "abc", "dtype": "float16"}
    objects = render({"vllm": {"enabled": True}, "generation": model})
    assert {"--revision=abc", "--dtype=float16"} <= set(container_of(objects, "vllm")["args"])
    settings = environment(objects, "gateway")
    assert settings["COCOA_GENERATION__MODEL"] == "m"
    assert not {"COCOA_GENERATION__REVISION", "COCOA_GENERATION__DTYPE"} & settings.keys()


def test_light_gives_the_plugin_its_probes():
    objects = render(ROOT / "helm/examples/light.yaml")
    container = container_of(objects, "vllm")
    (option,) = [one for one in container["args"] if one.startswith("--additional-config=")]
    told = json.loads(option.removeprefix("--additional-config="))
    assert told == {"cocoa": {"probes": ["/probes/consistency", "/probes/semantic_entropy"]}}
    assert "/probes" in {one["mountPath"] for one in container["volumeMounts"]}
    assert environment(objects, "gateway")["COCOA_CALIBRATOR"] == "/calibrators/qwen3-8b.json"
    assert "--additional-config" not in json.dumps(container_of(render(VLLM), "vllm"))


def test_a_scorer_that_there_is_takes_the_place_of_the_similarity_worker():
    objects = render(ROOT / "helm/examples/tei.yaml")
    assert names(objects, "Deployment") == {"cocoa-gateway", "cocoa-redis"}
    settings = environment(objects, "gateway")
    assert settings["COCOA_SIMILARITY__API"] == "tei"
    # The gateway has nothing that could load an NLI model.
    assert settings["COCOA_NLI__MODEL"] == ""


def test_without_redis_each_gateway_has_a_cache_of_its_own():
    objects = render(ROOT / "helm/examples/no-redis.yaml")
    assert "cocoa-redis" not in names(objects, "Deployment")
    assert "COCOA_CACHE__URL" not in environment(objects, "gateway")
    assert environment(objects, "gateway")["COCOA_CACHE__MEMORY_BYTES"] == "268435456"


def test_a_url_of_redis_comes_from_a_secret_that_exists():
    objects = render(ROOT / "helm/examples/tls-redis.yaml")
    assert "cocoa-redis" not in names(objects, "Deployment")
    container = container_of(objects, "gateway")
    assert {"secretRef": {"name": "cocoa-redis"}} in container["envFrom"]
    assert environment(objects, "gateway")["COCOA_CACHE__CA_FILE"] == "/redis-ca/ca.crt"
    assert "/redis-ca" in {one["mountPath"] for one in container["volumeMounts"]}


def test_a_url_with_a_password_among_the_values_goes_into_a_secret():
    objects = render({"cache": {"url": "rediss://u:secret@redis:6380"}})
    assert "secret@" not in json.dumps(objects["ConfigMap", "cocoa-gateway"])
    assert "secret@" not in json.dumps(objects["Deployment", "cocoa-gateway"])
    stored = objects["Secret", "cocoa-gateway"]["stringData"]
    assert stored == {"COCOA_CACHE__URL": "rediss://u:secret@redis:6380"}
    assert "cocoa-redis" not in names(objects, "Deployment")


def test_own_redis_wants_the_password_that_the_gateway_knows():
    objects = render({"redis": {"existingSecret": "mine"}})
    wanted = {"secretKeyRef": {"name": "mine", "key": "REDIS_PASSWORD"}}
    assert variable(objects, "gateway", "REDIS_PASSWORD")["valueFrom"] == wanted
    assert variable(objects, "redis", "REDIS_PASSWORD")["valueFrom"] == wanted
    assert "$(REDIS_PASSWORD)" in container_of(objects, "redis")["args"]
    listed = [one["name"] for one in container_of(objects, "gateway")["env"]]
    url = variable(objects, "gateway", "COCOA_CACHE__URL")["value"]
    assert url == "redis://:$(REDIS_PASSWORD)@cocoa-redis:6379"
    # Kubernetes fills in what stands before.
    assert listed.index("REDIS_PASSWORD") < listed.index("COCOA_CACHE__URL")


@pytest.mark.parametrize(
    ("worker", "secret"),
    [({"apiKey": "k"}, "cocoa-worker"), ({"existingSecret": "mine"}, "mine")],
)
def test_gateway_and_workers_share_one_secret(worker, secret):
    objects = render({"worker": worker})
    wanted = {"secretKeyRef": {"name": secret, "key": "COCOA_WORKER__API_KEY"}}
    for process in ("generation", "similarity"):
        name = f"COCOA_{process.upper()}__API_KEY"
        assert variable(objects, "gateway", name)["valueFrom"] == wanted
        assert variable(objects, process, "COCOA_WORKER__API_KEY")["valueFrom"] == wanted
    assert (("Secret", "cocoa-worker") in objects) == ("apiKey" in worker)


def test_workers_with_a_certificate_are_asked_over_tls():
    worker = {"tlsCertFile": "/tls/tls.crt", "tlsKeyFile": "/tls/tls.key"}
    objects = render({"worker": worker})
    url = environment(objects, "gateway")["COCOA_GENERATION__URL"]
    assert url == "https://cocoa-generation:8000"
    probe = container_of(objects, "generation")["readinessProbe"]
    assert probe["httpGet"]["scheme"] == "HTTPS"
    mutual = render({"worker": {**worker, "tlsCaFile": "/tls/ca.crt"}})
    assert container_of(mutual, "generation")["readinessProbe"]["tcpSocket"] == {"port": "http"}


def test_operation_can_have_a_port_of_its_own():
    objects = render({"opsPort": 9000, "monitoring": {"serviceMonitor": {"enabled": True}}})
    container = container_of(objects, "gateway")
    assert {"name": "ops", "containerPort": 9000} in container["ports"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == 9000
    (endpoint,) = objects["ServiceMonitor", "cocoa-gateway"]["spec"]["endpoints"]
    assert endpoint["targetPort"] == "ops"
    (rule,) = objects["NetworkPolicy", "cocoa-gateway"]["spec"]["ingress"]
    assert {one["port"] for one in rule["ports"]} == {"http", "ops"}


# By values: scaling, watching, routing.


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


def test_keda_scales_on_our_queue_or_on_that_of_vllm():
    keda = {"enabled": True, "prometheusAddress": "http://prometheus:9090"}
    own = render({"generationWorker": {"keda": keda}})
    assert "replicas" not in own["Deployment", "cocoa-generation"]["spec"]
    (trigger,) = own["ScaledObject", "cocoa-generation"]["spec"]["triggers"]
    query = 'sum(cocoa_waiting_requests{job="cocoa-generation", namespace="cocoa"})'
    assert trigger["metadata"]["query"] == query
    vllm = render({**VLLM, "vllm": {"enabled": True, "keda": {**keda, "samples": 10}}})
    (trigger,) = vllm["ScaledObject", "cocoa-vllm"]["spec"]["triggers"]
    query = 'sum(vllm:num_requests_waiting{job="cocoa-vllm", namespace="cocoa"}) / 11'
    assert trigger["metadata"]["query"] == query
    assert "prometheusAddress" in refusal({"generationWorker": {"keda": {"enabled": True}}})


def test_prometheus_is_told_of_every_process_under_the_job_that_the_alerts_ask_for():
    on = {"enabled": True}
    objects = render({"monitoring": {"serviceMonitor": on, "podMonitor": on}})
    (endpoint,) = objects["ServiceMonitor", "cocoa-gateway"]["spec"]["endpoints"]
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "cocoa-serve"}]
    assert names(objects, "PodMonitor") == {"cocoa-generation", "cocoa-similarity"}


def test_the_alerts_are_those_that_promtool_tests():
    rule = render({"monitoring": {"prometheusRule": {"enabled": True}}})
    alerts = ROOT / "docker/observability/alerts.yml"
    assert rule["PrometheusRule", "cocoa-alerts"]["spec"] == yaml.safe_load(alerts.read_text())
    done = run("promtool", "test", "rules", "alerts_test.yml", cwd=alerts.parent)
    assert done.returncode == 0, done.stdout + done.stderr


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


def test_everything_that_a_pod_can_be_told_reaches_it():
    objects = render(ROOT / "helm/examples/everything.yaml")
    pod = pod_of(objects, "gateway", "cocoa-all")
    assert pod["priorityClassName"] == "serving"
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert pod["tolerations"]
    assert pod["affinity"]["podAntiAffinity"]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    (spread,) = pod["topologySpreadConstraints"]
    labels = spread["labelSelector"]["matchLabels"]
    assert labels["app.kubernetes.io/component"] == "gateway"
    container = container_of(objects, "gateway", "cocoa-all")
    assert container["image"].startswith("registry.example.org/cocoa-gateway@sha256:")
    assert container["args"] == ["serve", "--host", "::"]
    assert {"name": "TZ", "value": "UTC"} in container["env"]
    assert pod_of(objects, "vllm", "cocoa-all")["runtimeClassName"] == "nvidia"
    assert objects["ConfigMap", "cocoa-extra"]["data"] == {"key": "value"}
    assert objects["Deployment", "cocoa-all-gateway"]["metadata"]["labels"]["team"] == "language"


def test_a_second_release_shares_the_first_ones_similarity_worker_and_redis():
    first, second = render(), render(ROOT / "helm/examples/second-model.yaml", release="second")
    assert names(second, "Deployment") == {"second-cocoa-gateway", "second-cocoa-generation"}
    settings = environment(second, "gateway", "second-cocoa")
    for setting in ("COCOA_SIMILARITY__URL", "COCOA_CACHE__URL"):
        assert ("Service", settings[setting].split("//")[1].split(":")[0]) in first


# What values may not say.


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"gateways": {}}, "gateways"),
        ({"gateway": {"replica": 3}}, "gateway"),
        ({"gateway": {"replicas": "three"}}, "gateway"),
        ({"generation": {"maxRow": 8}}, "generation"),
        ({"generation": {"maxRows": 0}}, "maxRows"),
        ({"generation": {"api": "grpc"}}, "api"),
        ({"cache": {"ttlS": "an hour"}}, "ttlS"),
        ({"vllm": {"keda": {"sample": 10}}}, "keda"),
        ({"ingress": {"pathType": "Prefixed"}}, "pathType"),
    ],
)
def test_a_mistake_in_values_is_refused_with_its_path(values, path):
    for version in HELMS:
        done = helm(version, "template", "cocoa", CHART, values=values)
        assert done.returncode != 0
        assert "values don't meet the specifications of the schema" in done.stderr
        assert path in done.stderr


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vllm": {"enabled": True}}, "generation.model"),
        ({**VLLM, "generation": {"url": "http://x", "model": "m"}}, "exclude"),
        ({"generation": {"api": "openai"}}, "generation.url"),
        ({"similarity": {"api": "tei"}}, "similarity.url"),
    ],
)
def test_values_that_exclude_each_other_are_refused(values, message):
    assert message in refusal(values)


def test_notes_hold_a_curl_and_the_test(tmp_path):
    # Helm shows notes where it installs, for which it wants a cluster: here they are an object.
    copy = tmp_path / "cocoa"
    shutil.copytree(CHART, copy)
    (copy / "templates/NOTES.txt").rename(copy / "files/notes.txt")
    template = 'kind: Notes\ntext: |\n  {{- tpl (.Files.Get "files/notes.txt") . | nindent 2 }}\n'
    (copy / "templates/notes.yaml").write_text(template)
    options = ["--namespace", "models", "--show-only", "templates/notes.yaml"]
    done = helm("helm4", "template", "cocoa", copy, *options)
    notes = yaml.safe_load(done.stdout)["text"]
    assert "curl --fail-with-body http://127.0.0.1:8000/generate-with-uncertainty" in notes
    assert "helm --namespace models test cocoa" in notes
