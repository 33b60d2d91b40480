"""Load testers ask the service: nothing is refused, and they count the tokens that it tells.

Only `make test-clients` runs this.
"""

import json
import os
import re
import subprocess

import httpx
import pytest

from models.embedded import LANGUAGE_MODELS
from tests.chaos.cocoa_process import cocoa_serve
from tests.frameworks.test_clients import PROGRAMS, python_of

TOKENIZER = LANGUAGE_MODELS["embedded"]
COUNTRIES = ("France", "Spain", "Italy", "Greece", "Norway", "Poland", "Ireland", "Hungary")
NUM_TOKENS = 12
COUNTED = re.compile(r'^cocoa_requests_total{route="/v1/[^"]*",status="(\d+)"} (.*)$', re.MULTILINE)
# With any text in these, even "0", aiperf takes a tokenizer's folder for the name of a repository.
ONLINE = {"HF_HUB_OFFLINE": "", "TRANSFORMERS_OFFLINE": ""}


@pytest.fixture(scope="module")
def serving():
    with cocoa_serve(COCOA_NLI__MODEL="") as process:
        process.wait_ready(300)
        yield process


def loaded(serving, name, *arguments):
    """Run a load tester's command; return how many requests it sent, once none was refused."""
    before = answered(serving)
    done = subprocess.run(
        [python_of(name), PROGRAMS / f"{name}.py", *map(str, arguments)],
        env=os.environ | ONLINE,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return answered(serving) - before


def answered(serving):
    """How many requests /v1 answered, none of them by a refusal.

    499 is that of a client that goes once it has all of a stream.
    """
    counts = COUNTED.findall(serving.get("/metrics").text)
    assert {status for status, _ in counts} <= {"200", "499"}
    return sum(float(count) for _, count in counts)


def told(serving, path, body):
    """The tokens that the service tells of a request: read and written."""
    whole = body | {"stream": False, "stream_options": None}
    response = httpx.post(serving.url + path, json=whole, timeout=60).raise_for_status()
    usage = response.json()["usage"]
    names = ("prompt_tokens", "completion_tokens")
    if path == "/v1/responses":
        names = ("input_tokens", "output_tokens")
    return tuple(usage[name] for name in names)


@pytest.mark.parametrize(
    ("path", "profile"),
    [
        ("/v1/chat/completions", "kind=synchronous"),
        ("/v1/completions", "kind=concurrent,streams=4"),
        ("/v1/responses", "kind=concurrent,streams=4"),
    ],
)
def test_guidellm_ends_without_an_error_and_counts_what_is_told(serving, tmp_path, path, profile):
    backend = f"kind=openai_http,target={serving.url},model=cocoa,request_format={path}"
    written = tmp_path / "report.json"
    asked = ["--backend", backend, "--profile", profile, "--disable-console"]
    asked += ["--constraint", "kind=max_requests,count=8"]
    asked += ["--data", f"kind=synthetic_text,prompt_tokens=24,output_tokens={NUM_TOKENS}"]
    asked += ["--tokenizer", f"kind=hf_auto,model={TOKENIZER}"]
    sent = loaded(serving, "guidellm_load", "run", *asked, "--output", f"kind=json,path={written}")
    [report] = json.loads(written.read_text())["benchmarks"]
    requests = report["requests"]
    assert (len(requests["successful"]), requests["errored"], sent) == (8, [], 8)
    for request in requests["successful"]:
        body = json.loads(request["request_args"])["body"]
        assert body["ignore_eos"]
        counted = (request["prompt_tokens"], request["output_tokens"])
        assert counted == told(serving, path, body)


@pytest.mark.parametrize("streamed", [(), ("--streaming",)], ids=["whole", "streamed"])
def test_aiperf_ends_without_an_error_and_counts_what_is_told(serving, tmp_path, streamed):
    questions = tmp_path / "questions.jsonl"
    texts = [f"What is the capital of {country}?" for country in COUNTRIES]
    questions.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    asked = ["--model", "cocoa", "--url", serving.url, "--tokenizer", TOKENIZER, "--ui", "none"]
    asked += ["--endpoint-type", "chat", "--concurrency", 4, "--request-count", len(texts)]
    asked += ["--input-file", questions, "--custom-dataset-type", "single_turn"]
    asked += ["--use-server-token-count", "--no-gpu-telemetry", "--artifact-dir", tmp_path]
    asked += ["--extra-inputs", "ignore_eos:true", *streamed]
    sent = loaded(serving, "aiperf_load", "profile", *asked)
    report = json.loads((tmp_path / "profile_export_aiperf.json").read_text())
    assert (report["request_count"]["avg"], report["error_summary"], sent) == (8, [], 8)
    path, body = "/v1/chat/completions", {"model": "cocoa"}
    usages = [
        told(serving, path, body | {"messages": [{"role": "user", "content": text}]})
        for text in texts
    ]
    read, written = map(sum, zip(*usages, strict=True))
    assert report["total_usage_prompt_tokens"]["avg"] == report["total_isl"]["avg"] == read
    assert report["total_usage_completion_tokens"]["avg"] == report["total_osl"]["avg"] == written
