"""Pairs that share nearly all words are labelled by what they mean, and split by their words."""

import copy
import json
import random
import re
from collections import Counter

import numpy as np
import pytest
import torch

from cocoa_lab.embedded import hard_training
from cocoa_lab.embedded.cross_encoder import CrossEncoderShape, new_cross_encoder
from cocoa_lab.embedded.hard_evaluation import hard_quality, held_out_hard_pairs
from cocoa_lab.embedded.hard_pairs import KINDS, HardSource, hard_pairs, hard_source
from cocoa_lab.embedded.hard_training import hard_nli_pairs, teach_judge, teach_nli
from cocoa_lab.embedded.near_misses import part_of
from cocoa_lab.embedded.nli import new_nli
from cocoa_lab.embedded.pairs import Pair, equal
from cocoa_lab.embedded.training import Schedule
from cocoa_lab.embedded.weights import load_cross_encoder
from models.embedded import CROSS_ENCODER_DIR, NLI_DIR

TINY_JUDGE = CrossEncoderShape(hidden=32, layers=2, heads=2, feed_forward=64)


@pytest.fixture(scope="module")
def source() -> HardSource:
    return hard_source("test")


@pytest.fixture(scope="module")
def pairs(source) -> list[Pair]:
    return hard_pairs(source, 1000 * len(KINDS), random.Random(0))


@pytest.fixture(scope="module")
def tokenizer():
    return load_cross_encoder(CROSS_ENCODER_DIR)[1]


def test_every_kind_has_as_many_pairs_of_which_half_mean_the_same(pairs):
    assert Counter(pair.family for pair in pairs) == dict.fromkeys(KINDS, 1000)
    for kind in KINDS:
        labels = [pair.same for pair in pairs if pair.family == kind]
        assert 0.4 < sum(labels) / len(labels) < 0.6, kind


def test_equal_texts_are_never_labelled_different(pairs):
    assert all(pair.same for pair in pairs if equal(pair.first, pair.second))


def test_training_and_held_out_pairs_share_no_name_and_no_word(source):
    trained = hard_source("train")
    for name in ("first_names", "surnames", "verbs", "nouns", "adjectives", "places"):
        assert len(getattr(source, name)) >= 10, name
        assert not set(getattr(source, name)) & set(getattr(trained, name)), name


def of_kind(pairs, kind, *, same):
    return [pair for pair in pairs if (pair.family, pair.same) == (kind, same)]


def numerals(text):
    return "".join(re.findall(r"\d", text))


def test_numbers_and_their_other_orders_keep_to_their_part_and_have_the_same_digits(pairs):
    different = of_kind(pairs, "digits", same=False)
    for pair in different:
        first, second = numerals(pair.first), numerals(pair.second)
        assert sorted(first) == sorted(second)
        assert first != second
        assert {part_of(first), part_of(second)} == {"test"}
    assert all(numerals(p.first) == numerals(p.second) for p in of_kind(pairs, "digits", same=True))


def words(text):
    return re.findall(r"\w+", text.lower())


def test_names_that_change_places_leave_the_words_the_same(source):
    rng, made = random.Random(1), KINDS["names"]
    for _ in range(300):
        first, second, same = made(source, rng)
        assert set(words(first)) <= set(words(second))
        order = [word for word in words(second) if word in words(first)]
        assert (order[-len(words(first)) :] == words(first)) == same


def test_a_passive_means_the_same_only_where_its_subject_was_the_object(source):
    rng = random.Random(2)
    num_active = 0
    for _ in range(300):
        first, second, same = KINDS["voice"](source, rng)
        told = re.search(r"(\S+) was (\S+) by ([^ .]+)", second)
        object_, verb, subject = told.groups()
        if " was " not in first:
            num_active += 1
            assert first.startswith(f"{subject} {verb} {object_}") == same
    assert num_active > 180


def test_one_word_is_changed_and_no_other(source):
    rng = random.Random(3)
    for _ in range(300):
        first, second, same = KINDS["word"](source, rng)
        told = words(second)[-len(words(first)) :]
        assert (told == words(first)) == same


def test_parts_that_change_places_say_the_same_until_one_is_another(source):
    rng = random.Random(6)
    moved = 0
    for _ in range(300):
        first, second, same = KINDS["order"](source, rng)
        if len(words(first)) == len(words(second)):
            moved += 1
            assert (sorted(words(first)) == sorted(words(second))) <= same
    assert moved > 150


def test_a_person_is_the_same_by_surname_or_initial_and_surname(source):
    rng = random.Random(4)
    for _ in range(600):
        first, second, same = KINDS["form"](source, rng)
        people = re.findall(r"([A-Z]\w+) ([A-Z]\w+)", first)
        if same and people:
            [(name, surname)] = people
            before = re.search(rf"((?:\b[A-Z]\w*\.? )?){surname}\b", second)[1].strip(" .")
            assert before in ("", name, name[0])


def test_a_place_is_another_without_its_first_word_unless_that_is_an_article(source):
    rng = random.Random(5)
    of_two_words = {place.lower() for place in source.places if place.count(" ") == 1}
    labels = Counter()
    for _ in range(300):
        first, second, same = KINDS["form"](source, rng)
        place = re.sub(r"^(It is|The answer is)( in)? ", "", first.rstrip("."))
        if place.lower() in of_two_words:
            labels[same] += 1
            assert same == place.startswith("the ")
            assert second.rstrip(".").endswith(place.split()[-1])
    assert 20 < labels[False] < 90
    assert labels[True] > 5


def test_a_unit_in_a_sign_and_in_words_is_the_same_and_another_one_is_not(pairs):
    texts = {(p.first, p.second) for p in pairs if p.family == "unit"}
    assert len(texts) > 900
    for pair in (p for p in pairs if p.family == "unit"):
        assert numerals(pair.first.replace("²", "")) == numerals(pair.second.replace("²", ""))


def test_a_model_that_knows_all_and_one_that_knows_nothing_are_told_apart():
    pairs = held_out_hard_pairs(100 * len(KINDS))
    labels = {(pair.first, pair.second): pair.same for pair in pairs}
    labels |= {(second, first): same for (first, second), same in labels.items()}

    def knows(texts):
        return np.array([labels[pair] for pair in texts], dtype=np.float32)

    def guesses(texts):
        return np.full(len(texts), 0.9, dtype=np.float32)

    right, guessed = hard_quality(knows, pairs), hard_quality(guesses, pairs)
    assert set(right) == set(guessed) == set(KINDS)
    for kind in KINDS:
        assert (right[kind]["auc"], right[kind]["accuracy"]) == (1.0, 1.0), kind
        assert guessed[kind]["auc"] == 0.5, kind
    # Numbers in another order are known by rule, whatever a model says.
    assert guessed["digits"]["auc_with_rules"] == 1.0


def test_hard_pairs_entail_each_other_or_contradict(source):
    labelled = hard_nli_pairs(source, 60, random.Random(5))
    plain = hard_pairs(source, 60, random.Random(5))
    expected = ["entailment" if pair.same else "contradiction" for pair in plain]
    assert [pair.label for pair in labelled] == expected
    assert set(expected) == {"entailment", "contradiction"}


@pytest.mark.parametrize("workers", [0, 2], ids=["between steps", "in processes"])
@pytest.mark.parametrize("teach", [teach_judge, teach_nli])
def test_hard_pairs_are_learnt_among_those_known(tokenizer, monkeypatch, teach, workers):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    model = new_cross_encoder(tokenizer, TINY_JUDGE, seed=0)
    seen = Counter()
    on_pairs = hard_training.train_on_pairs

    def counted(model, groups_of_step, *rest, **options):
        for group in groups_of_step(0):
            seen[group.in_both_orders] += len(group.labels)
        return on_pairs(model, groups_of_step, *rest, **options)

    monkeypatch.setattr(hard_training, "train_on_pairs", counted)
    sizes = {"num_known": 5, "num_kept": 3}
    if teach is teach_nli:
        model, sizes = new_nli(model, seed=0), {"num_known": 2, "num_kept": 2, "num_texts": 4}
    before = copy.deepcopy(model.state_dict())
    losses, _ = teach(model, tokenizer, Schedule(steps=3), num_hard=6, workers=workers, **sizes)
    assert (seen[True], seen[False]) == ((10, 4) if teach is teach_nli else (14, 0))
    assert len(losses) == 3
    moved = [not torch.equal(before[name], now) for name, now in model.state_dict().items()]
    assert all(moved)


@pytest.mark.parametrize("folder", [CROSS_ENCODER_DIR, NLI_DIR], ids=lambda folder: folder.name)
def test_the_card_says_how_well_each_kind_is_told_apart(folder):
    table = json.loads((folder / "card.json").read_text())["quality"]["hard_pairs"]
    assert list(table) == list(KINDS)
    assert all(0 <= row["auc"] <= 1 and row["pairs"] == 1000 for row in table.values())
