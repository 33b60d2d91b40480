"""A real LiteLLM proxy before a made-up model, with this service as its guardrail.

Only `make test-doors` runs this.
"""

import json
import os
import secrets
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from tests.chaos.cocoa_process import cocoa_serve
from tests.chaos.redis_server import free_port
from tests.made_keys import bearer, keys_toml
from tests.worker_servers import listening

pytestmark = pytest.mark.anyio

LITELLM = Path(os.environ.get("COCOA_TEST_LITELLM", ".venv-doors/bin/litellm"))
WORDS = ["The ", "capital ", "of ", "France ", "is ", "Paris", ", ", "as ", "far ", "as ", "known."]
CHAT = [{"role": "user", "content": "What is the capital of France?"}]
# On a machine that may have much else to do.
START_S = 800
MASTER_KEY = f"sk-{secrets.token_urlsafe(32)}"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
CALL = {"id": "one", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
BOTH = ["pre_call", "post_call"]
# By name: when LiteLLM calls a guardrail, and what it is told of failures and of what passes.
GUARDRAILS = {
    "lenient": (BOTH, {}, {"threshold": 1e6}),
    "strict": (BOTH, {"streaming_end_of_stream_only": True}, {"threshold": -1e6}),
    "strict-in-between": (BOTH, {}, {"threshold": -1e6}),
    "forgetful": (["post_call"], {}, {"threshold": 1e6}),
    "forgetful-and-open": (["post_call"], {"fail_on_error": False}, {"threshold": 1e6}),
    "misspelt": (BOTH, {}, {"limit": 1.0}),
    "without-key": (BOTH, {"headers": {}}, {"threshold": 1e6}),
    "nobody": (BOTH, {"api_base": "http://127.0.0.1:1"}, {"threshold": 1e6}),
    "nobody-and-open": (
        BOTH,
        {"api_base": "http://127.0.0.1:1", "unreachable_fallback": "fail_open"},
        {"threshold": 1e6},
    ),
}


@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"


async def model(request):
    """A chat completion of the words, or where tools are shown of a call."""
    body = await request.json()
    about = {"id": "chatcmpl-1", "created": 1, "model": "made-up"}
    if body.get("stream"):
        return StreamingResponse(chunks(about), media_type="text/event-stream")
    message = {"role": "assistant", "content": "".join(WORDS)}
    if body.get("tools"):
        message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    choices = [choice | {"index": number} for number in range(body.get("n") or 1)]
    whole = {"object": "chat.completion", "choices": choices, "usage": usage}
    return JSONResponse(about | whole)


async def chunks(about):
    deltas = [({"role": "assistant", "content": word}, None) for word in WORDS]
    for delta, reason in [*deltas, ({}, "stop")]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        chunk = about | {"object": "chat.completion.chunk", "choices": [choice]}
        yield f"data: {json.dumps(chunk)}\n\n"
    yield "data: [DONE]\n\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys.toml"
    keys.write_text(keys_toml(proxy={}))
    with cocoa_serve(COCOA_GENERATION__ENGINE="fake", COCOA_KEYS__FILE=str(keys)) as running:
        running.wait_ready(START_S)
        yield running


def configured(model_url, service_url):
    """LiteLLM's configuration; JSON is YAML."""
    guardrails = []
    for name, (mode, other, params) in GUARDRAILS.items():
        told = {
            "guardrail": "generic_guardrail_api",
            "mode": mode,
            "api_base": service_url,
            "headers": bearer("proxy"),
            "additional_provider_specific_params": params,
        }
        guardrails.append({"guardrail_name": name, "litellm_params": told | other})
    upstream = {"model": "openai/made-up", "api_base": f"{model_url}/v1", "api_key": "none"}
    models = [{"model_name": "made-up", "litellm_params": upstream}]
    settings = {"num_retries": 0, "telemetry": False}
    return {"model_list": models, "guardrails": guardrails, "litellm_settings": settings}


@contextmanager
def proxy(folder, config):
    """URL of a running LiteLLM."""
    (folder / "config.yaml").write_text(json.dumps(config))
    port = free_port()
    command = [str(LITELLM), "--config", str(folder / "config.yaml"), "--port", str(port)]
    offline = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONPATH": ""}
    environment = os.environ | offline | {"LITELLM_MASTER_KEY": MASTER_KEY}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    url, give_up_at = f"http://127.0.0.1:{port}", time.monotonic() + START_S
    try:
        while time.monotonic() < give_up_at and process.poll() is None:
            with suppress(httpx.TransportError):
                if httpx.get(f"{url}/health/liveliness", timeout=5).status_code == 200:
                    break
            time.sleep(0.5)
        assert process.poll() is None, (folder / "log").read_text()
        yield url
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
async def litellm(anyio_backend, service, tmp_path_factory):
    app = Starlette(routes=[Route("/v1/chat/completions", model, methods=["POST"])])
    async with listening(app) as port:
        config = configured(f"http://127.0.0.1:{port}", service.url)
        headers = {"Authorization": f"Bearer {MASTER_KEY}"}
        with proxy(tmp_path_factory.mktemp("litellm"), config) as url:
            async with httpx.AsyncClient(base_url=url, headers=headers, timeout=120) as client:
                yield client


async def chat(litellm, guardrail, **fields):
    body = {"model": "made-up", "messages": CHAT, "guardrails": [guardrail]} | fields
    return await litellm.post("/v1/chat/completions", json=body)


async def test_an_answer_that_passes_comes_as_it_was(litellm, service):
    before = calls_of(service)
    response = await chat(litellm, "lenient")
    assert response.status_code == 200, response.text
    assert response.json()["choices"][0]["message"]["content"] == "".join(WORDS)
    assert calls_of(service) == before + 2, "one before the model is asked, and one after"


def calls_of(service):
    name = 'cocoa_requests_total{route="/beta/litellm_basic_guardrail_api",status="200"} '
    lines = [one for one in service.get("/metrics").text.splitlines() if one.startswith(name)]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


async def test_one_that_does_not_is_refused_with_the_reason(litellm):
    response = await chat(litellm, "strict")
    assert response.status_code == 400, response.text
    assert "is above the threshold of -1e+06" in response.json()["error"]["message"]


async def test_of_several_choices_each_is_judged(litellm):
    assert (await chat(litellm, "lenient", n=3)).status_code == 200
    assert (await chat(litellm, "strict", n=3)).status_code == 400


async def test_a_stream_that_passes_comes_whole(litellm):
    response = await chat(litellm, "lenient", stream=True)
    assert response.status_code == 200
    assert response.text.rstrip().endswith("[DONE]")
    assert "known." in response.text


@pytest.mark.parametrize("guardrail", ["strict", "strict-in-between"])
async def test_a_stream_that_does_not_ends_in_the_reason(litellm, guardrail):
    response = await chat(litellm, guardrail, stream=True)
    assert "is above the threshold of -1e+06" in response.text
    assert '"finish_reason":"stop"' not in response.text


PICTURE = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, IMAGE]}]
# With the status that LiteLLM tells of.
REFUSED = {
    "an unknown call": ("forgetful", CHAT, "404 Not Found"),
    "a misspelt parameter": ("misspelt", CHAT, "422 Unprocessable"),
    "no key": ("without-key", CHAT, "401 Unauthorized"),
    "an image": ("lenient", PICTURE, "422 Unprocessable"),
    "an image alone": ("lenient", [{"role": "user", "content": [IMAGE]}], "404 Not Found"),
    "nobody there": ("nobody", CHAT, "Cannot connect"),
}


@pytest.mark.parametrize(("guardrail", "messages", "told"), REFUSED.values(), ids=REFUSED)
async def test_what_cannot_be_judged_does_not_pass(litellm, guardrail, messages, told):
    response = await chat(litellm, guardrail, messages=messages)
    assert response.status_code == 500
    assert told in response.json()["error"]["message"]
    assert "".join(WORDS) not in response.text


async def test_calls_of_tools_do_not_pass(litellm):
    function = {"name": "weather", "parameters": {"type": "object", "properties": {}}}
    tools = [{"type": "function", "function": function}]
    response = await chat(litellm, "lenient", tools=tools)
    assert response.status_code == 500
    assert "422 Unprocessable" in response.json()["error"]["message"]


@pytest.mark.parametrize("guardrail", ["forgetful-and-open", "nobody-and-open"])
async def test_litellm_may_be_told_to_let_pass_what_cannot_be_judged(litellm, guardrail):
    response = await chat(litellm, guardrail)
    assert response.status_code == 200, response.text
