"""A probe's folder: what is written is read back, and what belongs to another model is refused."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from cocoa_lab.distances import fit_distance
from cocoa_lab.probes.from_collection import save
from cocoa_lab.probes.layer_training import standardise
from models.errors import InvalidLogits
from models.probes.card import Card, ProbeMismatch, check_card, joined, read_card
from models.probes.probe import ProbeNetwork, TrainedProbe

DIMENSION = 6
MODEL = {
    "target": "inconsistency",
    "model_id": "tiny",
    "revision": "abc",
    "dimension": DIMENSION,
    "num_layers": 4,
    "statistics": frozenset({"answer_token_logprobs", "answer_token_entropies"}),
}
RNG = np.random.default_rng(0)
TRAINING, HELD_OUT = RNG.standard_normal((500, DIMENSION)), RNG.standard_normal((500, DIMENSION))


def probe(**changes):
    values = {
        "target": "inconsistency",
        "model_id": "tiny",
        "revision": "abc",
        "dtype": "float32",
        "layer": 2,
        "dimension": DIMENSION,
        "token_features": (),
        "architecture": "small",
        "training_set": "prompts.jsonl",
        "sizes": {"training": 80, "validation": 10, "test": 10},
        "tasks": ("facts",),
        "sampling": {"num_samples": 10},
        "compared_by": {"similarity": "cross_encoder"},
        "split": None,
        "hyperparameters": {"epochs": 50},
        "seed": 0,
        "metrics": {"test": {"r2": 0.5}},
    }
    card = Card(**values | changes)
    torch.manual_seed(0)
    network = ProbeNetwork(card.architecture, card.target, DIMENSION)
    standardise(network, torch.from_numpy(TRAINING).float())
    return TrainedProbe(card, network, fit_distance(TRAINING, HELD_OUT))


@pytest.fixture
def folder(tmp_path):
    save(probe(), tmp_path / "probe")
    return tmp_path / "probe"


def test_a_probe_that_was_saved_reads_the_same(tmp_path):
    written = probe()
    card = save(written, tmp_path / "probe")
    read = TrainedProbe.open(tmp_path / "probe")

    assert read.card == card == read_card(tmp_path / "probe" / "card.json")
    assert (read.card.target, read.card.layer) == ("inconsistency", 2)
    assert read.card.sha256 == card.sha256
    features = RNG.standard_normal((5, DIMENSION)).astype(np.float32)
    for one, other in zip(written.read(features), read.read(features), strict=True):
        assert one.value == pytest.approx(other.value, abs=2e-3)  # stored in float16
        assert one.distance_percentile == pytest.approx(other.distance_percentile, abs=0.01)


def test_files_can_be_read_by_another_user(folder):
    assert {oct(file.stat().st_mode)[-3:] for file in folder.iterdir()} == {"644"}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"revision": None}, "revision"),
        ({"revision": "def"}, "revision"),
        ({"dimension": 7}, "dimension"),
        ({"target": "semantic_entropy"}, "target"),
        ({"num_layers": 2}, "layer 2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_another_models_probe_is_refused(folder, changes, named):
    with pytest.raises(ProbeMismatch, match=named):
        check_card(read_card(folder / "card.json"), **MODEL | changes)


def test_without_a_revision_the_models_name_has_to_agree(tmp_path):
    save(probe(revision=None), tmp_path / "probe")
    card = read_card(tmp_path / "probe" / "card.json")
    check_card(card, **MODEL | {"revision": None})
    with pytest.raises(ProbeMismatch, match="model_id"):
        check_card(card, **MODEL | {"revision": None, "model_id": "other"})


def test_the_same_weights_under_another_name_are_the_same_model(folder):
    check_card(read_card(folder / "card.json"), **MODEL | {"model_id": "/a/copy"})


@pytest.mark.parametrize("name", ["convention", "pooling"])
def test_another_conventions_probe_is_refused(folder, name):
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps(card | {name: "the last token"}))
    with pytest.raises(ProbeMismatch, match=name):
        check_card(read_card(folder / "card.json"), **MODEL)


def test_weights_that_are_not_the_cards_are_refused(folder):
    with (folder / "probe.safetensors").open("ab") as file:
        file.write(b"\0")
    with pytest.raises(ProbeMismatch, match="card describes"):
        TrainedProbe.open(folder)


def test_a_probe_that_reads_what_nothing_here_computes_is_refused(folder):
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps(card | {"token_features": ["sp", "mood"]}))
    with pytest.raises(ProbeMismatch, match=r"'mood' of an answer, .* none of sp, mte, log_length"):
        TrainedProbe.open(folder)


def test_a_probe_that_reads_what_the_model_does_not_tell_is_refused():
    card, told = replace(probe().card, token_features=("sp",)), frozenset({"answer_token_logprobs"})
    with pytest.raises(ProbeMismatch, match=r"reads sp of .* lacks answer_token_entropies"):
        check_card(card, **MODEL | {"statistics": told})


def test_a_probe_reads_the_numbers_of_its_card_beside_the_state(tmp_path):
    rows = RNG.standard_normal((500, DIMENSION + 2))
    card = replace(probe().card, token_features=("sp", "log_length"))
    network = ProbeNetwork("small", "inconsistency", DIMENSION + 2)
    save(TrainedProbe(card, network, fit_distance(rows, rows)), tmp_path / "joined")
    read = TrainedProbe.open(tmp_path / "joined")
    assert read.card.token_features == ("sp", "log_length")
    state = np.zeros(DIMENSION, dtype=np.float32)
    row = joined(state, read.card.token_features, sp=1.5, mte=9.0, num_tokens=1)
    assert row.tolist() == [*state.tolist(), 1.5, 0.0]
    assert 0 <= read.read(row[None])[0].value <= 1


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": 3}'],
    ids=["empty", "no object", "no fields", "other format"],
)
def test_a_card_that_is_none_is_refused(folder, text):
    (folder / "card.json").write_text(text)
    with pytest.raises(ProbeMismatch):
        TrainedProbe.open(folder)


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(ProbeMismatch, match="nosuch"):
        TrainedProbe.open(tmp_path / "nosuch")


def test_the_card_on_disk_has_every_field(folder):
    card = json.loads((folder / "card.json").read_text())
    assert card.keys() == {field.name for field in fields(Card)}


def test_answers_like_those_of_the_training_are_in_the_domain_and_shifted_ones_are_not():
    readings = probe().read(RNG.standard_normal((200, DIMENSION)).astype(np.float32))
    shifted = probe().read(RNG.standard_normal((200, DIMENSION)).astype(np.float32) + 10)

    assert sum(reading.out_of_domain for reading in readings) < 10
    assert 40 < np.mean([reading.distance_percentile for reading in readings]) < 60
    assert all(reading.out_of_domain and reading.distance_percentile == 100 for reading in shifted)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_no_numbers_have_no_reading(value):
    features = np.zeros((2, DIMENSION), dtype=np.float32)
    features[1, 3] = value
    with pytest.raises(InvalidLogits):
        probe().read(features)


def test_distance_is_that_of_the_full_covariance_where_there_are_few_dimensions():
    fitted = fit_distance(TRAINING, HELD_OUT)
    centred = HELD_OUT - TRAINING.mean(0)
    precision = np.linalg.inv(np.cov(TRAINING.T))
    expected = np.sqrt(((centred @ precision) * centred).sum(axis=1))

    np.testing.assert_allclose(fitted.of(HELD_OUT), expected, rtol=1e-6)


def test_directions_beyond_the_components_count_by_their_mean_variance():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((3000, 100)) * np.r_[np.full(64, 5.0), np.full(36, 0.1)]
    fitted = fit_distance(rows[:2000], rows[2000:])

    assert fitted.components.shape == (64, 100)
    off = rows[2000:2001].copy()
    off[0, 80] += 5.0  # small for the first directions, fifty standard deviations in this one
    assert fitted.percentile(off)[0] == 100
    assert fitted.residual_variance == pytest.approx(0.01, rel=0.2)


def test_a_direction_that_never_varied_does_not_make_distances_infinite():
    rows = np.zeros((50, 3))
    rows[:, 0] = np.arange(50)
    assert np.isfinite(fit_distance(rows, rows).of(rows + 0.1)).all()
