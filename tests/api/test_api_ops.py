"""What operators ask over HTTP, and what the OpenAPI document promises."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.revision import git_revision
from app.scoring.defaults import DEFAULT_ESTIMATORS
from models.errors import EngineError
from models.estimators import ESTIMATORS, known_estimators, needs
from tests.conftest import GENERATE, serving, until

pytestmark = pytest.mark.anyio


async def metric(service, name, **labels):
    """Value of one sample of /metrics."""
    text = (await service.client.get("/metrics")).text
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    return None


async def test_a_ready_service_says_so(service):
    for path, status in (("/livez", "alive"), ("/readyz", "ready")):
        response = await service.client.get(path)
        assert (response.status_code, response.json()) == (200, {"status": status})
        assert response.headers["x-request-id"]


async def test_a_dead_service_is_neither_ready_nor_alive(service):
    service.engine_dies()
    assert (await service.generate()).status_code == 503
    await until(lambda: service.deaths)
    assert (await service.generate()).status_code == 503
    for path in ("/livez", "/readyz", "/estimators"):
        response = await service.client.get(path)
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "not_ready"
    assert service.deaths == ["died"]
    assert await metric(service, "cocoa_ready") == 0


async def test_a_stopped_service_takes_no_requests():
    async with serving() as service:
        await service.core.supervisor.stop()
        assert (await service.generate()).status_code == 503
        assert (await service.client.get("/readyz")).status_code == 503
        assert (await service.client.get("/livez")).status_code == 200
    assert service.deaths == []


async def test_the_version_names_models_and_limits(service):
    result = (await service.client.get("/version")).json()
    assert result["version"] == version("cocoa-serve")
    assert result["git_revision"] == git_revision("")
    fake = {"id": "fake", "revision": "1"}
    assert result["model"] == result["nli_model"] == fake
    assert result["model_self_test_tokens"] is None, "the fake is no model that could be tried"
    assert result["default_similarity"] == "fake"
    weightless = {name: {"id": name, "revision": None} for name in ("added", "rouge_l", "jaccard")}
    assert result["similarity_models"] == {
        "fake": fake,
        "nli": fake,
        **weightless,
    }
    assert result["limits"] == {
        "timeout_s": 60,
        "max_body_bytes": 1_000_000,
        "max_concurrent_items": 2,
        "max_body_s": 30,
        "max_head_bytes": 32_768,
        "max_headers": 100,
        "max_head_s": 10,
        "max_connections": 1000,
        "max_text_characters": 32_768,
        "max_pairs": 65_536,
        "max_units": 1024,
        "max_images": 8,
        "max_image_bytes": 500_000,
        "max_image_urls": 0,
        "max_relevance_characters": 100_000_000,
        "admission_limit": 64,
        "max_rows": 256,
        "max_cache_tokens": 131_072,
        "max_context_tokens": 512,
        "max_pair_tokens": 512,
    }


async def test_the_version_is_known_before_the_models_are():
    async with serving(ready=False, admission_limit=3) as service:
        result = (await service.client.get("/version")).json()
    assert result["model"] is result["nli_model"] is result["default_similarity"] is None
    assert result["similarity_models"] == {}
    assert (result["limits"]["admission_limit"], result["limits"]["max_context_tokens"]) == (
        3,
        None,
    )


async def test_the_estimators_are_those_of_the_registry_and_of_the_docs_word_by_word(service):
    result = (await service.client.get("/estimators")).json()
    page = Path(__file__).parents[2] / "docs/reference/estimators.md"
    text = " ".join(page.read_text().split())
    sections = dict(part.split(" ", 1) for part in text.split(" ## ")[1:])
    assert result["default"] == list(DEFAULT_ESTIMATORS)
    assert [entry["name"] for entry in result["estimators"]] == list(known_estimators())
    for entry in result["estimators"]:
        assert entry["needs"] == sorted(needs([entry["name"]]))
        assert entry["available"] == (entry["reason"] is None)
        if entry["name"] not in ESTIMATORS:
            continue  # of a plugin
        for fact in (entry["title"], entry["formula"], entry["cost"], entry["source"]):
            assert " ".join(fact.split()) in sections[entry["name"]]
        assert (f", in {entry['unit']}" in sections[entry["name"]]) or not entry["unit"]
    available = {entry["name"] for entry in result["estimators"] if entry["available"]}
    assert set(DEFAULT_ESTIMATORS) <= available


async def test_an_estimator_that_cannot_be_supplied_is_listed_with_its_reason(service):
    service.without_statistics("answer_token_entropies")
    result = (await service.client.get("/estimators")).json()
    entries = {entry["name"]: entry for entry in result["estimators"]}
    for name in DEFAULT_ESTIMATORS:
        assert entries[name]["available"] == (name not in {"mte", "cocoa_mte"})
    assert "answer_token_entropies" in entries["mte"]["reason"]


async def test_what_is_listed_as_available_can_be_asked_for_and_nothing_else(service):
    for entry in (await service.client.get("/estimators")).json()["estimators"]:
        response = await service.generate(estimators=[entry["name"]], seed=1)
        assert response.status_code == (200 if entry["available"] else 422), entry["name"]
        if entry["available"]:
            assert response.json()["scores"][entry["name"]] is not None, response.text


async def test_metrics_count_requests_tokens_and_stages(service):
    result = (await service.generate(seed=1)).json()
    assert await metric(service, "cocoa_requests_total", route=GENERATE, status="200") == 1
    for kind, field in (
        ("prompt", "prompt_tokens"),
        ("answer", "completion_tokens"),
        ("sample", "sample_tokens"),
    ):
        assert await metric(service, "cocoa_tokens_total", kind=kind) == result["usage"][field]
    for stage in ("queue", "generate", "similarity", "score"):
        assert await metric(service, "cocoa_stage_seconds_count", stage=stage) == 1
    assert await metric(service, "cocoa_ready") == 1
    assert await metric(service, "cocoa_admitted_requests") == 0
    assert await metric(service, "cocoa_waiting_requests") == 0
    assert await metric(service, "cocoa_decode_batch_rows_count") == 2, (
        "the warm-up and the request"
    )
    assert await metric(service, "cocoa_decode_batch_rows_sum") == 3 + 11
    assert await metric(service, "cocoa_running_rows") == 0, "the batch has run empty"
    # The warm-up of each pair model that has weights (fake, NLI, and one over it), and the
    # request's.
    assert await metric(service, "cocoa_similarity_batch_pairs_count") == 3 + 1


async def test_metrics_count_errors_by_code(service):
    service.generation_raises(EngineError("a step failed"))
    for _ in range(2):
        await service.generate()
    assert await metric(service, "cocoa_errors_total", code="engine_error") == 2
    assert await metric(service, "cocoa_requests_total", route=GENERATE, status="503") == 2


async def test_metrics_are_readable_before_the_models_are():
    async with serving(ready=False) as service:
        assert await metric(service, "cocoa_ready") == 0
        assert await metric(service, "cocoa_waiting_requests") == 0


async def test_a_metric_that_raises_fails_neither_a_request_nor_the_others(service, monkeypatch):
    def fail(*_):
        raise RuntimeError("no metric")

    monkeypatch.setattr(service.telemetry.counters["samples"], "inc", fail)
    monkeypatch.setattr(service.telemetry.histograms["request_seconds"], "labels", fail)
    monkeypatch.setattr(service.telemetry.counters["tokens"], "collect", fail)
    assert (await service.generate(seed=1)).status_code == 200
    text = (await service.client.get("/metrics")).text
    assert f'cocoa_requests_total{{route="{GENERATE}",status="200"}} 1.0' in text
    assert "cocoa_tokens" not in text
    # The answer, its two lines of metrics, and what could not be read.
    assert await metric(service, "cocoa_metric_failures_total") >= 3


@pytest.mark.parametrize("path", ["/livez/", "/docs/", "/v1/models/", "/v1/models//", "/page//"])
async def test_a_slash_at_the_end_changes_nothing_and_leads_to_no_host_of_the_client(path):
    async with serving(access={"allowed_hosts": ("evil.example",)}) as service:
        headers = {"host": "evil.example"}
        response = await service.client.get(path, headers=headers)
        plain = await service.client.get(path.rstrip("/"), headers=headers)
    assert response.status_code == plain.status_code in (200, 404)
    assert "evil" not in str(response.headers) + response.text


async def test_a_slash_behind_an_endpoint_that_takes_posts(service):
    assert (await service.client.post(f"{GENERATE}/", json={"prompt": "a"})).status_code == 200
    assert await metric(service, "cocoa_requests_total", route=GENERATE, status="200") == 1


GOT = ["/health", "/livez", "/readyz", "/version", "/v1/models", "/", "/estimators", "/livez/"]


@pytest.mark.parametrize("path", GOT)
async def test_what_is_told_to_get_is_told_to_head(path):
    async with serving() as service:
        got, asked = await service.client.get(path), await service.client.head(path)
    assert got.status_code == asked.status_code == 200


async def test_before_the_models_are_loaded_health_is_not_ready():
    async with serving(ready=False) as service:
        for method in ("GET", "HEAD"):
            response = await service.client.request(method, "/health")
            assert (response.status_code, response.headers["retry-after"]) == (503, "1")


async def test_two_applications_share_no_state():
    async with serving() as first, serving() as second:
        await first.generate()
        assert await metric(second, "cocoa_requests_total", route=GENERATE, status="200") is None
        first.generation_takes(60)
        assert (await second.generate()).status_code == 200


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
async def test_the_interactive_documentation_needs_no_other_host(service, path):
    page = await service.client.get(path)
    assert page.status_code == 200
    assert "openapi.json" in page.text
    assets = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert assets
    for asset in assets:
        assert asset.startswith("/static-offline-docs/")
        response = await service.client.get(asset)
        assert (response.status_code, len(response.content) > 1000) == (200, True)


async def test_the_openapi_document_promises_each_status_that_occurs(service):
    document = (await service.client.get("/openapi.json")).json()
    assert document["info"] == {"title": "cocoa-serve", "version": version("cocoa-serve")}
    body = {"200", "400", "408", "413", "415"}
    work = {*body, "401", "403", "422", "429", "500", "503", "504"}
    operations = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            operations[method, path] = set(operation["responses"])
    assert operations == {
        ("post", GENERATE): work,
        ("post", "/score"): work,
        ("post", "/v1/chat/completions"): {*work, "404"},
        ("post", "/v1/completions"): {*work, "404"},
        ("post", "/v1/responses"): {*work, "404"},
        ("get", "/v1/models"): {"200", "401", "429", "503"},
        ("get", "/v1/models/{name}"): {"200", "401", "404", "422", "429", "503"},
        ("post", "/feedback"): {*body, "401", "404", "422", "429", "500", "503"},
        ("get", "/livez"): {"200", "503"},
        ("get", "/readyz"): {"200", "503"},
        ("get", "/version"): {"200", "401", "429"},
        ("get", "/estimators"): {"200", "401", "429", "503"},
        ("get", "/metrics"): {"200"},
    }


async def test_every_error_in_the_openapi_document_has_the_one_shape_of_its_api(service):
    document = (await service.client.get("/openapi.json")).json()
    for path, methods in document["paths"].items():
        shape = "OpenAIError" if path.startswith("/v1/") else "ErrorResponse"
        for operation in methods.values():
            for status, response in operation["responses"].items():
                if status != "200":
                    schema = response["content"]["application/json"]["schema"]
                    assert schema == {"$ref": f"#/components/schemas/{shape}"}


async def test_the_openapi_document_states_every_bound_of_a_request(service):
    document = (await service.client.get("/openapi.json")).json()
    schema = document["components"]["schemas"]["GenerateRequest"]
    assert schema["additionalProperties"] is False
    fields = schema["properties"]
    num_samples, temperature = (fields[name]["anyOf"][0] for name in ("num_samples", "temperature"))
    assert (num_samples["minimum"], num_samples["maximum"]) == (1, 64)
    assert (temperature["minimum"], temperature["maximum"]) == (0, 2)
    assert fields["estimators"]["anyOf"][0]["items"]["enum"] == list(ESTIMATORS)
    assert (await service.generate(**schema["examples"][0])).status_code == 200
