"""Similarity by the vectors of single texts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

from models.errors import ModelNotLoaded
from models.similarity.embedding import EmbeddingModel
from models.similarity.protocol import SimilarityConfig
from models.similarity.vectors import UNLIKE, floor_of, vector_similarity
from tests.tiny_models import tiny_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    tiny_encoder(folder)
    return folder


@pytest.fixture(scope="module")
def encoder(folder):
    return SentenceTransformer(str(folder), device="cpu")


def model_of(encoder):
    return EmbeddingModel(encoder, model_id="m", revision="r")


def load(folder, **options):
    return EmbeddingModel.load(SimilarityConfig(model=str(folder), **options))


def test_a_score_is_the_stretched_cosine_of_the_library_own_vectors(encoder):
    model = model_of(encoder)
    pairs = [("Paris", "Parts"), ("Lima", "It is Lima."), ("12", "ab")]
    vectors = encoder.encode([text for pair in pairs for text in pair])
    cosines = []
    for a, b in zip(vectors[::2], vectors[1::2], strict=True):
        cosines.append(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    floor = float(model.flags[-2])
    expected = np.clip((np.array(cosines) - floor) / (1 - floor), 0, 1)

    np.testing.assert_allclose(model.score(pairs).values[:, 0], expected, atol=1e-5)


def test_the_floor_is_the_mean_cosine_of_unlike_texts(encoder):
    model = model_of(encoder)
    vectors = encoder.encode(list(UNLIKE), normalize_embeddings=True)
    cosines = [a @ b for i, a in enumerate(vectors) for b in vectors[:i]]
    assert float(model.flags[-2]) == pytest.approx(np.mean(cosines), abs=1e-3)


def test_an_encoder_that_tells_no_texts_apart_is_refused(encoder, monkeypatch):
    monkeypatch.setattr(encoder, "encode", lambda texts, **options: np.ones((len(texts), 4)))
    with pytest.raises(ModelNotLoaded, match="the same vector"):
        model_of(encoder)


def test_each_distinct_text_is_read_once_however_many_pairs_it_is_in(encoder, monkeypatch):
    model, read = model_of(encoder), []
    encode = encoder.encode

    def counted(texts, **options):
        read.append(texts)
        return encode(texts, **options)

    monkeypatch.setattr(encoder, "encode", counted)
    texts = ["Lima", "Cusco", "Paris"]
    model.score([(a, b) for a in texts for b in texts if a != b])
    assert read == [texts]


def test_another_precision_is_another_model(folder):
    assert load(folder).flags != load(folder, dtype="bfloat16").flags


def test_missing_weights_are_refused(folder, tmp_path):
    tiny_encoder(tmp_path)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(
        config.replace('"num_hidden_layers": 1', '"num_hidden_layers": 2')
    )
    with pytest.raises(ModelNotLoaded, match="lacks 16 weights"):
        load(tmp_path)


vectors = st.lists(
    st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3), min_size=2, max_size=8
).map(np.array)


@given(vectors, st.floats(0, 0.99))
def test_similarities_are_probabilities_and_the_same_in_both_orders(found, floor):
    forwards = vector_similarity(found[:-1], found[1:], floor)
    assert ((forwards >= 0) & (forwards <= 1)).all()
    np.testing.assert_allclose(forwards, vector_similarity(found[1:], found[:-1], floor))


@given(vectors)
def test_the_floor_lies_below_one_and_lengths_do_not_move_it(found):
    found[:, 0] += 1e4 * (1 + np.arange(len(found)))
    assert 0 <= floor_of(found) <= 1
    assert floor_of(found) == pytest.approx(floor_of(3 * found), abs=1.1e-3)
