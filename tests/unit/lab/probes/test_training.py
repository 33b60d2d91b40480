"""Probes on synthetic features: what they learn and choose; interrupted training continues."""

import numpy as np
import pytest
import torch

from cocoa_lab.probes.agreement import regression_metrics
from cocoa_lab.probes.layer_training import HYPERPARAMETERS, Hyperparameters
from cocoa_lab.probes.training import TrainingData, train

FAST = Hyperparameters(learning_rate=3e-4, weight_decay=0.01, batch_size=64, epochs=4, patience=5)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def data(num_rows=400, dimension=6, seed=0):
    """Layer 2 tells the target, layer 1 is noise."""
    rng = np.random.default_rng(seed)
    telling = rng.standard_normal((num_rows, dimension)).astype(np.float32)
    targets = 1 / (1 + np.exp(-2 * telling[:, 0]))
    noise = rng.standard_normal((num_rows, dimension)).astype(np.float32)
    return TrainingData([f"row-{i}" for i in range(num_rows)], {1: noise, 2: telling}, targets)


def test_the_layer_that_tells_the_target_is_chosen_and_learned():
    trained = train(data(), target="inconsistency", architecture="small", seed=0)

    assert trained.layer == 2
    assert trained.metrics["test"]["r2"] > 0.9
    assert trained.metrics["test"]["spearman"] > 0.95
    assert trained.sizes == {"training": 318, "validation": 44, "test": 38}
    predicted, true = trained.predictions
    assert trained.metrics["test"] == regression_metrics(predicted, true)


def test_the_best_validation_epoch_is_kept():
    told = []
    trained = train(
        data(),
        target="inconsistency",
        architecture="small",
        seed=0,
        hyperparameters=FAST,
        on_epoch=told.append,
    )

    numbers = [(epoch.layer, epoch.number) for epoch in told]
    assert numbers == [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (2, 3), (2, 4)]
    best = min(epoch.validation_loss for epoch in told if epoch.layer == 2)
    assert trained.metrics["validation"]["mse"] == pytest.approx(
        best, rel=0.02
    )  # weights are stored in float16


def test_training_ends_when_validation_stays_worse_for_the_patience():
    impatient = Hyperparameters(
        learning_rate=0.05, weight_decay=0, batch_size=16, epochs=50, patience=2
    )
    noise = data(num_rows=120)
    told = []
    train(
        TrainingData(noise.ids, {1: noise.features[1]}, noise.targets),
        target="inconsistency",
        architecture="small",
        seed=0,
        hyperparameters=impatient,
        on_epoch=told.append,
    )

    losses = [epoch.validation_loss for epoch in told]
    assert len(losses) < 50
    assert int(np.argmin(losses)) == len(losses) - 3


def test_high_semantic_entropy_is_a_class_above_the_split():
    rows = data()
    entropies = TrainingData(
        rows.ids, rows.features, np.where(rows.targets > 0.5, 2.0, 0.1) + 0.01 * rows.targets
    )
    trained = train(entropies, target="semantic_entropy", architecture="small", seed=0)

    assert 0.2 < trained.split < 2.0
    assert trained.metrics["test"]["auroc"] > 0.97
    assert set(np.unique(trained.predictions[1])) == {0.0, 1.0}


def test_the_papers_network_trains_with_warm_up_decay_and_clipping():
    few_steps = Hyperparameters(
        learning_rate=1e-3, weight_decay=0.1, batch_size=28, epochs=2, warmup_ratio=0.05, clip=1.0
    )
    rows = data(60)
    told = []
    train(
        TrainingData(rows.ids, {2: rows.features[2]}, rows.targets),
        target="inconsistency",
        architecture="paper",
        seed=0,
        hyperparameters=few_steps,
        on_epoch=told.append,
    )

    assert told[1].training_loss < told[0].training_loss
    assert HYPERPARAMETERS["paper"] == Hyperparameters(
        learning_rate=1e-5, weight_decay=0.1, batch_size=28, epochs=20, warmup_ratio=0.05, clip=1.0
    )


class Killed(Exception):
    pass


@pytest.mark.parametrize(
    "killed_after", [1, 4, 6], ids=["first epoch", "first layer's last", "second layer"]
)
def test_an_interrupted_training_goes_on_to_the_same_probe(tmp_path, killed_after):
    options = {
        "target": "inconsistency",
        "architecture": "small",
        "seed": 3,
        "hyperparameters": FAST,
    }
    whole = train(data(200), **options)
    told = []

    def killing(epoch):
        told.append(epoch)
        if len(told) == killed_after:
            raise Killed

    checkpoint = tmp_path / "training.pt"
    with pytest.raises(Killed):
        train(data(200), **options, checkpoint=checkpoint, on_epoch=killing)
    assert checkpoint.exists()
    resumed = train(data(200), **options, checkpoint=checkpoint)

    assert resumed.epochs == whole.epochs
    assert resumed.metrics == whole.metrics
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, resumed.network.state_dict()[name])
    assert not checkpoint.exists()


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    options = {"target": "inconsistency", "architecture": "small", "hyperparameters": FAST}
    checkpoint = tmp_path / "training.pt"

    def killing(epoch):
        raise Killed

    with pytest.raises(Killed):
        train(data(100), **options, seed=0, checkpoint=checkpoint, on_epoch=killing)
    with pytest.raises(ValueError, match="other data or settings"):
        train(data(101), **options, seed=0, checkpoint=checkpoint)


def test_training_leaves_the_random_state_of_the_process_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(data(100), target="inconsistency", architecture="small", seed=0, hyperparameters=FAST)

    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (data(20), "20 answers are too few"),
        (TrainingData(data().ids, data().features, np.full(400, 0.25)), "do not vary"),
    ],
    ids=["too few", "constant"],
)
def test_what_cannot_be_learned_from_is_refused(rows, reason):
    with pytest.raises(ValueError, match=reason):
        train(rows, target="inconsistency", architecture="small", seed=0)
