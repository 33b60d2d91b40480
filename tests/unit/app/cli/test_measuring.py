"""`cocoa size` and its `--measure` against a service that lives."""

import asyncio
import itertools
import json
import re

import pytest
from typer.testing import CliRunner

from app.cli import app, measuring
from app.cli.measuring import NotMeasured, measure, work_of
from app.cli.sizing import Traffic, rows_in
from app.settings import Settings
from tests.chaos.listening import listening
from tests.chaos.redis_server import free_port

SMALL = Traffic(1.0, {"full": 1.0}, num_samples=2, prompt_tokens=8, answer_tokens=4)


def run(*arguments):
    return CliRunner().invoke(app, ["size", *arguments])


@pytest.mark.anyio
@pytest.mark.parametrize("placement", ["embedded", "remote"])
async def test_a_service_is_measured_to_have_rows_that_the_arithmetic_reads(
    placement, monkeypatch, tmp_path
):
    seconds = itertools.count(1.0)
    asked = []

    async def total(process, metric):
        """A clock in place of processors, whose seconds come in hundredths."""
        if "gateway" in process.parts:  # the workers of this service have doors of their own
            asked.append(await real(process, metric))
        return next(seconds)

    real = measuring._total
    monkeypatch.setattr(measuring, "_total", total)
    monkeypatch.setattr(measuring, "_ROUNDS", 1)
    async with listening(placement=placement) as (service, port, gate):
        gate.opened.set()
        settings, url = service.app.state.settings, f"http://127.0.0.1:{port}"
        text = await measure(settings, (url, url), None, SMALL, seconds=0.001, num_clients=1)
    assert all(value > 0 for value in asked), "the product's own metrics"
    rows = rows_in(text)
    assert set(rows) == {"gateway", "generation", "similarity"}
    [row] = rows["generation"].values()
    assert re.search(r"error [+-]\d+%", row.measured)
    assert ("only the sum" in row.measured) == (placement == "embedded")
    assert any(row.seconds.values() for named in rows.values() for row in named.values())
    file = tmp_path / "costs.toml"
    file.write_text(text)
    ran = await asyncio.to_thread(run, "--costs", str(file), "--values")
    assert json.loads(ran.output)["gateway"]["replicas"] >= 1


@pytest.mark.anyio
async def test_a_service_that_is_away_is_told():
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(NotMeasured, match="ConnectError"):
        await measure(Settings(), (url, url), None, SMALL, seconds=0.001, num_clients=1)
    ran = await asyncio.to_thread(run, "--measure", url)
    assert (ran.exit_code, "ConnectError" in ran.stderr) == (1, True)


def test_work_is_counted_from_a_response():
    response = {
        "cached": False,
        "text": "ab",
        "samples": [{"text": "ab"}, {"text": "abcdef"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 1, "sample_tokens": 4},
    }
    assert work_of(response) == {
        "request": 1,
        "sample": 2,
        "prompt_token": 7,
        "step": 3,  # six of ten characters, of five tokens
        "generated_token": 5,
        "pair": 2,
        "pair_token": 8,
    }
    assert work_of({"cached": True}) == {"cached_request": 1}


def test_the_command_tells_pods_bottleneck_savings_and_values():
    ran = run("--rate", "5", "--mix", "full:.8,light:.2", "--similarity", "stsb-roberta-large")
    assert ran.exit_code == 0, ran.output
    assert "Bottleneck: similarity." in ran.output
    assert "decodes 23 full requests at once" in ran.output
    assert "from the cache" in ran.output
    values = json.loads(ran.output.partition("Values for the chart:")[2])
    assert values["similarity"] == {"model": "cross-encoder/stsb-roberta-large"}
    assert values["similarityWorker"]["replicas"] > values["gateway"]["replicas"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mix", "full:.5"], "together 1"),
        (["--rate", "inf"], "finite"),
        (["--rate", "-1"], "--rate"),
        (["--similarity", "stsb-roberta-larg"], "did you mean stsb-roberta-large"),
        (["--measure", "localhost"], "should be a URL"),
        (["--costs", "README.md"], "no TOML"),
    ],
)
def test_what_cannot_be_sized_is_refused_in_words(arguments, message):
    ran = run(*arguments)
    assert ran.exit_code == 2
    assert message in ran.stderr
