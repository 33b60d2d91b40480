"""What names a checkpoint's weights."""

import json
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file

from models.checkpoints import load_whole, multiplies_quickly, revision_of
from models.errors import ModelNotLoaded
from models.pretrained import AutoModelForCausalLM
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
    (tmp_path / "one" / "z.safetensors").touch()
    one, copy, other = [revision_of(model, str(tmp_path / n)) for n in ("one", "copy", "other")]

    assert len({one, copy, other}) == 3
    (tmp_path / "one" / "z.safetensors").unlink()
    assert revision_of(model, str(tmp_path / "one")) == copy


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


@pytest.mark.parametrize(
    "error",
    [
        ImportError("Loading a GPTQ model requires optimum\nand more"),
        NotImplementedError("HIGGS quantization requires optimum"),
        RuntimeError("GPU is required, requires optimum"),
        ValueError("a device is missing, requires optimum"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_a_quantised_checkpoint_needs_is_told_with_the_ways_around_it(error):
    class Quantised:
        @classmethod
        def from_pretrained(cls, path, **options):
            raise error

    with pytest.raises(ModelNotLoaded, match="requires optimum; or name the safetensors") as found:
        load_whole(Quantised, "org/model", "causal")
    assert "COCOA_GENERATION__URL" in str(found.value)


def scaled(dtype, name=None, ending="proj.weight"):
    """Weights of products in this type of numbers, each beside its scale if that has a name."""

    def change(tensors):
        changed = {}
        for key, weight in tensors.items():
            changed[key] = weight
            if key.endswith(ending):
                changed[key] = (weight / weight.abs().max() * 100).to(dtype)
                if name:
                    changed[key.removesuffix("weight") + name] = torch.ones(1)
        return changed

    return change


def same(tensors):
    return tensors


FLOAT8 = torch.float8_e4m3fn
# id: what becomes of the weights, the quantization_config, what the refusal names
QUANTISED = {
    "by an unknown method": (same, {"quant_method": "mine"}, "'mine'"),
    "float8, its scales beside it": (
        scaled(FLOAT8, "weight_scale"),
        None,
        "down_proj.weight_scale",
    ),
    "float8, scales to divide by": (scaled(FLOAT8, "weight_scale_inv"), None, "weight_scale_inv"),
    "float8, its scales lost": (scaled(FLOAT8), None, "down_proj.weight of F8_E4M3"),
    "integers, their scales lost": (scaled(torch.int8), None, "down_proj.weight of I8"),
    "integers, zero points beside": (scaled(torch.uint8, "zero_point"), None, "zero_point"),
    "floats with scales": (scaled(torch.float32, "input_scale"), None, "down_proj.input_scale"),
    "floats with others": (scaled(torch.float32, "absmax"), None, "down_proj.absmax"),
    "truth values": (scaled(torch.bool), None, "down_proj.weight of BOOL"),
    "floats, scales beside their modules": (
        lambda tensors: tensors | {"model.layers.0.self_attn.q_proj_scale": torch.ones(1)},
        None,
        "q_proj_scale",
    ),
}
# Experts that are one tensor have no name that ends in "weight".
for ending in (None, "_scale", "_weight_scale", "_scale_inv", "_zero_point"):
    change = scaled(FLOAT8, ending, "experts.down_proj")
    named = f"experts.down_proj{ending or ' of F8_E4M3'}"
    QUANTISED[f"experts, {ending}"] = (change, None, named)


@pytest.mark.parametrize(("change", "method", "named"), QUANTISED.values(), ids=QUANTISED)
def test_weights_that_nobody_scales_are_refused(tmp_path, change, method, named):
    random_model("experts" if "experts" in named else "llama").save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    save_file(change(load_file(file)), file, {"format": "pt"})
    if method:
        config = json.loads((tmp_path / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(config | {"quantization_config": method}))

    with pytest.raises(ModelNotLoaded, match=f"is quantised by .*{named}, which transformers does"):
        load_whole(AutoModelForCausalLM, str(tmp_path), "causal")


def test_masks_and_positions_that_older_checkpoints_hold_are_no_weights(tmp_path):
    random_model("gpt2").save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    extra = {"transformer.h.0.attn.bias": torch.ones(1, 1, 8, 8, dtype=torch.uint8)}
    extra["transformer.position_ids"] = torch.arange(8)[None]
    save_file(load_file(file) | extra, file, {"format": "pt"})

    assert load_whole(AutoModelForCausalLM, str(tmp_path), "causal")
