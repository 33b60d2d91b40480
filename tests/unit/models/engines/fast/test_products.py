"""Products with packed weights are torch's, and meet a bounded set of numbers of rows."""

import platform

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from models.engines.fast import products
from models.engines.fast.products import keeps_both, may_pack, product_of
from tests.tiny_models import random_model

ROWS = {"one": (1,), "a step": (11, 1), "a prompt": (1, 300), "prompts": (3, 40), "none": (0, 1)}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("has_bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("keeps", [True, False], ids=["both ways", "laid out alone"])
def test_a_packed_product_is_the_product(rows, has_bias, keeps):
    torch.manual_seed(0)
    weight, states = torch.randn(520, 768) / 768**0.5, torch.randn(*rows, 768)
    bias = torch.randn(520) if has_bias else None
    linear = nn.Linear(768, 520, bias=has_bias, dtype=torch.float32)
    linear.load_state_dict({"weight": weight} | ({"bias": bias} if has_bias else {}))
    product = product_of(linear, packs=True, keeps=keeps)
    found = product(states)
    assert linear.weight.numel() == (weight.numel() if keeps else 0)
    wanted = F.linear(states.double(), weight.double(), None if bias is None else bias.double())
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-5)


def test_onednn_meets_few_numbers_of_rows_whatever_is_asked():
    """Each one that it meets costs memory that is not given back."""
    product, met = product_of(nn.Linear(64, 64, bias=False), packs=True), set()
    multiply = torch.ops.mkldnn._linear_pointwise

    def counted(states, *rest):
        met.add(len(states))
        return multiply(states, *rest)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch.ops.mkldnn, "_linear_pointwise", counted)
        for rows in (*range(1, 20), *range(20, 2000, 7)):
            assert product(torch.zeros(rows, 64)).shape == (rows, 64)
    assert met == set(products._BLOCKS[2:])


def test_bfloat16_is_laid_out_where_the_processor_multiplies_it(monkeypatch):
    model = random_model("llama").to(torch.bfloat16)
    for supported in (True, False):
        known = {"avx512_bf16": supported}
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda known=known: known)
        assert may_pack(model) == (supported and platform.machine() == "x86_64")


def test_small_models_are_held_both_ways(monkeypatch):
    model = random_model("llama")
    assert keeps_both(model)
    monkeypatch.setattr(products, "_BOTH_BYTES", 4 * model.num_parameters() - 1)
    assert not keeps_both(model)


@pytest.mark.skipif(not torch.cpu._is_avx512_bf16_supported(), reason="needs AVX512-BF16")
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_a_packed_product_of_bfloat16_differs_by_rounding_only(rows):
    torch.manual_seed(0)
    linear = nn.Linear(768, 520, dtype=torch.bfloat16)
    states = torch.randn(*rows, 768, dtype=torch.bfloat16)
    wanted = F.linear(states.double(), linear.weight.double(), linear.bias.double())
    found = product_of(linear, packs=True)(states)
    torch.testing.assert_close(found.double(), wanted, rtol=2**-7, atol=2**-8)


def test_models_of_another_precision_device_or_machine_are_not_packed(monkeypatch):
    model = random_model("llama")
    assert may_pack(model) == (platform.machine() == "x86_64")
    assert not may_pack(random_model("llama").to(torch.float16))
    assert not may_pack(random_model("llama").to("meta"))
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert not may_pack(model)
