"""Light mode with the embedded model and its shipped probes.

Also `cocoa probe` as a program that is killed.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from app.settings import Settings
from cocoa_lab.datasets import load
from cocoa_lab.probes.agreement import spearman
from cocoa_lab.probes.collecting import CollectionSpec, collect
from cocoa_lab.probes.collection import features_of, read
from models.embedded import PROBES_DIR
from models.probes.card import read_card
from models.probes.probe import TrainedProbe
from models.records import GenerationRequest, SamplingParams
from tests.conftest import GENERATE
from tests.e2e.embedded_service import embedded_service
from workers.config import GeneratorConfig, SimilaritySettings

COCOA = str(Path(sys.executable).with_name("cocoa"))
COCOA_WITH_FAKES = [sys.executable, "-m", "tests.fakes.cocoa"]
SETTINGS = Settings(generation=GeneratorConfig(threads=1), similarity=SimilaritySettings(threads=1))
pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def client(anyio_backend):
    async with embedded_service(SETTINGS) as client:
        yield client


async def light(client, prompt, **body):
    response = await client.post(
        GENERATE, json={"prompt": prompt, "mode": "light", "max_new_tokens": 32} | body
    )
    assert response.status_code == 200, response.text
    return response.json()


async def test_the_shipped_probes_answer_and_tell_what_the_model_knows_from_what_it_does_not(
    client,
):
    known = await light(client, "What is the capital of France?")
    unknown = await light(client, "Which country is Pirot in?")

    assert (
        known["scores"]["inconsistency_light"]
        < 0.2
        < 0.6
        < unknown["scores"]["inconsistency_light"]
    )
    assert known["uncertainty"] < unknown["uncertainty"]
    card = read_card(PROBES_DIR / "inconsistency" / "card.json")
    probe = known["provenance"]["probe"]
    assert probe["id"] == card.sha256[:12]
    assert probe["training_set"] == card.training_set == "embedded_probe_prompts.jsonl"


async def test_features_in_serving_are_those_that_a_collection_stored(client, tmp_path):
    examples = load("testbed", limit=24, seed=3)
    await collect(
        CollectionSpec("testbed", examples, tmp_path, 4, 0, (2, 4)), SETTINGS, lambda: None
    )
    stored = read(tmp_path)
    generator = client.app.state.service.scorer.workers.generator
    requests = []
    for e in examples:
        sampling = SamplingParams(max_new_tokens=64)
        request = GenerationRequest(prompt=e.prompt, sampling=sampling, hidden_layers=(2, 4))
        requests.append(request)
    alone = [await generator.generate(request) for request in requests[:6]]
    together = await asyncio.gather(*map(generator.generate, requests))

    for i, generation in [*enumerate(alone), *enumerate(together)]:
        assert generation.answer.compared_text == stored.answers[i].text
        difference = np.abs(generation.answer_hidden_mean - stored.features[i]).max()
        assert difference <= 1e-5 * np.abs(stored.features[i]).max()


async def test_the_shipped_probe_ranks_answers_as_samples_do_and_knows_its_domain(tmp_path):
    examples = load("testbed", limit=150, seed=5)
    probe = TrainedProbe.open(PROBES_DIR / "inconsistency")
    await collect(
        CollectionSpec("testbed", examples, tmp_path, 10, 0, (probe.card.layer,)),
        SETTINGS,
        lambda: None,
    )
    stored = read(tmp_path)
    sampled = np.array([answer.scores["inconsistency"] for answer in stored.answers])

    readings = probe.read(
        features_of(stored, range(len(stored.answers)), 0, probe.card.token_features)
    )
    assert (
        spearman(np.array([reading.value for reading in readings]), sampled) > 0.55
    )  # .837 on the whole testbed
    assert np.mean([reading.out_of_domain for reading in readings]) < 0.1  # .024


def test_a_killed_collection_goes_on_and_becomes_a_probe(tmp_path):
    prompts = tmp_path / "prompts.jsonl"
    fields = ("id", "task", "prompt")
    examples = load("testbed", limit=90, seed=1)
    lines = [{name: getattr(example, name) for name in fields} for example in examples]
    prompts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    # The fake models keep it short; what is killed and goes on is the same.
    environment = os.environ | {
        "COCOA_GENERATION__ENGINE": "fake",
        "COCOA_SIMILARITY__NAME": "fake",
        "COCOA_NLI__MODEL": "",
    }

    def cocoa(*arguments):
        command = [*COCOA_WITH_FAKES, "probe", *map(str, arguments)]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=240
        )

    collection, rows = tmp_path / "collection", tmp_path / "collection" / "rows.jsonl"
    arguments = ["collect", "--prompts", str(prompts), "--out", str(collection)]
    process = subprocess.Popen(
        [*COCOA_WITH_FAKES, "probe", *arguments], env=environment, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not rows.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    cocoa(*arguments)
    assert [answer.id for answer in read(collection).answers] == [line["id"] for line in lines]
    trained = cocoa("train", collection, "--out", tmp_path / "probe", "--layer", "2")
    assert "probe" in trained.stdout
    assert TrainedProbe.open(tmp_path / "probe").card.layer == 2
    assert not (tmp_path / "probe" / "training.checkpoint.pt").exists()
    dataset = tmp_path / "labelled.jsonl"
    labelled = ""
    for i, line in enumerate(lines):
        labelled += json.dumps(line | {"id": f"new-{i}", "reference": "Paris"}) + "\n"
    dataset.write_text(labelled)
    told = cocoa(
        "evaluate", tmp_path / "probe", "--out", tmp_path / "results", "--dataset", dataset
    )
    assert "Light against full: inconsistency" in told.stdout
    assert (tmp_path / "results" / "results.json").exists()


def test_a_foreign_probe_is_an_error_of_one_line(tmp_path):
    result = subprocess.run(
        [COCOA, "probe", "evaluate", str(tmp_path), "--out", str(tmp_path / "results")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 2
    [line] = result.stderr.splitlines()
    assert line == f"no such file: {tmp_path}/card.json"
