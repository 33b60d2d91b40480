"""Similarity by the vectors of single texts."""

import asyncio
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from models.errors import ModelNotLoaded, SimilarityUnavailable
from models.loadable import check_checkpoint, is_embedding_model
from models.similarity.embedding import EmbeddingModel
from models.similarity.pairs import PairRules
from models.similarity.protocol import SimilarityConfig
from models.similarity.vectors import Cosines
from models.threads import ModelThread
from tests.tiny_models import tiny_encoder
from workers.similarity import SimilarityWorker

pytestmark = pytest.mark.anyio


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
    vectors = encoder.encode(list(Cosines.UNLIKE), normalize_embeddings=True)
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


def test_an_encoder_without_a_pooling_is_refused_in_words(tmp_path):
    tiny_encoder(tmp_path)
    modules = json.loads((tmp_path / "modules.json").read_text())
    (tmp_path / "modules.json").write_text(json.dumps(modules[:1]))
    with pytest.raises(ModelNotLoaded, match="of a text: it has no pooling"):
        load(tmp_path)


def static(folder, tokenizer):
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=8)]).save(str(folder))


def of_model2vec(folder, tokenizer):
    static(folder, tokenizer)
    config = {"model_type": "model2vec", "architectures": ["StaticModel"]}
    (folder / "config.json").write_text(json.dumps(config))


def sparse(folder, tokenizer):
    tiny_encoder(folder)
    saved = folder / "config_sentence_transformers.json"
    saved.write_text(json.dumps(json.loads(saved.read_text()) | {"model_type": "SparseEncoder"}))


@pytest.mark.parametrize(
    ("make", "kind"),
    [(static, "StaticEmbedding"), (of_model2vec, "StaticEmbedding"), (sparse, "SparseEncoder")],
)
def test_a_checkpoint_of_another_kind_of_vectors_is_refused_by_its_name(
    encoder, tmp_path, make, kind
):
    make(tmp_path, encoder.tokenizer.backend_tokenizer)

    assert is_embedding_model(str(tmp_path), None)
    check_checkpoint(str(tmp_path), None, "embedding")
    with pytest.raises(ModelNotLoaded, match=f"is a {kind} of sentence-transformers, which is not"):
        load(tmp_path)


def test_a_vector_of_zeros_is_like_nothing_and_unlike_nothing(encoder, monkeypatch):
    encode = encoder.encode

    def without_foreign(texts, **options):
        found = encode(texts, **options)
        found[["東京" in text for text in texts]] = 0
        return found

    monkeypatch.setattr(encoder, "encode", without_foreign)
    model = model_of(encoder)
    scores = model.score([("東京", "Lima"), ("Lima", "東京"), ("東京", "東京 "), ("Lima", "Lima ")])

    np.testing.assert_array_equal(np.isnan(scores.values[:, 0]), [True, True, True, False])
    assert 0 < float(model.flags[-2]) < 1, "one of the texts of the floor is such a text"


async def test_a_pair_without_a_similarity_fails_its_own_request_alone(encoder, monkeypatch):
    encode = encoder.encode
    monkeypatch.setattr(
        encoder,
        "encode",
        lambda texts, **options: encode(texts, **options) * [["東" not in text] for text in texts],
    )
    thread = ModelThread("similarity")
    worker = SimilarityWorker(model_of(encoder), PairRules(), thread=thread, max_batch_pairs=8)
    loop = asyncio.create_task(worker.run())
    asked = [worker.compare([("東", "Lima")]), worker.compare([("Lima", "Cusco")])]
    failed, compared = await asyncio.gather(*asked, return_exceptions=True)
    await worker.close()
    await loop

    assert isinstance(failed, SimilarityUnavailable)
    assert "a vector of zeros" in failed.message
    assert 0 <= compared.scores["Lima", "Cusco"][0][0] <= 1


vectors = st.lists(
    st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3), min_size=2, max_size=8
).map(np.array)


@given(vectors, st.floats(0, 0.99))
def test_similarities_are_probabilities_and_the_same_in_both_orders(found, floor):
    found[:, 0] += 1e4 * (np.linalg.norm(found, axis=1) == 0)
    forwards = Cosines(floor).between(found[:-1], found[1:])
    assert ((forwards >= 0) & (forwards <= 1)).all()
    np.testing.assert_allclose(forwards, Cosines(floor).between(found[1:], found[:-1]))


@given(vectors)
def test_the_floor_lies_below_one_and_lengths_do_not_move_it(found):
    found += 1e4 * np.eye(3)[np.arange(len(found)) % 3]
    assert 0 <= Cosines.of(found).floor < 1
    assert Cosines.of(found).floor == pytest.approx(Cosines.of(3 * found).floor, abs=1.1e-3)
