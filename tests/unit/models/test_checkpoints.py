"""What names a checkpoint's weights."""

from types import SimpleNamespace

import pytest
import torch

from models.checkpoints import load_whole, multiplies_quickly, revision_of
from models.errors import ModelNotLoaded
from tests.tiny_models import random_model


def test_a_model_without_commit_or_folder_has_its_revision_from_its_weights():
    revision = revision_of(random_model("llama"), "org/model")

    assert revision == revision_of(random_model("llama"), "elsewhere") != ""
    others = [random_model("llama", seed=1), random_model("qwen2"), random_model("llama").half()]
    assert len({revision, *(revision_of(other, "org/model") for other in others)}) == 4


@pytest.mark.parametrize(
    ("dtype", "device", "has", "expected"),
    [
        (torch.bfloat16, "cpu", {"avx512_f": True, "avx512_bf16": False}, False),
        (torch.bfloat16, "cpu", {"avx512_bf16": True}, True),
        (torch.bfloat16, "cpu", {"amx_bf16": True}, True),
        (torch.bfloat16, "cpu", {"neon": True, "bf16": True}, True),
        (torch.float16, "cpu", {"avx512_bf16": True}, False),
        (torch.float32, "cpu", {}, True),
        (torch.bfloat16, "cuda", {}, True),
    ],
)
def test_a_processor_multiplies_quickly_what_it_has_instructions_for(
    monkeypatch, dtype, device, has, expected
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: has)

    assert multiplies_quickly(dtype, torch.device(device)) == expected


def test_a_commit_names_the_weights_where_there_is_one():
    model = SimpleNamespace(config=SimpleNamespace(_commit_hash="abc"))
    assert revision_of(model, "org/model") == "abc"


def test_a_folder_has_its_revision_from_its_weight_files_wherever_it_lies(tmp_path):
    model = random_model("llama")
    for name in ("one", "copy"):
        model.save_pretrained(tmp_path / name)
    random_model("llama", seed=1).save_pretrained(tmp_path / "other")
    one, copy, other = [revision_of(model, str(tmp_path / n)) for n in ("one", "copy", "other")]

    assert one == copy != other


class CountsAndCalculates(torch.nn.Module):
    """A model whose first values mix what is counted with what has no storage."""

    def __init__(self):
        super().__init__()
        self.frequencies = torch.arange(4) * torch.ones(4)

    @classmethod
    def from_pretrained(cls, path, **options):
        with torch.device("meta"):
            return cls(), {"missing_keys": []}


def test_a_model_that_calculates_before_its_weights_are_there_is_loaded():
    model = load_whole(CountsAndCalculates, "org/model", "causal")

    assert model.frequencies.is_meta
    assert model.frequencies.shape == (4,)


def test_a_package_that_a_quantised_checkpoint_needs_is_told_with_the_ways_around_it():
    class Quantised:
        @classmethod
        def from_pretrained(cls, path, **options):
            raise ImportError("Loading a GPTQ model requires optimum\nand more")

    with pytest.raises(ModelNotLoaded, match="requires optimum; or name the safetensors") as error:
        load_whole(Quantised, "org/model", "causal")
    assert "COCOA_GENERATION__URL" in str(error.value)
