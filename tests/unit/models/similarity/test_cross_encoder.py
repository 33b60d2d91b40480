"""CrossEncoderModel: similarities lie in [0, 1], whatever the checkpoint calls its activation."""

import json
import shutil

import numpy as np
import pytest
import torch

from models.embedded import CROSS_ENCODER_DIR
from models.errors import ModelNotLoaded
from models.pretrained import AutoModelForSequenceClassification, AutoTokenizer
from models.similarity.cross_encoder import CrossEncoderModel
from models.similarity.protocol import SimilarityConfig

PAIRS = [("Paris", "It is Paris."), ("Paris", "Rome"), ("It is 42.", "37")]


@pytest.fixture
def loaded(tmp_path):
    """Loads the embedded checkpoint with another activation; without the key for None."""

    def load(activation):
        folder = tmp_path / "model"
        shutil.copytree(CROSS_ENCODER_DIR, folder)
        config = json.loads((folder / "config.json").read_text())
        del config["sentence_transformers"]
        if activation is not None:
            config["sentence_transformers"] = {"activation_fn": f"torch.nn.modules.{activation}"}
        (folder / "config.json").write_text(json.dumps(config))
        return CrossEncoderModel.load(SimilarityConfig(model=str(folder)))

    return load


@pytest.mark.parametrize(
    "activation", [None, "linear.Identity", "activation.Sigmoid"], ids=["none", "Identity", "own"]
)
def test_logits_become_similarities_by_a_sigmoid(loaded, activation):
    expected = CrossEncoderModel.load(SimilarityConfig())
    model = loaded(activation)
    np.testing.assert_allclose(model.score(PAIRS).values, expected.score(PAIRS).values, atol=1e-6)
    assert model.flags == expected.flags


@pytest.mark.parametrize("activation", ["activation.Tanh", "activation.ReLU"])
def test_an_activation_with_other_values_ends_the_start_in_words(loaded, activation):
    with pytest.raises(ModelNotLoaded, match=r"makes no similarities in \[0, 1\]"):
        loaded(activation)


@pytest.mark.parametrize(
    "activation", [torch.ones_like, torch.nn.Softsign(), lambda x: x.squeeze(-1)]
)
def test_neither_a_constant_nor_what_leaves_0_and_1_is_a_similarity(activation):
    model = AutoModelForSequenceClassification.from_pretrained(CROSS_ENCODER_DIR)
    tokenizer = AutoTokenizer.from_pretrained(CROSS_ENCODER_DIR)
    with pytest.raises(ModelNotLoaded):
        CrossEncoderModel(model, tokenizer, activation, 32, model_id="m", revision="r")
