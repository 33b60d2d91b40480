"""Pairs of a text and a sentence about places: the label is what the text says."""

from collections import Counter

import pytest

from cocoa_lab.embedded.topics import split
from cocoa_lab.embedded.world.building import world_of
from cocoa_lab.embedded.world.pairs import SHARED, label_of, make_pairs, of_both, pool_of
from cocoa_lab.embedded.world.places import ATTRIBUTES, Place


@pytest.fixture(scope="module")
def world():
    return world_of(0)


@pytest.fixture(scope="module")
def pairs(world):
    return make_pairs(pool_of([world], "train"), 3000, "test")


def test_the_labels_are_balanced_and_every_family_has_all_of_them(pairs):
    labels = Counter(pair.label for pair in pairs)
    families = Counter((pair.family, pair.label) for pair in pairs)

    assert min(labels.values()) > 0.25 * len(pairs)
    assert len({family for family, _ in families}) == 8
    assert min(families.values()) >= 3


def test_names_and_values_of_one_part_are_in_no_other(world):
    train, tested = pool_of([world], "train"), pool_of([world], "testbed")
    for kind in ("country", "city"):
        assert not set(train.names[kind]) & set(tested.names[kind])
        assert len(tested.names[kind]) >= 20
        for attribute in ATTRIBUTES[kind]:
            both = set(train.values[kind][attribute]) & set(tested.values[kind][attribute])
            texts = [value for value in both if isinstance(value, str)]
            assert bool(texts) == (attribute in SHARED)
    assert all(split(name) == "train" for name in train.names["city"])


def city(**facts):
    return Place("Lima", "city", invented=False, facts=facts, size=0)


def country(*neighbours):
    return Place("Peru", "country", invented=False, facts={"neighbours": neighbours}, size=0)


@pytest.mark.parametrize(
    ("place", "premise", "attribute", "value", "label"),
    [
        (city(river="Rimac"), "It lies on the Rimac.", "river", "Rimac", "entailment"),
        (city(river="Rimac"), "It lies on the Rimac.", "river", "Ob", "contradiction"),
        (city(river="Rimac"), "It lies on the Rimac.", "founded", 1535, "neutral"),
        (city(population=320_000), "", "population", 340_000, "entailment"),
        (city(population=320_000), "", "population", 410_000, "contradiction"),
        (city(capital_of="Peru"), "", "country", "Peru", "entailment"),
        (city(capital_of="Peru"), "", "country", "Chile", "contradiction"),
        (city(country="Peru"), "", "capital_of", "Peru", "neutral"),
        (city(country="Peru"), "", "capital_of", "Chile", "contradiction"),
    ],
)
def test_the_label_is_what_the_premise_says(place, premise, attribute, value, label):
    assert label_of(place, premise, attribute, value, "") == label


ALL = "Its neighbours are Chile and Brazil."


@pytest.mark.parametrize(
    ("premise", "neighbours", "hypothesis", "label"),
    [
        ("It borders Chile and Brazil.", ("Chile",), "It borders Chile.", "entailment"),
        ("It borders Chile.", ("Brazil",), "It borders Brazil.", "neutral"),
        ("It borders Nigeria.", ("Niger",), "It borders Niger.", "neutral"),
        (ALL, ("Ecuador",), "It borders Ecuador.", "contradiction"),
        (ALL, ("Chile",), "Its neighbours are Chile.", "contradiction"),
        ("It borders Chile.", ("Chile", "Brazil"), ALL, "neutral"),
    ],
)
def test_neighbours_are_entailed_as_far_as_they_are_said(premise, neighbours, hypothesis, label):
    place = country("Niger", "Nigeria") if "Niger" in premise else country("Chile", "Brazil")
    assert label_of(place, premise, "neighbours", neighbours, hypothesis) == label


@pytest.mark.parametrize(
    ("first", "second", "label"),
    [
        ("entailment", "entailment", "entailment"),
        ("entailment", "neutral", "neutral"),
        ("neutral", "contradiction", "contradiction"),
        ("contradiction", "entailment", "contradiction"),
    ],
)
def test_a_sentence_of_two_facts_is_entailed_if_both_are(first, second, label):
    assert of_both(first, second) == label
