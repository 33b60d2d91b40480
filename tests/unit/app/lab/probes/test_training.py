"""Probes on synthetic features: what they learn and choose; interrupted training continues."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from app.lab.probes.agreement import classification_metrics, regression_metrics, spearman
from app.lab.probes.splits import best_split, split_of
from app.lab.probes.training import HYPERPARAMETERS, Examples, Hyperparameters, train
from models.probes.network import ProbeNetwork

FAST = Hyperparameters(learning_rate=3e-4, weight_decay=0.01, batch_size=64, epochs=4, patience=5)


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def examples(num_rows=400, dimension=6, seed=0):
    """Layer 2 tells the target, layer 1 is noise."""
    rng = np.random.default_rng(seed)
    telling = rng.standard_normal((num_rows, dimension)).astype(np.float32)
    targets = 1 / (1 + np.exp(-2 * telling[:, 0]))
    noise = rng.standard_normal((num_rows, dimension)).astype(np.float32)
    return Examples([f"row-{i}" for i in range(num_rows)], {1: noise, 2: telling}, targets)


def test_the_layer_that_tells_the_target_is_chosen_and_learned():
    trained = train(examples(), target="consistency", architecture="small", seed=0)

    assert trained.layer == 2
    assert trained.metrics["test"]["r2"] > 0.9
    assert trained.metrics["test"]["spearman"] > 0.95
    assert trained.sizes == {"training": 318, "validation": 44, "test": 38}
    predicted, true = trained.predictions
    assert trained.metrics["test"] == regression_metrics(predicted, true)


def test_the_best_validation_epoch_is_kept():
    told = []
    trained = train(
        examples(),
        target="consistency",
        architecture="small",
        seed=0,
        hyperparameters=FAST,
        on_epoch=told.append,
    )

    assert [(epoch.layer, epoch.number) for epoch in told] == [
        (layer, n) for layer in (1, 2) for n in range(1, 5)
    ]
    best = min(epoch.validation_loss for epoch in told if epoch.layer == 2)
    assert trained.metrics["validation"]["mse"] == pytest.approx(
        best, rel=0.02
    )  # weights are stored in float16


def test_training_ends_when_validation_stays_worse_for_the_patience():
    impatient = Hyperparameters(
        learning_rate=0.05, weight_decay=0, batch_size=16, epochs=50, patience=2
    )
    noise = examples(num_rows=120)
    told = []
    train(
        Examples(noise.ids, {1: noise.features[1]}, noise.targets),
        target="consistency",
        architecture="small",
        seed=0,
        hyperparameters=impatient,
        on_epoch=told.append,
    )

    losses = [epoch.validation_loss for epoch in told]
    assert len(losses) < 50
    assert int(np.argmin(losses)) == len(losses) - 3


def test_high_semantic_entropy_is_a_class_above_the_split():
    rows = examples()
    entropies = Examples(
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
    rows = examples(60)
    told = []
    train(
        Examples(rows.ids, {2: rows.features[2]}, rows.targets),
        target="consistency",
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
    options = {"target": "consistency", "architecture": "small", "seed": 3, "hyperparameters": FAST}
    whole = train(examples(200), **options)
    told = []

    def killing(epoch):
        told.append(epoch)
        if len(told) == killed_after:
            raise Killed

    checkpoint = tmp_path / "training.pt"
    with pytest.raises(Killed):
        train(examples(200), **options, checkpoint=checkpoint, on_epoch=killing)
    assert checkpoint.exists()
    resumed = train(examples(200), **options, checkpoint=checkpoint)

    assert resumed.epochs == whole.epochs
    assert resumed.metrics == whole.metrics
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, resumed.network.state_dict()[name])
    assert not checkpoint.exists()


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    options = {"target": "consistency", "architecture": "small", "hyperparameters": FAST}
    checkpoint = tmp_path / "training.pt"

    def killing(epoch):
        raise Killed

    with pytest.raises(Killed):
        train(examples(100), **options, seed=0, checkpoint=checkpoint, on_epoch=killing)
    with pytest.raises(ValueError, match="other data or settings"):
        train(examples(101), **options, seed=0, checkpoint=checkpoint)


def test_training_leaves_the_random_state_of_the_process_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    train(examples(100), target="consistency", architecture="small", seed=0, hyperparameters=FAST)

    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (examples(20), "20 answers are too few"),
        (Examples(examples().ids, examples().features, np.full(400, 0.25)), "do not vary"),
    ],
    ids=["too few", "constant"],
)
def test_what_cannot_be_learned_from_is_refused(rows, reason):
    with pytest.raises(ValueError, match=reason):
        train(rows, target="consistency", architecture="small", seed=0)


@pytest.mark.parametrize("target", ["consistency", "semantic_entropy"])
@pytest.mark.parametrize("architecture", ["small", "paper"])
@given(scale=st.sampled_from([0.0, 1.0, 1e3, 1e6]), seed=st.integers(0, 100))
@settings(max_examples=10, deadline=None)
def test_outputs_lie_between_0_and_1(architecture, target, scale, seed):
    network = ProbeNetwork(architecture, target, 4).eval()
    features = torch.randn(3, 4, generator=torch.Generator().manual_seed(seed)) * scale
    with torch.inference_mode():
        values = network.values(features)

    assert ((values >= 0) & (values <= 1)).all()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 0.1, 0.2, 2.0, 2.2], 1.1),
        ([3.0, 0.0, 0.0, 0.0], 1.5),
        ([0.0, 1.0], 0.5),
        ([0.0, 0.0, 1.0, 1.0, 1.0, 5.0], 3.0),
    ],
)
def test_the_split_minimises_the_squared_error_within_its_groups(values, expected):
    assert best_split(np.array(values)) == pytest.approx(expected)


@given(
    st.lists(st.integers(0, 8), min_size=2, max_size=12).filter(lambda values: len(set(values)) > 1)
)
def test_no_other_split_is_better(values):
    values = np.array(values, dtype=float)

    def error(split):
        groups = values[values > split], values[values <= split]
        return sum(((group - group.mean()) ** 2).sum() for group in groups if len(group))

    assert error(best_split(values)) <= min(map(error, np.arange(-0.5, 9))) + 1e-9


def test_splits_depend_on_the_id_alone_and_are_eight_one_one():
    names = [split_of(f"prompt-{i}") for i in range(5000)]

    assert names == [split_of(f"prompt-{i}") for i in range(5000)]
    assert 0.78 < names.count("training") / 5000 < 0.82
    assert 0.08 < names.count("test") / 5000 < 0.12


def test_rank_correlation_shares_the_rank_of_ties():
    assert spearman(
        np.array([1.0, 2.0, 2.0, 4.0]), np.array([1.0, 3.0, 3.0, 9.0])
    ) == pytest.approx(1.0)
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])) == pytest.approx(-1.0)
    assert spearman(np.array([1.0, 1.0]), np.array([0.0, 1.0])) is None


def test_metrics_by_hand():
    assert regression_metrics(np.array([0.0, 1.0]), np.array([0.0, 0.5])) == {
        "mse": 0.125,
        "r2": -1.0,
        "spearman": pytest.approx(1.0),
    }
    measured = classification_metrics(np.array([0.9, 0.2, 0.6]), np.array([1.0, 0.0, 0.0]))
    assert measured["bce"] == pytest.approx(-(np.log(0.9) + np.log(0.8) + np.log(0.4)) / 3)
    assert (measured["auroc"], measured["accuracy"]) == (1.0, pytest.approx(2 / 3))
