"""Prompts of a calibration in vLLM's worker are those in process."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from cocoa_vllm.probe import DevicePrompts, Model, ProbeRefused

from models.embedded import CALIBRATOR_PATH
from models.probes.domain import PromptDomain, beside
from tests.unit.docker.vllm.fakes import CPU, domain, prompts_file

MODEL = Model("fake", "1", 8, 4)
EMBEDDED = beside(CALIBRATOR_PATH)


@pytest.mark.parametrize("spread", [1.0, 5.0, 100.0])
def test_percentiles_are_those_in_process(tmp_path, spread):
    states = np.random.default_rng(1).normal(4.5, spread, (60, 8)).astype(np.float32)
    found = DevicePrompts.open(Path(prompts_file(tmp_path)), MODEL, CPU)
    expected = [domain().percentile(state) for state in states]
    told = found.percentile(torch.from_numpy(states))
    torch.testing.assert_close(told, torch.tensor(expected).float(), atol=1e-3, rtol=1e-5)


def test_the_embedded_calibrators_prompts_are_read_as_in_process():
    content = EMBEDDED.read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    known = PromptDomain.load(EMBEDDED, sha256)
    size = len(known.kinds[0].mean)
    found = DevicePrompts.open(EMBEDDED, Model("embedded", "", size, 99), CPU)
    assert (found.layer, found.sha256, found.mark) == (known.layer, sha256, int(sha256[:6], 16))
    centres = np.stack([kind.mean for kind in known.kinds])
    assert found.percentile(torch.from_numpy(centres)).tolist() == [0.0] * len(known.kinds)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"layer": 4}, "it reads layer 4, the model has layers 1 to 3"),
        ({"layer": 0}, "layers 1 to 3"),
        ({"dimension": 9}, "its dimension is 9, this model's 8"),
        ({"kinds": 0}, "no kinds"),
    ],
)
def test_prompts_of_something_else_are_refused(tmp_path, changes, words):
    with pytest.raises(ProbeRefused, match=words):
        DevicePrompts.open(Path(prompts_file(tmp_path, **changes)), MODEL, CPU)


@pytest.mark.parametrize("content", [None, b"", b"no arrays"])
def test_a_file_without_prompts_is_refused(tmp_path, content):
    path = tmp_path / "made.prompts.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ProbeRefused, match="made"):
        DevicePrompts.open(path, MODEL, CPU)


def test_another_format_is_refused(tmp_path):
    path = Path(prompts_file(tmp_path))
    with np.load(path) as file:
        arrays = dict(file) | {"format": 2}
    np.savez(path, **arrays)
    with pytest.raises(ProbeRefused, match="its format is 2, not 1"):
        DevicePrompts.open(path, MODEL, CPU)
