"""Clients of other languages and makers, unmodified, in processes of their own."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.binaries import binary, missing

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
INSTALLED = Path(os.environ.get("COCOA_TEST_CLIENTS") or CACHE / "cocoa-serve" / "clients")
WITHIN_S = 300

# The first test waits for the service, too.
pytestmark = pytest.mark.timeout(900)


def printed(command, **environment):
    """What a program printed as JSON."""
    done = subprocess.run(
        command,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def is_current(pins, copy):
    """Whether what is installed is what is pinned."""
    installed = INSTALLED / copy
    return installed.exists() and installed.read_text() == (HERE / pins).read_text()


def told_to_python(program, url):
    if not is_current("requirements.txt", "requirements.txt"):
        missing("the clients for Python are not installed: run tests/clients/install")
    command = [INSTALLED / "python/bin/python", "-W", "ignore", HERE / "programs" / program, url]
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGSMITH_TRACING": "false"}
    return printed(command, **offline, PYTHONPATH=str(HERE.parents[1] / "clients/python"))


def told_to_javascript(program, url):
    node = binary("node")
    if not is_current("package.json", "installed.json"):
        missing("the clients for JavaScript are not installed: run tests/clients/install")
    modules = str(INSTALLED / "node_modules")
    return printed([node, HERE / "programs" / program, url], NODE_PATH=modules)


def is_full(uncertainty):
    provenance = uncertainty["provenance"]
    return provenance["mode"] == "full" and provenance["num_samples"] == 4


def is_light(uncertainty):
    is_light = uncertainty["provenance"]["mode"] == "light"
    return is_light and uncertainty["estimator"] == "cocoa_sp_light"


def test_openais_client_for_javascript(url):
    told = told_to_javascript("openai_javascript.cjs", url)

    assert "Paris" in told["text"]
    assert is_full(told["uncertainty"])
    assert told["uncertainty"]["value"] == told["uncertainty"]["scores"]["cocoa_sp"]
    assert told["id"] == told["request_id"]
    assert {"cocoa", "cocoa:light"} <= set(told["models"])
    assert told["streamed"]["text"] == told["text"]
    assert told["streamed"]["uncertainty"]["scores"] == told["uncertainty"]["scores"]
    assert "Paris" in told["light"]["text"]
    assert is_light(told["light"]["uncertainty"])
    named = {"code": "invalid_request", "param": "store"}
    assert told["refused"] == {"type": "UnprocessableEntityError", "status": 422} | named
    named = {"code": "model_not_found", "param": "model"}
    assert told["unknown"] == {"type": "NotFoundError", "status": 404} | named
    assert (told["late"]["status"], told["late"]["code"]) == (504, "deadline_exceeded")


def test_the_ai_sdk(url):
    told = told_to_javascript("ai_sdk.cjs", url)

    for endpoint in ("responses", "stored", "chat"):
        assert "Paris" in told[endpoint]["text"]
        assert told[endpoint]["streamed"] == told[endpoint]["text"]
        assert told[endpoint]["parsed"]["city"] in ("Paris", "Rome")
        assert told[endpoint]["usage"]["outputTokens"] > 0
        body = told[endpoint]["body"]
        uncertainty = body.get("uncertainty") or body["choices"][0]["uncertainty"]
        assert 0 <= uncertainty["value"] < 1
        assert told[endpoint]["last"]["uncertainty"]["value"] == uncertainty["value"]
    for endpoint in ("responses", "chat"):
        assert "chat template" in told[endpoint]["again"], "it takes one message"
    assert "store false" in told["stored"]["again"], "by default it refers to what it sent"


def test_langchains_chat_model(url):
    told = told_to_python("langchain_chat.py", url)

    assert "Paris" in told["text"]
    assert told["finish_reason"] == "stop"
    assert told["streamed"] == told["text"]
    assert told["refused"] == "messages.0"
    assert "".join(token["token"] for token in told["logprobs"]["content"]) == told["text"]
    assert is_full(told["uncertainty"])
    for name in ("streamed", "awaited", "awaited_stream"):
        assert told[f"{name}_uncertainty"]["scores"] == told["uncertainty"]["scores"]
    for name in ("uncertainty", "streamed_uncertainty"):
        kinds = [unit["kind"] for unit in told["structured"][name]["units"]]
        assert kinds == ["answer", "field"]
    assert told["usage"]["output_tokens"] == told["streamed_usage"]["output_tokens"] > 0
    assert is_light(told["light"])
    assert told["drawn"]["provenance"]["strategy"] == "sample"
    by_responses = told["responses"]
    assert by_responses["text"] == by_responses["streamed"] == told["text"]
    assert by_responses["parsed"] == "Paris"


def test_llama_indexs_model(url):
    told = told_to_python("llama_index_chat.py", url)

    assert "Paris" in told["text"]
    assert is_full(told["uncertainty"])
    assert told["streamed"] == told["text"]
    assert told["streamed_uncertainty"]["scores"] == told["uncertainty"]["scores"]
    assert told["drawn"]["provenance"]["strategy"] == "sample", "its temperature is 0.1 by default"
    assert is_light(told["light"])
    assert "Paris" in told["continued"]
    assert told["continued_in_chunks"] == told["continued"]


def test_litellm(url):
    told = told_to_python("litellm_chat.py", url)

    assert "Paris" in told["text"]
    assert is_full(told["uncertainty"])
    assert told["usage"]["completion_tokens"] > 0
    assert told["streamed"] == told["text"]
    assert is_light(told["light"])
    assert "Paris" in told["continued"]
    assert told["unknown"] == "NotFoundError"
    assert told["fallen_back"] == "from the other"
    assert "chat template" in told["echoed"], "the template takes one message; no field is refused"
