"""The networks' outputs, whatever they are fed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.probes.probe import ProbeNetwork


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("target", ["inconsistency", "semantic_entropy"])
@pytest.mark.parametrize("architecture", ["small", "paper"])
@given(scale=st.sampled_from([0.0, 1.0, 1e3, 1e6]), seed=st.integers(0, 100))
@settings(max_examples=10, deadline=None)
def test_outputs_lie_between_0_and_1(architecture, target, scale, seed):
    network = ProbeNetwork(architecture, target, 4).eval()
    features = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed)) * scale
    with torch.inference_mode():
        values = network.values(features)

    assert ((values >= 0) & (values <= 1)).all()
