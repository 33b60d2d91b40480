"""The contract of `models.similarity.protocol.PairModel`, on each implementation."""

import numpy as np
import pytest

from models.others import SIMILARITIES
from models.similarity import NLI_MODELS, PAIR_MODELS
from models.similarity.nli import EntailmentModel
from models.similarity.protocol import NliConfig, SimilarityConfig
from tests.tiny_models import tiny_encoder
from workers.loading import resolve

PAIRS = [
    ("Paris", "It is Paris."),
    ("It is Paris.", "Paris"),
    ("Paris", "Rome"),
    ("42", "43"),
    ("The capital of France is Paris.", "Lyon"),
    ("a" * 40, "zwölf"),
]


PATHS = {**PAIR_MODELS, **SIMILARITIES}


def loaded(name):
    """Of the embedded checkpoint, or, where none ships, of one with random weights."""

    def load(folder):
        model = "embedded"
        if name == "embedding":
            tiny_encoder(folder)
            model = str(folder)
        return resolve(PATHS[name]).load(SimilarityConfig(name=name, model=model))

    return load


def loaded_nli(name):
    return lambda folder: resolve(NLI_MODELS[name]).load(NliConfig(name=name, model="embedded"))


def entailment(folder):
    return EntailmentModel(loaded_nli("nli")(folder))


# Every model of the tables, and what others register, so that a new one cannot skip the suite.
MODELS = {
    **{name: loaded(name) for name in PATHS},
    **{name: loaded_nli(name) for name in NLI_MODELS},
    "entailment": entailment,
}


@pytest.fixture(scope="module", params=MODELS.values(), ids=MODELS)
def model(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("checkpoint"))


def test_values_are_probabilities_one_row_a_pair_and_one_column_a_label(model):
    scores = model.score(PAIRS)

    assert scores.values.shape == (len(PAIRS), len(model.labels))
    assert ((scores.values >= 0) & (scores.values <= 1)).all()
    assert scores.truncated.shape == (len(PAIRS),)
    assert not scores.truncated.any()


def test_a_score_does_not_depend_on_the_batch(model):
    together = model.score(PAIRS * 30).values
    alone = np.concatenate([model.score([pair]).values for pair in PAIRS])

    np.testing.assert_allclose(together, np.tile(alone, (30, 1)), atol=1e-5)


def test_the_order_of_the_pairs_is_kept(model):
    forwards, backwards = model.score(PAIRS).values, model.score(PAIRS[::-1]).values

    np.testing.assert_allclose(forwards, backwards[::-1], atol=1e-5)


def test_equal_texts_score_higher_than_different_ones(model):
    agreement = 0  # the first label is what makes two texts alike
    equal = model.score([(text, text) for text in ("Paris", "It is 42.", "zwölf")]).values[
        :, agreement
    ]
    different = model.score([("Paris", "Rome"), ("It is 42.", "37"), ("zwölf", "elf")]).values[
        :, agreement
    ]

    assert (equal > 0.9).all()
    assert (different < 0.5).all()


def test_no_pairs_give_no_scores(model):
    assert model.score([]).values.shape == (0, len(model.labels))


def test_a_pair_over_the_input_length_is_cut_and_flagged_alone(model):
    long = "one two three " * 400
    scores = model.score([PAIRS[0], (long, long), ("", "Paris")])

    assert scores.truncated.tolist() == [False, model.max_length is not None, False]
    assert np.isfinite(scores.values).all()


def test_a_fitted_context_leaves_the_pair_uncut_and_ends_as_the_context_does(model):
    context, text = "Where does the river Seine end? " * 200, "It ends in the Channel."
    fitted, whole, *others = model.fit_contexts(
        [(context, text), ("short", text), (context, text * 2), (context, text)]
    )

    assert context.rstrip().endswith(fitted.rstrip())
    assert len(fitted) > 100
    assert not model.score([(f"{fitted} {text}", f"{fitted} {text}")]).truncated.any()
    assert whole == "short"
    assert others == [*model.fit_contexts([(context, text * 2)]), fitted]
    assert model.fit_contexts([]) == []
