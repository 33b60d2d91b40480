"""What the worker has loaded, spelt in numbers."""

import pytest
import torch
from cocoa_vllm.columns import identity_columns, mark_of
from cocoa_vllm.hooks import revision_of
from safetensors.torch import save_file

from models.checkpoints import revision_of as revision_in_process

SHA256 = "57da5ac5a9c1e642917774844eb454c2e6a5550d072a85a271f2e2932024029d"


@pytest.mark.parametrize("revision", ["4bdbf27c164c", "4bdbf27", ""])
def test_digits_are_spelt_six_a_column_and_filled_up(revision):
    columns = identity_columns(77, 0, revision, [SHA256])
    spelt = [f"{int(number):06x}" for number in columns[4:]]
    assert columns[:4] == [77, 2, 0, 1]
    assert "".join(spelt) == revision.ljust(12, "0") + SHA256[:12]
    assert torch.tensor(columns, dtype=torch.float32).tolist() == columns


def test_a_mark_changes_with_every_part_and_survives_single_precision():
    marks = [mark_of("a", "b"), mark_of("a", "c"), mark_of("d", "b"), mark_of("a", "b", "c")]
    assert len(set(marks)) == 4
    assert mark_of("a", "b") == marks[0]
    assert all(torch.tensor(mark, dtype=torch.float32).item() == mark for mark in marks)


def test_a_local_folder_has_the_revision_that_the_engine_in_process_tells(tmp_path):
    for name in ("model-2.safetensors", "model-1.safetensors"):
        save_file({"weight": torch.randn(3)}, tmp_path / name)
    assert revision_of(str(tmp_path), "commit") == revision_in_process(None, str(tmp_path))


@pytest.mark.parametrize("commit", [None, "c" * 40])
def test_a_hub_model_has_its_commit(commit):
    assert revision_of("organisation/model", commit) == (commit or "")


def test_the_hubs_cache_names_the_commit_in_its_path(tmp_path):
    folder = tmp_path / "models--organisation--model" / "snapshots" / ("a1" * 20)
    folder.mkdir(parents=True)
    assert revision_of(str(folder), None) == "a1" * 20


def test_a_folder_without_weights_has_no_revision(tmp_path):
    assert revision_of(str(tmp_path), "c" * 40) == ""
