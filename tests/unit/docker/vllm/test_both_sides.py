"""What the plugin writes is what `workers.openai` reads: they share a page, and no code."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cocoa_vllm import columns as written
from cocoa_vllm.reader import Row
from torch.distributions import Categorical

from models.probes.card import STATISTIC, read_card
from tests.tiny_probes import saved
from tests.unit.docker.vllm.fakes import D, V, reader, sampled
from workers.openai import logprobs, trial
from workers.openai.found import OpenAIServer
from workers.openai.profiles import PROFILES
from workers.openai.prompts import ModelCalls
from workers.openai.replies import read_choices
from workers.openai.requests import Prompt
from workers.protocol import ProbeInfo
from workers.remote.standing import ChangedModel

pytestmark = pytest.mark.anyio
CAN = OpenAIServer("fake", PROFILES["vllm"], kind="vllm", raw_greedy=True)
# As many as vLLM tells where nobody says otherwise.
TOP = 20
REVISION = "4bdbf27c164c" + "0" * 28


class Worker(ModelCalls):
    """A plugin's reader behind an adapter's calls, one token a reply."""

    def __init__(self, of):
        super().__init__(None, replace(CAN))
        self.of = of
        self.logits = torch.randn(1, V)

    async def post(self, path, body, **_):
        """A completion of one token in the mode that the body asks for."""
        return self.reply(body["vllm_xargs"][written.ARGUMENT], body["logprobs"])

    def reply(self, mode, top):
        tensors = sampled(self.logits, TOP)
        states = [torch.ones(1, D)] * len(self.of.layers)
        step = self.of.step([Row(0, "a", mode, 0, 0)], states)
        self.of.write(step, written.entropies(self.logits, step.indices), tensors)
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
    both = ("inconsistency", "semantic_entropy")
    return [saved(tmp_path, target, revision=REVISION) for target in both]


def known(folders):
    """The probes of a deployment, by statistic."""
    cards = [read_card(Path(folder) / "card.json") for folder in folders]
    return {STATISTIC[card.target]: ProbeInfo.of(card) for card in cards}


async def bound(worker, folders):
    """The server of a worker as its trial finds it, of which a deployment knows the probes."""
    columns = worker.server.columns = await trial.columns_of(worker, Prompt(ids=(1,)))
    probes = known(folders)
    worker.server.probes = {name: probes[name] for name in columns.places(probes)}
    return worker.server


def test_constants_are_the_same():
    assert logprobs.FIRST_ID == written.FIRST_ID
    assert logprobs.FORMAT == written.FORMAT
    obstacles = (written.NO_PROBE, written.NO_SUPPORT, written.SPECULATIVE)
    assert set(logprobs.NO_LIGHT) == {
        *(written.READY, *obstacles),
        *(written.PARALLEL, written.OTHER_LOGPROBS),
    }


async def test_the_adapter_reads_the_identity_that_the_plugin_writes(folders):
    of = reader(*folders, revision=REVISION)
    server = await bound(Worker(of), folders)
    assert server.columns.mark == of.mark
    assert server.columns.revision == REVISION[:12]
    assert not server.columns.no_light
    assert server.probes == known(folders)


@pytest.mark.parametrize("obstacle", range(1, 6))
async def test_the_adapter_understands_why_there_is_no_light(obstacle, folders):
    server = await bound(Worker(reader(*folders, obstacle=obstacle)), folders)
    assert server.columns.no_light == logprobs.NO_LIGHT[obstacle]
    assert (server.columns.revision, server.probes) == ("100000000000", {})


@pytest.mark.parametrize("statistics", [set(), {"predicted_dissimilarity"}])
async def test_the_adapter_asks_for_as_many_columns_as_it_reads(folders, statistics):
    worker = Worker(reader(*folders, revision=REVISION))
    server = await bound(worker, folders)
    probes = {name: server.probes[name] for name in statistics}
    mode, top = server.columns.mode(reads_probes=bool(probes))
    assert written.complaint({written.ARGUMENT: mode}, top) is None
    (choice,) = read_choices([worker.reply(mode, top)], 1)
    server.columns.check_mark(choice.tops)
    with pytest.raises(ChangedModel):
        replace(server.columns, mark=1).check_mark(choice.tops)
    exact = Categorical(logits=worker.logits).entropy().tolist()
    assert logprobs.column(choice.tops, logprobs.ENTROPY).tolist() == pytest.approx(exact, abs=1e-5)
    readings = server.columns.readings(choice.tops, probes)
    assert readings.keys() == statistics
    for reading in readings.values():
        assert 0 <= reading.value <= 1
        assert 0 <= reading.distance_percentile <= 100
