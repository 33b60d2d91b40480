"""Which answers of a collection a probe is trained on."""

import numpy as np
import pytest

from cocoa_lab.probes.collection import CollectedAnswer, Collection, CollectionHeader
from cocoa_lab.probes.from_collection import training_data

HEADER = CollectionHeader(
    prompts="p",
    model="fake",
    revision="1",
    dtype="float64",
    layers=(1, 2, 3),
    dimension=4,
    sampling={},
    seed=0,
    compared_by={},
)


def a_collection(*targets):
    answers = []
    for number, target in enumerate(targets):
        scores = {"inconsistency": target, "sp": 1.5, "mte": 0.5}
        answers.append(CollectedAnswer(f"p{number}", "t", "x", 2, scores))
    features = np.arange(len(targets) * 12.0).reshape(len(targets), 3, 4)
    return Collection(HEADER, tuple(answers), features)


def test_answers_without_the_target_are_left_out_and_layers_are_taken_by_their_number():
    collection = a_collection(0.5, None, 0.25)
    data = training_data(collection, "inconsistency", "paper", (1, 3))

    assert list(data.ids) == ["p0", "p2"]
    assert data.targets.tolist() == [0.5, 0.25]
    assert data.features.keys() == {1, 3}
    np.testing.assert_array_equal(data.features[3], collection.features[[0, 2], 2])
    assert training_data(collection, "inconsistency", "paper").features.keys() == {1, 2, 3}


def test_the_small_network_reads_the_answers_own_numbers_beside_the_states():
    collection = a_collection(0.5, 0.25)
    features = training_data(collection, "inconsistency", "small").features[2]

    np.testing.assert_array_equal(features[:, :4], collection.features[:, 1])
    np.testing.assert_allclose(features[:, 4:], [[1.5, 0.5, np.log(2)]] * 2, rtol=1e-6)


def test_answers_without_these_numbers_are_refused():
    answer = CollectedAnswer("p0", "t", "x", 2, {"inconsistency": 0.5, "sp": 1.5})
    collection = Collection(HEADER, (answer,), np.zeros((1, 3, 4)))
    with pytest.raises(ValueError, match="p0 has no sp or no mte"):
        training_data(collection, "inconsistency", "small")


def test_the_target_and_layers_have_to_be_in_the_collection():
    with pytest.raises(ValueError, match="not 7"):
        training_data(a_collection(0.5), "inconsistency", "small", (2, 7))
    with pytest.raises(ValueError, match="no answer"):
        training_data(a_collection(None), "inconsistency", "small")
