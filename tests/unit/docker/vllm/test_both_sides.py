"""What the plugin writes is what `workers.openai` reads: they share a page, and no code."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from cocoa_vllm import columns as written
from cocoa_vllm import protocol
from cocoa_vllm.reader import Row

from models.engines.sampling import entropies
from models.probes.card import STATISTIC, read_card
from tests.tiny_probes import saved
from tests.unit.docker.vllm.fakes import D, V, domain, prompts_file, reader, sampled
from workers.openai import columns as read
from workers.openai.dialect import Dialect, Tongue
from workers.openai.found import OpenAIServer
from workers.openai.model_calls import ModelCalls
from workers.openai.profiles import PROFILES
from workers.openai.replies import ENTROPY_COLUMN, FIRST_SENTINEL, read_choices
from workers.openai.requests import Prompt
from workers.protocol import ProbeInfo
from workers.standing import ChangedModel

pytestmark = pytest.mark.anyio
TONGUE = Tongue(Dialect.of(PROFILES["vllm"]))
CAN = OpenAIServer("fake", TONGUE, logprobs=20, raw_greedy=True, completes=True, tokenizes=True)
# As many as vLLM tells where nobody says otherwise.
TOP = 20
REVISION = "4bdbf27c164c" + "0" * 28


class Worker(ModelCalls):
    """A plugin's reader behind an adapter's calls, one token a reply."""

    def __init__(self, of):
        super().__init__(None, CAN)
        self.of = of
        self.logits = torch.randn(1, V)

    async def post(self, path, body, **_):
        """A completion of one token in the mode that the body asks for."""
        return self.reply(body["vllm_xargs"][protocol.ARGUMENT], body["logprobs"])

    def reply(self, mode, top):
        tensors = sampled(self.logits, TOP)
        states = [torch.ones(1, D)] * len(self.of.layers)
        step = self.of.step([Row(0, "a", mode, 0, 0)], states)
        self.of.write(step, self.of.entropies(step, self.logits), tensors)
        ids = tensors.logprob_token_ids[0, : top + 1].tolist()
        values = tensors.logprobs[0, : top + 1].tolist()
        keys = [f"token_id:{token}" for token in ids]
        logprobs = {
            "tokens": keys[:1],
            "token_logprobs": values[:1],
            "top_logprobs": [dict(zip(keys, values, strict=True))],
        }
        choice = {"index": 0, "text": "x", "finish_reason": "length", "token_ids": ids[:1]}
        return {"choices": [choice | {"logprobs": logprobs}]}


@pytest.fixture
def folders(tmp_path):
    both = ("consistency", "semantic_entropy")
    return [saved(tmp_path, target, revision=REVISION) for target in both]


def known(folders):
    """The probes of a deployment, by statistic."""
    cards = [read_card(Path(folder) / "card.json") for folder in folders]
    return {STATISTIC[card.target]: ProbeInfo.of(card) for card in cards}


def bound(columns, folders, prompts=""):
    """A server with these columns of which a deployment knows the probes, and these prompts."""
    return read.with_known(replace(CAN, columns=columns), known(folders), prompts)


def test_constants_are_the_same():
    assert FIRST_SENTINEL == written.FIRST_ID
    assert read.FORMAT == protocol.FORMAT
    obstacles = (protocol.NO_PROBE, protocol.NO_SUPPORT, protocol.SPECULATIVE)
    assert set(read._NO_LIGHT) == {
        *(protocol.READY, *obstacles),
        *(protocol.PARALLEL, protocol.OTHER_LOGPROBS),
    }


async def test_the_adapter_reads_the_identity_that_the_plugin_writes(folders):
    of = reader(*folders, revision=REVISION)
    found = await read.read_columns(Worker(of), Prompt(ids=(1,)))
    assert found.mark == of._mark
    assert found.revision == REVISION[:12]
    assert not found.no_light
    assert bound(found, folders).probes == known(folders)


@pytest.mark.parametrize("obstacle", range(1, 6))
async def test_the_adapter_understands_why_there_is_no_light(obstacle, folders):
    of = reader(*folders, obstacle=obstacle, revision=REVISION)
    found = await read.read_columns(Worker(of), Prompt(ids=(1,)))
    assert found.no_light == read._NO_LIGHT[obstacle]
    assert bound(found, folders).probes == {}


def digest_of(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@pytest.mark.parametrize("kinds", [None, 1, 2])
@pytest.mark.parametrize("statistics", [set(), {"predicted_dissimilarity"}])
async def test_the_adapter_asks_for_as_many_columns_as_it_reads(
    folders, statistics, kinds, tmp_path
):
    prompts = sha256 = ""
    if kinds:
        prompts = prompts_file(tmp_path, kinds=kinds)
        sha256 = digest_of(prompts)
    worker = Worker(reader(*folders, prompts=prompts, revision=REVISION))
    told = await read.read_columns(worker, Prompt(ids=(1,)))
    server = bound(told, folders, sha256)
    assert server.prompts == sha256
    assert not bound(told, folders, "f" * 64).prompts
    mode, top = read.mode_of(server, frozenset(statistics))
    assert protocol.complaint({protocol.ARGUMENT: mode}, top) is None
    (choice,) = read_choices(worker.reply(mode, top), 1)
    assert read.is_foreign(choice, server) == (
        bool(kinds) and domain(kinds=kinds).is_foreign(np.ones(D))
    )
    if kinds:
        other = replace(server, prompts="0" * 64)
        with pytest.raises(ChangedModel):
            read.is_foreign(choice, other)
    exact = entropies(worker.logits.log_softmax(-1)).tolist()
    assert choice.column(ENTROPY_COLUMN).tolist() == pytest.approx(exact, abs=1e-5)
    readings = read.readings_of(choice, server, frozenset(statistics))
    assert readings.keys() == statistics
    for reading in readings.values():
        assert 0 <= reading.value <= 1
        assert 0 <= reading.distance_percentile <= 100
