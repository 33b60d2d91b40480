"""LeanEncoder: the same logits as transformers' own pass, for each kind of model that it knows."""

import pytest
import torch
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    DebertaV2Config,
    RobertaConfig,
    XLMRobertaConfig,
)

from models.similarity.encoder import LeanEncoder, is_bert_like

SIZES = {
    "vocab_size": 50,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "num_labels": 3,
}
CONFIGS = {
    "BERT": BertConfig(**SIZES, type_vocab_size=2),
    "BERT of one layer with another activation": BertConfig(
        **SIZES | {"num_hidden_layers": 1}, hidden_act="relu"
    ),
    "RoBERTa": RobertaConfig(**SIZES),
    "XLM-RoBERTa": XLMRobertaConfig(**SIZES),
}


def new_model(config, **options):
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config, **options).eval()
    for weight in model.parameters():  # biases and norms that do nothing would hide a fault
        torch.nn.init.normal_(weight.data, std=0.3)
    return model


@torch.inference_mode()
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("lengths", [(9, 9), (9, 2, 5, 5), (7,)], ids=["even", "padded", "one row"])
@pytest.mark.parametrize("by_length", [True, False], ids=["by length", "with padding"])
def test_the_logits_are_those_of_transformers(config, lengths, by_length):
    model = new_model(config)
    ids = torch.full((len(lengths), max(lengths)), config.pad_token_id)
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(5, 50, (length,))
        mask[row, :length] = 1
    inputs = {"input_ids": ids, "attention_mask": mask}
    if config.type_vocab_size > 1:
        inputs["token_type_ids"] = torch.arange(max(lengths)).expand_as(ids) // 4 % 2
    expected = model(**inputs).logits

    assert is_bert_like(model)
    found = LeanEncoder(model, by_length=by_length)(**inputs)

    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_other_models_are_left_to_transformers():
    of_another_kind = new_model(DebertaV2Config(**SIZES))
    with_other_attention = new_model(CONFIGS["BERT"], attn_implementation="eager")

    assert not any(map(is_bert_like, (of_another_kind, with_other_attention, object())))
