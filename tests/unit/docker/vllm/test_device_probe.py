"""A probe in vLLM's worker reads what the same probe reads in process."""

import json
import math
from dataclasses import replace
from pathlib import Path

import cocoa_vllm.probe as plugin
import numpy as np
import pytest
import torch
from cocoa_vllm.probe import Answers, DeviceProbe, Model, ProbeRefused, interpolated

from cocoa_lab.probes.from_collection import save
from models.probes import card as in_process
from models.probes.card import TOKEN_FEATURES, joined
from models.probes.probe import ProbeNetwork, TrainedProbe
from tests.tiny_probes import random_probe, saved

CPU = torch.device("cpu")
MODEL = Model("1", 8, 4)
RNG = np.random.default_rng(1)


def answers(count, *, spread=1.0):
    return Answers(
        means=torch.from_numpy(RNG.normal(0, spread, (count, 2, 8))).float(),
        sp=torch.from_numpy(RNG.gamma(2, 2, count)).float(),
        mte=torch.from_numpy(RNG.gamma(1, 1, count)).float(),
        length=torch.from_numpy(RNG.integers(1, 40, count)).float(),
    )


def features_in_process(read, names):
    rows = []
    for i in range(len(read.length)):
        rows.append(
            joined(
                read.means[i, 1].numpy(),
                names,
                sp=read.sp[i].item(),
                mte=read.mte[i].item(),
                num_tokens=int(read.length[i]),
            )
        )
    return np.stack(rows)


@pytest.mark.parametrize("target", ["inconsistency", "semantic_entropy"])
@pytest.mark.parametrize("names", [TOKEN_FEATURES, ("log_length", "sp"), ()])
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_readings_are_those_of_the_probe_in_process(tmp_path, target, names, spread):
    folder = Path(saved(tmp_path, target, token_features=names))
    read = answers(50, spread=spread)
    expected = TrainedProbe.open(folder).read(features_in_process(read, names))
    found = DeviceProbe.open(folder, MODEL, CPU)(read, 1)
    values = [[reading.value, reading.distance_percentile] for reading in expected]
    torch.testing.assert_close(found, torch.tensor(values), atol=1e-4, rtol=1e-5)


def test_the_papers_regression_is_clamped(tmp_path):
    probe = random_probe(token_features=())
    network = ProbeNetwork("paper", "inconsistency", 8)
    with torch.no_grad():
        network.layers[-1].weight.mul_(20)
    card = replace(probe.card, architecture="paper")
    save(TrainedProbe(card, network, probe.distance), tmp_path)
    read = answers(50)
    found = DeviceProbe.open(tmp_path, MODEL, CPU)(read, 1)[:, 0]
    expected = TrainedProbe.open(tmp_path).values(read.means[:, 1].numpy())
    torch.testing.assert_close(found, torch.from_numpy(expected), atol=1e-4, rtol=1e-4)
    assert {0.0, 1.0} <= set(found.tolist())


def test_a_request_that_was_lost_has_no_reading(tmp_path):
    read = answers(2)
    read.means[1] = math.nan
    found = DeviceProbe.open(Path(saved(tmp_path)), MODEL, CPU)(read, 0)
    assert found[0].isfinite().all()
    assert found[1].isnan().all()


def test_both_sides_agree_on_what_a_card_says():
    assert plugin.FORMAT == in_process.FORMAT
    assert plugin.CONVENTION == in_process.CONVENTION
    assert plugin.POOLING == in_process.POOLING
    assert plugin.TOKEN_FEATURES == TOKEN_FEATURES


def test_interpolation_is_numpys_with_ties_and_ends():
    points = np.array([0.0, 1.0, 1.0, 1.0, 2.0, 5.0])
    values = np.array([-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 5.0, 6.0])
    found = interpolated(torch.from_numpy(values), torch.from_numpy(points))
    np.testing.assert_allclose(found, np.interp(values, points, np.arange(6.0)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": 1}, "no card of format 2"),
        ({"sha256": "0" * 64}, "not the file that its card describes"),
        ({"dimension": 9}, "its dimension is 9, this model's 8"),
        ({"revision": "2"}, "its revision is '2', this model's '1'"),
        ({"convention": "another"}, "its convention"),
        ({"pooling": "another"}, "its pooling"),
        ({"token_features": ["age"]}, "it reads 'age'"),
        ({"layer": 4}, "layers 1 to 3"),
        ({"layer": 0}, "layers 1 to 3"),
    ],
)
def test_a_probe_of_something_else_is_refused(tmp_path, changes, words):
    folder = Path(saved(tmp_path))
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps(card | changes))
    with pytest.raises(ProbeRefused, match=words):
        DeviceProbe.open(folder, MODEL, CPU)


def test_a_folder_without_a_probe_is_refused(tmp_path):
    with pytest.raises(ProbeRefused, match="FileNotFoundError"):
        DeviceProbe.open(tmp_path / "nothing", MODEL, CPU)


@pytest.mark.parametrize("revision", ["", "1"])
def test_a_model_whose_revision_nobody_knows_takes_any_probe_that_fits(tmp_path, revision):
    folder = Path(saved(tmp_path))
    model = Model(revision, 8, 4)
    assert DeviceProbe.open(folder, model, CPU).layer == 2
