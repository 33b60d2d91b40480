"""The columns of a step: each row's own, by its mode."""

from pathlib import Path
from types import SimpleNamespace

import cocoa_vllm.columns as plugin
import pytest
import torch
from cocoa_vllm.columns import FIRST_ID, MISSING, MODES, NO_PROBE, NO_SUPPORT
from cocoa_vllm.reader import Row
from torch.distributions import Categorical

from models.probes.card import joined
from models.probes.probe import TrainedProbe
from tests.tiny_probes import saved
from tests.unit.docker.vllm.fakes import D, V, asking, reader, sampled


@pytest.fixture
def folders(tmp_path):
    return [saved(tmp_path, "inconsistency"), saved(tmp_path, "semantic_entropy", layer=1, seed=3)]


def columns(tensors, row):
    """Column by number, of one row."""
    ids, values = tensors.logprob_token_ids[row].tolist(), tensors.logprobs[row].tolist()
    pairs = zip(ids, values, strict=True)
    return {token - FIRST_ID: value for token, value in pairs if token >= FIRST_ID}


def written(of, rows, logits, states=None, num_logprobs=6):
    """What a step leaves of these rows, whose states are `states[:, :, place]`, a layer each."""
    tensors = sampled(logits, num_logprobs)
    step = of.step(rows, states)
    of.write(step, plugin.entropies(logits, step.indices), tensors)
    return tensors


def test_each_row_has_the_columns_of_its_mode_and_others_none(folders):
    of, logits = reader(*folders), torch.randn(5, V)
    rows = [Row(4, "d", "light", 0, 7), Row(0, "a", "entropy", 3, 0), Row(2, "c", "identity", 0, 5)]
    tensors = written(of, rows, logits, torch.randn(2, 8, D), num_logprobs=20)
    exact = Categorical(logits=logits).entropy().tolist()
    assert columns(tensors, 0).keys() == {0, 1}
    assert columns(tensors, 0)[1] == pytest.approx(exact[0], abs=1e-5)
    assert columns(tensors, 1) == columns(tensors, 3) == {}
    assert columns(tensors, 2).keys() == set(range(6 + 2 * 2))
    assert columns(tensors, 4).keys() == set(range(6))
    assert columns(tensors, 4)[1] == pytest.approx(exact[4], abs=1e-5)
    assert len({columns(tensors, row)[0] for row in (0, 2, 4)}) == 1


def test_readings_of_a_whole_answer_are_those_in_process(folders):
    of, num_tokens = reader(*folders), 5
    logits, states = torch.randn(num_tokens, 1, V), torch.randn(num_tokens, 2, 3, D)
    for step in range(num_tokens):
        tensors = written(of, [Row(0, "a", "light", step, 2)], logits[step], states[step])
    sp = -sum(logits[step, 0].log_softmax(-1).max().item() for step in range(num_tokens))
    mte = Categorical(logits=logits[:, 0]).entropy().mean().item()
    for i, (folder, layer) in enumerate(zip(folders, (1, 0), strict=True)):  # layers 2 and 1
        probe = TrainedProbe.open(Path(folder))
        mean = states[1:, layer, 2].mean(0).numpy()
        features = joined(mean, probe.card.token_features, sp=sp, mte=mte, num_tokens=num_tokens)
        (reading,) = probe.read(features[None])
        found = columns(tensors, 0)
        assert found[2 + 2 * i] == pytest.approx(reading.value, abs=1e-5)
        assert found[3 + 2 * i] == pytest.approx(reading.distance_percentile, abs=1e-3)


def test_identity_spells_what_was_loaded(folders):
    of, logits = reader(*folders), torch.randn(1, V)
    tensors = written(of, [Row(0, "a", "identity", 0, 0)], logits, num_logprobs=20)
    found = columns(tensors, 0)
    sha256s = [TrainedProbe.open(Path(folder)).card.sha256 for folder in folders]
    digits = "".join(f"{int(found[i]):06x}" for i in range(6, 10))
    assert [found[i] for i in range(1, 4)] == [2, 0, 2]
    assert digits == "".join(sha256[:12] for sha256 in sha256s)


def test_the_mark_changes_with_weights_precision_and_probes(folders):
    readers = [
        reader(*folders),
        reader(*reversed(folders)),
        reader(folders[0]),
        reader(),
        reader(*folders, precision="bfloat16"),
        reader(revision="2"),
    ]
    marks = []
    for of in readers:
        tensors = written(of, [Row(0, "a", "entropy", 0, 0)], torch.randn(1, V))
        marks.append(columns(tensors, 0)[0])
    assert len(set(marks)) == len(readers)


@pytest.mark.parametrize("obstacle", [NO_SUPPORT, NO_PROBE])
def test_where_there_is_no_light_its_requests_have_the_entropy_and_no_more(
    folders, obstacle, caplog
):
    of = reader(*(folders if obstacle == NO_SUPPORT else ()), obstacle=obstacle)
    logits = torch.randn(2, V)
    rows = [Row(0, "a", "light", 0, 0), Row(1, "b", "identity", 0, 1)]
    tensors = written(of, rows, logits, num_logprobs=8)
    assert columns(tensors, 0).keys() == {0, 1}
    assert [columns(tensors, 1)[i] for i in (2, 3)] == [obstacle, 0]
    assert ("no Light here, reason 2" in caplog.text) == (obstacle == NO_SUPPORT)


def test_what_is_no_number_travels_as_what_json_can_carry(folders):
    of, logits = reader(*folders), torch.randn(1, V)
    states = torch.full((2, 1, D), torch.inf)
    tensors = written(of, [Row(0, "a", "light", 0, 0)], logits, states)
    assert columns(tensors, 0)[2] == columns(tensors, 0)[3] == MISSING
    logits[0, 0] = torch.nan
    tensors = written(of, [Row(0, "b", "entropy", 0, 0)], logits)
    assert columns(tensors, 0)[1] == MISSING


def test_ended_requests_are_forgotten(folders):
    of = reader(*folders)
    new = [SimpleNamespace(req_id=name, sampling_params=asking("light")) for name in "ac"]
    of.learn(new)
    written(of, [Row(0, "a", "light", 0, 0)], torch.randn(1, V), torch.randn(2, 1, D))
    assert len(of.sums.kept) == 1
    of.forget({"a", "b"})
    assert len(of.sums.kept) == 0
    assert of.modes == {"c": "light"}


def test_no_step_waits_for_what_the_device_computes(folders):
    # A tensor without numbers refuses whatever would bring one of them to the host.
    device = torch.device("meta")
    of = reader(*folders, device=device)
    logits, states = torch.empty(5, V, device=device), torch.empty(2, 5, D, device=device)
    for number in range(3):
        tensors = SimpleNamespace(
            logprob_token_ids=torch.empty(5, 21, dtype=torch.int32, device=device),
            logprobs=torch.empty(5, 21, device=device),
        )
        step = of.step([Row(i, mode, mode, number, i) for i, mode in enumerate(MODES)], states)
        of.write(step, plugin.entropies(logits, step.indices), tensors)
    with pytest.raises(RuntimeError, match="meta"):
        tensors.logprobs.max().item()
