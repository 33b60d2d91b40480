"""Similarity by NLI, and the labels of its checkpoints."""

import numpy as np
import pytest

from models.similarity.nli import EntailmentModel, label_columns
from tests.fakes.pair_models import FakeNliModel


def test_the_similarity_of_nli_is_its_entailment_or_what_it_does_not_contradict():
    pairs = [("a b", "a c"), ("a", "b")]
    entailment, _, contradiction = FakeNliModel().score(pairs).values.T

    np.testing.assert_array_equal(
        EntailmentModel(FakeNliModel()).score(pairs).values[:, 0], entailment
    )
    np.testing.assert_array_equal(
        EntailmentModel(FakeNliModel(), "contradiction").score(pairs).values[:, 0],
        1 - contradiction,
    )


@pytest.mark.parametrize(
    ("id2label", "columns"),
    [
        ({0: "CONTRADICTION", 1: "NEUTRAL", 2: "ENTAILMENT"}, [2, 1, 0]),
        ({0: "entailment", 1: "neutral", 2: "contradiction"}, [0, 1, 2]),
        ({0: "neutral", 1: "contradiction", 2: "entail"}, [2, 0, 1]),
    ],
    ids=["deberta-mnli", "deberta-v3", "short"],
)
def test_the_order_of_labels_is_read_from_the_config(id2label, columns):
    assert label_columns(id2label) == columns


@pytest.mark.parametrize(
    "id2label",
    [{0: "LABEL_0", 1: "LABEL_1", 2: "LABEL_2"}, {0: "entailment", 1: "not_entailment"}],
    ids=["nameless", "two labels"],
)
def test_labels_that_do_not_tell_are_refused(id2label):
    with pytest.raises(ValueError, match="are not entailment"):
        label_columns(id2label)
