"""Pairs are labelled by what they mean, and no held-out value was ever trained on."""

import random
from collections import Counter
from itertools import chain

import pytest

from cocoa_lab.embedded.answers import meaning
from cocoa_lab.embedded.near_misses import hybrid, near_number, near_spelling, part_of
from cocoa_lab.embedded.pairs import FAMILY_SHARES, Sources, make_pairs, sources
from cocoa_lab.embedded.testbed import HeldOut


@pytest.fixture(scope="module")
def held_out() -> Sources:
    return sources("test")


def test_about_half_of_the_pairs_are_the_same_in_every_family(held_out):
    pairs = make_pairs(held_out, 6000, random.Random(0))
    for family in FAMILY_SHARES:
        labels = [pair.same for pair in pairs if pair.family == family]
        assert 0.3 < sum(labels) / len(labels) < 0.7, family


def test_the_families_have_their_shares(held_out):
    counts = Counter(pair.family for pair in make_pairs(held_out, 6000, random.Random(0)))
    for family, share in FAMILY_SHARES.items():
        assert counts[family] / 6000 == pytest.approx(share, abs=0.02)


def test_equal_texts_are_never_labelled_different(held_out):
    pairs = make_pairs(held_out, 6000, random.Random(1))
    assert all(pair.same for pair in pairs if pair.first == pair.second)


def subjects_of(source):
    topics = chain.from_iterable(source.topics.values())
    return {topic.subject for topic in topics}


def test_training_and_held_out_pairs_share_no_value_and_no_sentence(held_out):
    trained = sources("train")
    for name in ("countries", "cities", "currencies", "names"):
        assert not set(getattr(held_out.values, name)) & set(getattr(trained.values, name)), name
    assert not subjects_of(trained) & subjects_of(held_out)
    assert not set(map(tuple, trained.sentences)) & set(map(tuple, held_out.sentences))


def test_numbers_and_words_for_numbers_keep_to_their_part(held_out):
    rng = random.Random(2)
    assert {part_of(held_out.values.of("sum", "", rng)) for _ in range(200)} == {"test"}


@pytest.mark.parametrize("text", ["7", "42", "1980", "10"])
def test_a_near_number_is_another_number(text):
    rng = random.Random(3)
    assert all(near_number(text, rng) != text for _ in range(300))
    assert all(near_number(text, rng).lstrip("-").isdigit() for _ in range(300))


@pytest.mark.parametrize("text", ["Paris", "aa", "x", "Côte d'Ivoire"])
def test_a_near_spelling_differs_in_more_than_case(text):
    rng = random.Random(4)
    assert all(near_spelling(text, rng).lower() != text.lower() for _ in range(300))


def test_a_hybrid_begins_like_one_name_and_ends_like_the_other():
    rng = random.Random(5)
    for _ in range(100):
        name = hybrid("Lisbon", "Ankara", rng)
        assert name[0] == "L"
        assert name[-1] == "a"


LINE = HeldOut(
    id="facts-testbed-0000",
    task="facts",
    kind="city_country",
    prompt="Which country is Boston in?",
    reference="United States",
    references=["United States", "It is in the United States.", "Boston is in the United States."],
    fame=5.8,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" United States", "united states"),
        ("It is in the United States.", "united states"),
        ("Boston is in the United States.", "united states"),
        ("It is in France.", "france"),
        (" Boston is in the Netherlands.", "netherlands"),
        ("Bostn is in France.", "bostn is in france"),
        ("France", "france"),
    ],
)
def test_the_meaning_of_an_answer_is_the_value_inside_its_wording(text, expected):
    assert meaning(text, LINE) == expected
