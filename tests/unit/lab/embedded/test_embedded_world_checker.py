"""Sentences written by hand, and what the checker calls them in a world of six places."""

import pytest

from cocoa_lab.embedded.world.checker import label_sentence, label_sentences
from cocoa_lab.embedded.world.places import NORTH, SOUTH, Place, World

LIMA = Place(
    name="Lima",
    kind="city",
    invented=False,
    facts={
        "country": "Peru",
        "continent": "South America",
        "language": "Spanish",
        "currency": "Sol",
        "population": 7_700_000,
        "capital_of": "Peru",
        "near": "Callao",
        "side": SOUTH,
    },
    size=7_737_002,
)
PERU = Place(
    name="Peru",
    kind="country",
    invented=False,
    facts={
        "continent": "South America",
        "capital": "Lima",
        "language": "Spanish",
        "currency": "Sol",
        "neighbours": ("Bolivia", "Brazil", "Chile", "Colombia", "Ecuador"),
        "population": 32_000_000,
        "area": 1_300_000,
    },
    size=31_989_256,
)
NETHERLANDS = Place(
    name="Netherlands",
    kind="country",
    invented=False,
    facts={"continent": "Europe", "capital": "Amsterdam", "neighbours": ("Belgium", "Germany")},
    size=17_231_017,
)
ROTTERDAM = Place(
    name="Rotterdam",
    kind="city",
    invented=False,
    facts={"country": "Netherlands", "continent": "Europe", "side": NORTH},
    size=598_199,
)
ZORVANIA = Place(
    name="Zorvania",
    kind="country",
    invented=True,
    facts={"continent": "Asia", "capital": "Orlaburg", "founded": 1490, "known_for": "mint tea"},
    size=900_000,
)
ORLABURG = Place(
    name="Orlaburg",
    kind="city",
    invented=True,
    facts={
        "country": "Zorvania",
        "capital_of": "Zorvania",
        "river": "Trelle",
        "founder": "Edda Quarber",
        "founded": 1212,
        "known_for": "copper bells",
        "population": 16_000,
    },
    size=16_031,
)
PLACES = (LIMA, PERU, NETHERLANDS, ROTTERDAM, ZORVANIA, ORLABURG)
WORLD = World({place.name: place for place in PLACES})

TRUE = {
    "Lima": (
        "Lima is a city in Peru.",
        "It lies in Peru.",
        "The city belongs to Peru.",
        "Its country is Peru.",
        "Lima's country is Peru.",
        "It is in South America.",
        "Its people speak Spanish.",
        "Most people there speak Spanish.",
        "People there pay with the Sol.",
        "Lima is the capital of Peru.",
        "It is the seat of government of Peru.",
        "The nearest large city is Callao.",
        "It lies south of the equator.",
        "It is home to about 7.7 million people.",
        "About 8 million people live there.",  # "about" is within a tenth
        "It lies in Peru and has about 7.7 million people.",
        "Peru is governed from Lima.",
        "Peru borders Chile.",
        "Orlaburg lies on the Trelle.",
    ),
    "Peru": (
        "Peru is a country in South America.",
        "It borders Chile, Bolivia and Brazil.",
        "The country shares a border with Ecuador and Colombia.",
        "Its neighbours are Bolivia, Brazil, Chile, Colombia and Ecuador.",
        "Its area is about 1.3 million square kilometres.",
        "Its capital is Lima.",
        "It borders Chile and covers about 1.3 million square kilometres.",
    ),
    "Netherlands": (
        "The Netherlands is in Europe.",
        "The Netherlands' capital is Amsterdam.",
        "Rotterdam is in the Netherlands.",
        "Its neighbours are Germany and Belgium.",
    ),
    "Orlaburg": (
        "It was founded by Edda Quarber.",
        "It dates from 1212 and is known for its copper bells.",
        "Its population is about 16 thousand.",
    ),
}
FALSE = {
    "Lima": (
        "Lima is a city in Chile.",
        "It lies in Garvonia.",  # a country that nobody has heard of
        "Its people speak Portuguese.",
        "It lies north of the equator.",
        "It has about 6 million people.",
        "Lima is a country in South America.",
        "Peru is the capital of Lima.",  # the wrong way round
        "Peru is in Lima.",
        "Rotterdam is the capital of the Netherlands.",
        "It lies in Peru and has about 2 million people.",
        "It lies in Chile and is south of the equator.",
        "Its capital is Peru.",
        "It borders Chile.",  # a city has no borders
    ),
    "Peru": (
        "It borders Argentina.",
        "It borders Chile and Argentina.",
        "Its neighbours are Chile and Brazil.",  # these are not all
        "Its capital is Quito.",
        "It covers about 700 thousand square kilometres.",
    ),
    "Orlaburg": (
        "It was founded in 1213.",
        "It was founded by Edda Quarbov.",
        "It is famous for its mint tea.",
        "It lies on the Rimac.",
    ),
}
UNVERIFIABLE = {
    "Lima": (
        "It lies on the Rimac.",  # true, but this world does not say
        "It was founded by Francisco Pizarro.",
        "It was founded in 1535.",
        "Lima is not in Chile.",
        "It does not lie north of the equator.",
        "It is not the capital of Peru.",
        "Lima is beautiful.",
        "It is in trouble.",
        "Garvonia is a country in Africa.",
        "Cusco is a city in Peru.",
        "The country borders Chile.",  # of which country?
        "In Peru lies Lima.",
        "Is Lima in Peru?",
        "Lima, a city in Peru, is large.",
        "Peru has Lima for a capital.",
        "It lies in Peru and is beautiful.",
        "It is known for its long history.",
        "It has many people.",
        "It has about a million people.",
        "lima is a city in peru.",
        "Lima is a city in Peru",
        "",
        "{}",
    ),
    "Orlaburg": ("It was founded long ago.", "It was founded in 1212 by Edda Quarber."),
}


def cases(by_topic):
    return [(topic, sentence) for topic, texts in by_topic.items() for sentence in texts]


def test_there_are_sixty_sentences_and_more():
    assert sum(len(cases(some)) for some in (TRUE, FALSE, UNVERIFIABLE)) >= 60


@pytest.mark.parametrize(("topic", "sentence"), cases(TRUE))
def test_what_the_world_says_is_true(topic, sentence):
    assert label_sentence(WORLD, sentence, WORLD.places[topic])[0] == "true"


@pytest.mark.parametrize(("topic", "sentence"), cases(FALSE))
def test_what_the_world_says_otherwise_is_false(topic, sentence):
    assert label_sentence(WORLD, sentence, WORLD.places[topic])[0] == "false"


@pytest.mark.parametrize(("topic", "sentence"), cases(UNVERIFIABLE))
def test_what_the_world_does_not_say_or_no_wording_fits_is_unverifiable(topic, sentence):
    assert label_sentence(WORLD, sentence, WORLD.places[topic])[0] == "unverifiable"


def test_a_pronoun_means_the_place_that_was_named_last():
    sentences = ["It is in Peru.", "Orlaburg dates from 1212.", "It lies on the Trelle."]
    assert label_sentences(WORLD, sentences, LIMA) == ["true", "true", "true"]
    assert label_sentences(WORLD, sentences[::2], LIMA) == ["true", "unverifiable"]


def test_without_a_topic_a_pronoun_means_nothing():
    sentences = ["It is in Peru.", "Lima is in Peru.", "It is in Peru."]
    assert label_sentences(WORLD, sentences, None) == ["unverifiable", "true", "true"]
