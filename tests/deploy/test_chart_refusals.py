"""What the chart refuses to render, in plain words, all at once."""

import pytest

from tests.deploy.chart import VLLM, refusal, render

KEDA = {"enabled": True, "prometheusAddress": "http://prometheus:9090"}
SCRAPED = {"monitoring": {"podMonitor": {"enabled": True}}, "networkPolicy": {"enabled": False}}
KEYS = {"keys": {"file": "/keys/keys.toml"}}
SHARED = {"modelFiles": {"enabled": True}}
MUTUAL = {"worker": {"tlsCaFile": "/tls/ca.crt"}}


def vllm(**values):
    return VLLM | {"vllm": {"enabled": True, **values}}


def keda(**values):
    return SCRAPED | {"generationWorker": {"keda": KEDA | values}}


def volume(path):
    return [{"name": "files", "mountPath": path, "source": {"secret": {"secretName": "files"}}}]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"vllm": {"enabled": True}}, "generation.model must name the model that vLLM serves"),
        (VLLM | {"generation": {"url": "http://x", "model": "m"}}, "exclude each other"),
        ({"generation": {"api": "openai"}}, "generation.api is for what is at generation.url"),
        ({"escalation": {"url": "http://x"}}, "escalation is gone: ask another model yourself"),
        (
            {"probes": {"sentenceConsistency": "/p"}},
            "probes.sentenceConsistency is called probes.sentenceInconsistency now",
        ),
        ({"limits": {"maxTextSentences": 9}}, "limits.maxTextSentences is gone: no function"),
        ({"similarity": {"name": "jaccard"}}, "jaccard is the lab's, which the images do not have"),
        ({"similarity": {"name": "align"}}, "similarity.name align is gone: use nli"),
        ({"similarity": {"name": "llm"}}, "similarity.name llm is gone: use added"),
        ({"generation": {"url": "http://a,http://b"}}, "generation.url must be one URL"),
        ({"similarity": {"url": "http://a,http://b"}}, "similarity.url must be one URL"),
        ({"generation": {"routing": "own"}}, "generation.routing is gone: name one"),
        ({"limits": {"maxClaimTokens": 99}}, "limits.maxClaimTokens is gone: no model splits"),
        ({"similarity": {"api": "tei"}}, "similarity.api is for what is at similarity.url"),
        (vllm(probes=["/p/a", "/p/b", "/p/c"]), "maxLogprobs is 20, and 3 probes need 23"),
        (vllm(extraArgs=["--tensor-parallel-size=2"]), "has 1 GPUs, of which vLLM would use 2"),
        (
            vllm(resources={"limits": {"nvidia.com/gpu": 4}}),
            "has 4 GPUs, of which vLLM would use 1",
        ),
        (KEYS, "keys.file is /keys/keys.toml, and no volume of gateway is mounted there"),
        (KEYS | {"gateway": {"volumes": volume("/key")}}, "no volume of gateway"),
        (MUTUAL, "worker.tlsCaFile is /tls/ca.crt, and no volume of similarity"),
        ({"worker": {"apiKey": "a", "existingSecret": "b"}}, "worker.existingSecret exclude"),
        ({"worker": {"apiKeyFile": "key"}}, "generation.apiKeyFile"),
        (vllm() | {"generation": {"model": "m", "apiKey": "k"}}, "the key VLLM_API_KEY"),
        (SHARED, "modelFiles.accessModes is ReadWriteOnce, and 2 pods share the claim"),
        (keda(prometheusAddress=""), "generationWorker.keda.prometheusAddress is empty"),
        (keda(minReplicas=0), "no request would wake it"),
        (keda(minReplicas=5), "generationWorker.keda.minReplicas is above maxReplicas"),
        ({"generationWorker": {"keda": KEDA}}, "what monitoring.podMonitor scrapes"),
        ({"gateway": {"autoscaling": {"enabled": True, "minReplicas": 9}}}, "above maxReplicas"),
        ({"monitoring": {"podMonitor": {"enabled": True}}}, "shuts Prometheus out"),
        (SCRAPED | MUTUAL, "monitoring.podMonitor.tlsConfig"),
    ],
)
def test_what_would_start_and_not_serve_is_refused(values, message):
    assert message in refusal(values)


def test_all_reasons_are_told_at_once():
    told = refusal(KEYS | SHARED | {"similarity": {"api": "tei"}})
    assert told.count("\n- ") == 3


@pytest.mark.parametrize(
    "values",
    [
        vllm(probes=["/p/a", "/p/b", "/p/c"], maxLogprobs=23),
        vllm(
            extraArgs=["--tensor-parallel-size", "2", "-pp=2"],
            resources={"limits": {"nvidia.com/gpu": 4}},
        ),
        vllm(existingSecret="s") | {"generation": {"model": "m", "apiKey": "k"}},
        KEYS | {"gateway": {"volumes": volume("/keys/")}},
        {"modelFiles": {"enabled": True, "accessModes": ["ReadWriteMany"]}},
        {"modelFiles": {"enabled": True, "existingClaim": "of-one-node"}},
        {"modelFiles": {"enabled": True}, "similarity": {"url": "http://x"}},
        {"monitoring": {"serviceMonitor": {"enabled": True}}},
    ],
)
def test_what_serves_is_not(values):
    assert render(values)
