"""Twenty steps of a tiny shape through the code that makes the shipped models."""

import json
import random
import stat
from collections import OrderedDict

import pytest
import torch
from safetensors.torch import load_file

from cocoa_lab.embedded import cross_encoder
from cocoa_lab.embedded.cross_encoder import CrossEncoderShape, train_cross_encoder
from cocoa_lab.embedded.language_model import (
    LanguageModelShape,
    answer_loss,
    encode,
    train_language_model,
)
from cocoa_lab.embedded.muon import orthogonalised
from cocoa_lab.embedded.pairs import make_pairs, sources
from cocoa_lab.embedded.tokenizer import (
    train_cross_encoder_tokenizer,
    train_language_model_tokenizer,
)
from cocoa_lab.embedded.training import Schedule, lr_scale, train
from cocoa_lab.embedded.weights import load_language_model, save, write_card

TINY_MODEL = LanguageModelShape(hidden=32, layers=2, heads=2, feed_forward=64)
TINY_JUDGE = CrossEncoderShape(hidden=32, layers=2, heads=2, feed_forward=64)


@pytest.fixture(scope="module")
def tokenizer():
    return train_language_model_tokenizer(size=600)


def test_twenty_steps_of_the_language_model_lower_its_loss(tokenizer):
    _, losses, _ = train_language_model(
        tokenizer, Schedule(steps=20), batch_size=16, shape=TINY_MODEL
    )
    assert len(losses) == 20
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])


def test_twenty_steps_of_the_cross_encoder_over_the_same_pairs_lower_its_loss(monkeypatch):
    pairs = make_pairs(sources("train"), 16, random.Random(0))
    monkeypatch.setattr(cross_encoder, "make_pairs", lambda *_: pairs)
    judge_tokenizer = train_cross_encoder_tokenizer(size=600)
    _, losses, _ = train_cross_encoder(
        judge_tokenizer, Schedule(steps=20), batch_size=16, shape=TINY_JUDGE
    )
    assert len(losses) == 20
    assert losses[-1] < losses[0] - 0.02


def test_a_training_cut_off_goes_on_to_the_weights_of_an_unbroken_one(tmp_path):
    torch.manual_seed(0)
    data = torch.randn(8, 4, 6)

    def losses_of(step):
        yield model(data[step]).square().mean()

    # Named as in a transformer, so that Muon has its block and AdamW the rest.
    block = torch.nn.Sequential(OrderedDict(layer=torch.nn.Linear(6, 6)))
    model = torch.nn.Sequential(OrderedDict(body=block, head=torch.nn.Linear(6, 1)))
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    schedule = Schedule(steps=8, checkpoint_every=4)
    losses = train(model, losses_of, schedule)
    whole = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def cut_off(step):
        if step == 6:
            raise KeyboardInterrupt
        return losses_of(step)

    model.load_state_dict(start)
    with pytest.raises(KeyboardInterrupt):
        train(model, cut_off, schedule, tmp_path / "half.pt")
    model.load_state_dict(start)
    assert train(model, losses_of, schedule, tmp_path / "half.pt") == pytest.approx(losses)
    torch.testing.assert_close(dict(model.state_dict()), whole)


def test_the_loss_counts_the_answer_and_eos_alone(tokenizer):
    model, _, _ = train_language_model(tokenizer, Schedule(steps=1), batch_size=2, shape=TINY_MODEL)
    prompts, answers = ["What is 1 + 1?", "Calculate 1 + 1."], ["2", "The answer is 2."]
    short, long = encode(tokenizer, prompts, answers)
    apart = answer_loss(model, [short], 0) + answer_loss(model, [long], 0)
    together = answer_loss(model, [short, long], 0)
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-4)
    ids = torch.tensor([short.ids])
    logprobs = model(ids).logits.log_softmax(-1)[0]
    by_hand = -sum(logprobs[i - 1, short.ids[i]] for i in range(short.answer_start, len(short.ids)))
    torch.testing.assert_close(answer_loss(model, [short], 0), by_hand, rtol=1e-4, atol=1e-4)


def test_saved_weights_are_float16_on_disk_float32_in_memory_and_readable_by_all(
    tokenizer, tmp_path
):
    model, losses, _ = train_language_model(
        tokenizer, Schedule(steps=1), batch_size=2, shape=TINY_MODEL
    )
    save(model, tokenizer, tmp_path)
    write_card(tmp_path, {"loss": losses[0]})
    write_card(tmp_path, {"seed": 0})
    assert {t.dtype for t in load_file(tmp_path / "model.safetensors").values()} == {torch.float16}
    loaded, _ = load_language_model(tmp_path)
    assert {p.dtype for p in loaded.parameters()} == {torch.float32}
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o644}
    assert json.loads((tmp_path / "card.json").read_text()) == {"loss": losses[0], "seed": 0}


def test_the_learning_rate_rises_to_its_peak_and_falls_to_a_twentieth():
    schedule = Schedule(steps=1000, warmup_steps=100)
    scales = [lr_scale(step, schedule) for step in range(1000)]
    assert scales[0] == pytest.approx(0.01)
    assert max(scales) == pytest.approx(1.0)
    assert scales.index(max(scales)) in (99, 100)
    assert scales[-1] == pytest.approx(0.05, abs=1e-3)


@pytest.mark.parametrize("shape", [(16, 16), (16, 48), (48, 16)])
def test_an_orthogonalised_matrix_has_singular_values_near_one(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    singular = torch.linalg.svdvals(orthogonalised(matrix))
    assert orthogonalised(matrix).shape == shape
    assert float(singular.min()) > 0.4
    assert float(singular.max()) < 1.3
