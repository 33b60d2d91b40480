"""Products with packed weights are those of torch, and only models that gain have them."""

import platform

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from models import products
from models.products import PackedLinear, Product, is_packable, pack_linears

on_x86 = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="weights are packed on x86 alone"
)
SHAPES = {"one row": (1,), "a step": (11,), "prompts": (3, 40), "pairs": (64, 30)}


class Own(nn.Linear):
    """A linear layer of somebody else's."""


def model_of(*layers):
    torch.manual_seed(0)
    return nn.Sequential(*layers)


@on_x86
@pytest.mark.parametrize("rows", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(("num_in", "num_out"), [(32, 16), (192, 512), (768, 1024)])
@pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "no bias"])
def test_a_packed_product_is_the_product(rows, num_in, num_out, has_bias):
    torch.manual_seed(0)
    weight, states = torch.randn(num_out, num_in), torch.randn(*rows, num_in)
    bias = torch.randn(num_out) if has_bias else None
    found = Product.of(weight, bias, packs=True)(states)
    wanted = F.linear(states.double(), weight.double(), None if bias is None else bias.double())
    assert found.shape == (*rows, num_out)
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-4)


@on_x86
def test_small_products_and_those_of_other_models_are_torchs_own():
    weight, bias, states = torch.randn(512, 192), torch.randn(512), torch.randn(2, 192)
    for packed in (True, False):
        found = Product.of(weight, bias, packs=packed)(states)
        assert torch.equal(found, F.linear(states, weight, bias))
    many = torch.randn(300, 192)
    assert torch.equal(Product.of(weight, bias, packs=False)(many), F.linear(many, weight, bias))


@on_x86
def test_a_model_is_packed_in_place_under_the_names_that_it_has():
    model = model_of(nn.Linear(256, 512), nn.GELU(), nn.Sequential(nn.Linear(512, 64, bias=False)))
    names, states = list(model.state_dict()), torch.randn(32, 256)
    with torch.inference_mode():
        wanted = model(states)
        pack_linears(model)
        pack_linears(model)  # once more changes nothing
        found = model(states)
    assert [type(one) for one in model] == [PackedLinear, nn.GELU, nn.Sequential]
    assert type(model[2][0]) is PackedLinear
    assert list(model.state_dict()) == names
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@on_x86
def test_layers_that_are_watched_or_of_another_kind_stay():
    model = model_of(nn.Linear(8, 8), Own(8, 8))
    seen = []
    model[0].register_forward_hook(lambda *arguments: seen.append("called"))
    pack_linears(model)
    model(torch.randn(1, 8))
    assert [type(one) for one in model] == [nn.Linear, Own]
    assert seen == ["called"]


def test_what_gains_nothing_or_would_be_too_large_twice_is_not_packed(monkeypatch):
    model = model_of(nn.Linear(8, 8))
    assert is_packable(model) == (platform.machine() == "x86_64")
    assert not is_packable(model_of(nn.Linear(8, 8)).to(torch.bfloat16))
    assert not is_packable(model_of(nn.Linear(8, 8, device="meta")))
    with monkeypatch.context() as patched:
        patched.setattr(products, "_MOST_BYTES", 4 * (8 * 8 + 8) - 1)
        assert not is_packable(model)
        pack_linears(model)
        assert type(model[0]) is nn.Linear
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert not is_packable(model)
