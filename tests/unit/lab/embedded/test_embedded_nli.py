"""The NLI model: its pairs are labelled by one convention, which the shipped weights follow."""

import json
import random
from collections import Counter

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

from cocoa_lab.embedded.answers import Answered
from cocoa_lab.embedded.cross_encoder import (
    CrossEncoderShape,
    encoded_logits,
    groups_of,
    new_cross_encoder,
    pair_logits,
)
from cocoa_lab.embedded.nli import (
    label_of,
    new_nli,
    nli_loss,
    probabilities,
    teach_texts,
    train_nli,
)
from cocoa_lab.embedded.nli_evaluation import (
    classification_quality,
    held_out_texts,
    sampled_pairs,
    text_quality,
)
from cocoa_lab.embedded.nli_pairs import (
    FAMILY_SHARES,
    LABELS,
    MAKERS,
    NliPair,
    contradicting_statements,
    make_nli_pairs,
    nli_sources,
)
from cocoa_lab.embedded.pairs import Pair, Sources
from cocoa_lab.embedded.testbed import HeldOut
from cocoa_lab.embedded.training import Schedule
from cocoa_lab.embedded.weights import load_cross_encoder
from models.embedded import CROSS_ENCODER_DIR, NLI_DIR

TINY_JUDGE = CrossEncoderShape(hidden=32, layers=2, heads=2, feed_forward=64)


@pytest.fixture(scope="module")
def source() -> Sources:
    return nli_sources("test")


@pytest.fixture(scope="module")
def pairs(source) -> list[NliPair]:
    return make_nli_pairs(source, 4000, random.Random(0))


@pytest.fixture(scope="module")
def judge() -> tuple[BertForSequenceClassification, PreTrainedTokenizerFast]:
    return load_cross_encoder(CROSS_ENCODER_DIR)


@pytest.fixture(scope="module")
def tiny(judge) -> BertForSequenceClassification:
    return new_cross_encoder(judge[1], TINY_JUDGE, seed=0)


@pytest.fixture(scope="module")
def shipped() -> BertForSequenceClassification:
    return AutoModelForSequenceClassification.from_pretrained(NLI_DIR)


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(NLI_DIR)


def test_the_families_of_pairs_have_their_shares(pairs):
    assert sum(FAMILY_SHARES.values()) == pytest.approx(1.0)
    counts = Counter(pair.family for pair in pairs)
    for family, share in FAMILY_SHARES.items():
        assert counts[family] / len(pairs) == pytest.approx(share, abs=0.025)


def test_every_label_has_at_least_a_fifth_of_the_pairs(pairs):
    counts = Counter(pair.label for pair in pairs)
    assert all(counts[label] / len(pairs) > 0.2 for label in LABELS)


def test_equal_texts_are_always_entailment(pairs):
    assert {pair.label for pair in pairs if pair.first == pair.second} == {"entailment"}


@pytest.mark.parametrize(
    ("family", "labels"),
    [
        ("arithmetic", {"entailment", "contradiction"}),
        ("made_up", {"entailment", "contradiction"}),
        ("two_places", {"neutral"}),
        ("other_question", {"neutral"}),
        ("other_kind", {"neutral"}),
        ("prose", {"entailment", "neutral", "contradiction"}),
        ("deletion", {"entailment", "neutral"}),
    ],
)
def test_a_family_has_the_labels_of_the_convention(pairs, family, labels):
    assert {pair.label for pair in pairs if pair.family == family} == labels


def test_country_and_continent_of_one_city_are_neutral_also_where_the_country_is_made_up(source):
    maker, rng = MAKERS["two_places"], random.Random(0)
    continents, countries = set(source.values.continents), set(source.values.countries)
    num_made_up = 0
    for _ in range(200):
        country, continent, label = maker(source, rng)
        subject, _, place = continent.partition(" is in ")
        assert (label, place.removesuffix(".") in continents) == ("neutral", True)
        assert country.startswith(f"{subject} is in ")
        named = country.partition(" is in ")[2].removesuffix(".").removeprefix("the ")
        num_made_up += named not in countries
    assert 60 < num_made_up < 140


def test_no_kind_of_question_is_asked_about_more_than_twice_as_often_as_another(source):
    for task, topics in source.topics.items():
        counts = Counter(topic.kind for topic in topics)
        assert max(counts.values()) <= 2 * min(counts.values()), task


def test_twenty_steps_from_the_cross_encoder_lower_the_loss(judge):
    _, losses, _ = train_nli(*judge, Schedule(steps=20, muon_lr=2e-3, adam_lr=1e-3), batch_size=8)
    assert len(losses) == 20
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_a_new_model_has_the_encoder_of_the_cross_encoder_and_a_head_of_three_labels(tiny):
    model = new_nli(tiny, seed=1)
    torch.testing.assert_close(dict(model.bert.state_dict()), dict(tiny.bert.state_dict()))
    assert model.classifier.weight.shape == (3, 32)
    assert not hasattr(model.config, "sentence_transformers")
    assert tiny.config.num_labels == 1


def loss_of(model, tokenizer, pairs, **options):
    [group] = groups_of(tokenizer, pairs, label_of, **options)
    return nli_loss(encoded_logits(model, group.encoded), group)


def test_the_loss_does_not_depend_on_which_text_stands_first(tiny, tokenizer):
    model = new_nli(tiny, seed=1)
    there = loss_of(model, tokenizer, [NliPair("Paris", "It is Rome.", "contradiction", "facts")])
    back = loss_of(model, tokenizer, [NliPair("It is Rome.", "Paris", "contradiction", "facts")])
    torch.testing.assert_close(there, back)


def test_a_text_and_a_sentence_are_learnt_in_that_order_alone(tiny, tokenizer):
    model = new_nli(tiny, seed=1)
    text = NliPair("Lima is in Peru. It has about 9 people.", "It is in Peru.", "entailment", "x")
    alone = cross_entropy(
        pair_logits(model, tokenizer, [(text.first, text.second)]), torch.tensor([0])
    )
    torch.testing.assert_close(loss_of(model, tokenizer, [text], in_both_orders=False), alone)


def test_texts_are_learnt_on_from_the_trained_model(tiny, tokenizer):
    model = new_nli(tiny, seed=1)
    schedule = Schedule(steps=20, muon_lr=2e-2, adam_lr=1e-2)
    losses, _ = teach_texts(model, tokenizer, schedule, num_answers=4, num_texts=4)
    assert len(losses) == 20
    assert sum(losses[-5:]) < sum(losses[:5])


def test_two_different_samples_of_one_meaning_are_a_pair_of_the_same():
    references = ["Paris", "It is Paris."]
    line = HeldOut("facts-testbed-0000", "facts", "capital", "?", "Paris", references, 6.0)
    answered = Answered("Paris", -0.1, [" Paris", "Paris", " It is Paris.", " Rome"])
    assert sampled_pairs([line], [answered]) == [
        Pair("It is Paris.", "Paris", True, "facts"),
        Pair("It is Paris.", "Rome", False, "facts"),
        Pair("Paris", "Rome", False, "facts"),
    ]


def test_it_loads_without_a_warning_in_float32_with_named_labels_and_512_tokens(capfd):
    verbosity = logging.get_verbosity()
    logging.set_verbosity_warning()
    model = AutoModelForSequenceClassification.from_pretrained(NLI_DIR)
    tokenizer = AutoTokenizer.from_pretrained(NLI_DIR)
    logging.set_verbosity(verbosity)
    assert "warning" not in capfd.readouterr().err.lower()
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert set(model.config.id2label.values()) == {"entailment", "neutral", "contradiction"}
    assert model.config.label2id == {name: i for i, name in model.config.id2label.items()}
    assert model.config.max_position_embeddings == tokenizer.model_max_length == 512


def test_the_card_says_how_the_model_was_made_and_how_good_it_is():
    card = json.loads((NLI_DIR / "card.json").read_text())
    assert {"parameters", "steps", "seconds", "seed", "quality"} <= set(card)
    assert card["quality"]["held_out_pairs"]["accuracy"] >= 0.95
    assert card["quality"]["held_out_texts"]["accuracy"] >= 0.9
    assert card["quality"]["language_model_samples"]["auc"] >= 0.97


def test_two_values_of_one_subject_contradict_each_other_whatever_the_kind(
    shipped, tokenizer, source
):
    statements = contradicting_statements(source, 600, random.Random(1))
    quality = classification_quality(shipped, tokenizer, statements)
    assert min(quality["accuracy_by_family"].values()) >= 0.85


def test_held_out_pairs_are_told_apart(shipped, tokenizer, pairs):
    quality = classification_quality(shipped, tokenizer, pairs[:400])
    assert quality["accuracy"] >= 0.9
    assert quality["entailment_gap_mean"] < 0.03


def test_held_out_texts_support_what_they_say(shipped, tokenizer):
    quality = text_quality(shipped, tokenizer, held_out_texts(300))
    assert quality["accuracy"] >= 0.85
    assert min(quality["accuracy_by_family"].values()) >= 0.7


PARAGRAPH = (
    "Lima is the capital of Peru. It lies on the Rimac and has about 9.2 million people. The "
    "city's language is Spanish. People there pay with the Sol."
)


@pytest.mark.parametrize(
    ("sentence", "label"),
    [
        ("Lima is the capital of Peru.", "entailment"),
        ("It is in Peru.", "entailment"),
        ("Its river is the Rimac.", "entailment"),
        ("Most people there speak Spanish.", "entailment"),
        ("Its currency is the Sol.", "entailment"),
        ("It is in Chile.", "contradiction"),
        ("Most people there speak French.", "contradiction"),
        ("Its currency is the Euro.", "contradiction"),
        ("It is known for its salt mines.", "neutral"),
        ("It was founded in 1535.", "neutral"),
        ("Quito is the capital of Peru.", "neutral"),
    ],
)
def test_a_paragraph_says_what_becomes_of_a_sentence(shipped, tokenizer, sentence, label):
    [row] = probabilities(shipped, tokenizer, [(PARAGRAPH, sentence)])
    assert LABELS[row.argmax()] == label


def test_probabilities_sum_to_one(shipped, tokenizer):
    texts = [("Paris", "Rome"), ("a long text " * 300, "Paris")]
    rows = probabilities(shipped, tokenizer, texts)
    assert rows.shape == (2, 3)
    np.testing.assert_allclose(rows.sum(1), 1.0, rtol=1e-5)


@pytest.mark.parametrize(
    ("first", "second", "label"),
    [
        ("Paris", "Paris", "entailment"),
        ("The capital of France is Paris.", "Paris", "entailment"),
        ("It is Paris.", "The capital of France is Paris.", "entailment"),
        ("12 + 7 = 19", "The answer is 19.", "entailment"),
        ("zweiundvierzig", "In German it is zweiundvierzig.", "entailment"),
        ("Paris", "It is Rome.", "contradiction"),
        ("19", "The answer is 18.", "contradiction"),
        ("Lyon is in France.", "Lyon is in Spain.", "contradiction"),
        ("Lyon is in Europe.", "Lyon is in Asia.", "contradiction"),
        ("Kenya is in Africa.", "Kenya is in Oceania.", "contradiction"),
        ("Lyon is in France.", "Lyon is in Europe.", "neutral"),
        ("In German: zweiundvierzig", "dreiundvierzig", "contradiction"),
        ("The capital of France is Paris.", "The currency of France is Euro.", "neutral"),
        ("The capital of France is Paris.", "12 + 7 = 19", "neutral"),
        ("Lyon is in France.", "the statement is executed in a new block", "neutral"),
    ],
)
def test_both_orders_of_a_pair_get_the_label_of_the_convention(
    shipped, tokenizer, first, second, label
):
    rows = probabilities(shipped, tokenizer, [(first, second), (second, first)])
    assert [LABELS[i] for i in rows.argmax(1)] == [label, label]
