"""Which models the chart serves, and where: read from what is rendered."""

import json

import pytest

from tests.deploy.chart import ROOT, VLLM, container_of, environment, names, pod_of, render


def test_an_external_server_takes_the_place_of_the_worker():
    server = {"url": "http://vllm:8000", "api": "openai", "model": "m"}
    objects = render({"generation": server, "similarity": {"model": "cross-encoder/any"}})
    assert "cocoa-generation" not in names(objects, "Deployment")
    settings = environment(objects, "gateway")
    assert settings["COCOA_GENERATION__URL"] == "http://vllm:8000"
    assert settings["COCOA_GENERATION__API"] == "openai"
    assert settings["COCOA_GENERATION__MODEL"] == "m"
    # Which pair models serve depends on whose answers they compare.
    assert environment(objects, "similarity")["COCOA_GENERATION__MODEL"] == "m"


FOREIGN = {"generation": {"model": "org/model"}}
SERVED = {"generation": {"url": "http://vllm:8000", "api": "openai"}}


@pytest.mark.parametrize("values", [FOREIGN, SERVED, VLLM | {"similarity": {}}])
def test_beside_a_foreign_model_the_gateway_compares_by_words_without_a_worker(values):
    objects = render(values | {"similarity": {"strip": False}})
    assert "cocoa-similarity" not in names(objects, "Deployment")
    settings = environment(objects, "gateway")
    assert "COCOA_SIMILARITY__URL" not in settings
    assert settings["COCOA_SIMILARITY__STRIP"] == "false"


@pytest.mark.parametrize(
    "values",
    [
        {"similarity": {"model": "cross-encoder/any"}},
        {"similarity": {"name": "cross_encoder"}},
        {"nli": {"model": "org/nli"}},
        {"generation": {"model": "embedded-long"}},
        {"generation": {"url": "http://worker:8000"}},
    ],
)
def test_a_worker_compares_where_a_pair_model_does_or_may(values):
    objects = render(FOREIGN | values)
    assert "cocoa-similarity" in names(objects, "Deployment")
    assert "COCOA_SIMILARITY__URL" in environment(objects, "gateway")


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
    assert settings["COCOA_GENERATION__IS_ROUTED"] == "true"
    assert "clusterIP" not in objects["Service", "cocoa-vllm"]["spec"]
    assert names(objects, "Service") == {"cocoa-gateway", "cocoa-redis", "cocoa-vllm"}
    assert ("Deployment", "cocoa-generation") not in objects


def test_revision_and_number_format_of_own_vllm_are_its_arguments():
    model = {"model": "m", "revision": "abc", "dtype": "float16"}
    objects = render(VLLM | {"generation": model})
    assert {"--revision=abc", "--dtype=float16"} <= set(container_of(objects, "vllm")["args"])
    settings = environment(objects, "gateway")
    assert settings["COCOA_GENERATION__MODEL"] == "m"
    assert not {"COCOA_GENERATION__REVISION", "COCOA_GENERATION__DTYPE"} & settings.keys()


def test_light_gives_the_plugin_its_probes():
    objects = render(ROOT / "helm/examples/light.yaml")
    container = container_of(objects, "vllm")
    (option,) = [one for one in container["args"] if one.startswith("--additional-config=")]
    told = json.loads(option.removeprefix("--additional-config="))
    assert told["cocoa"] == {"probes": ["/probes/inconsistency", "/probes/semantic_entropy"]}
    assert "/probes" in {one["mountPath"] for one in container["volumeMounts"]}
    assert environment(objects, "gateway")["COCOA_CALIBRATOR"] == "/calibrators/qwen3-8b.json"
    assert "--additional-config" not in json.dumps(container_of(render(VLLM), "vllm"))


def test_the_process_of_the_language_model_has_the_calibrator_whose_prompts_it_compares():
    objects = render({"calibrator": "/calibrators/made.json"})
    for process in ("gateway", "generation"):
        assert environment(objects, process)["COCOA_CALIBRATOR"] == "/calibrators/made.json"
    assert "COCOA_CALIBRATOR" not in environment(objects, "similarity")


def test_a_scorer_that_there_is_takes_the_place_of_the_similarity_worker():
    objects = render(ROOT / "helm/examples/tei.yaml")
    assert names(objects, "Deployment") == {"cocoa-gateway", "cocoa-redis"}
    settings = environment(objects, "gateway")
    assert settings["COCOA_SIMILARITY__API"] == "tei"
    # The gateway has nothing that could load an NLI model.
    assert settings["COCOA_NLI__MODEL"] == ""
