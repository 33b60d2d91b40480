"""Pairs that share nearly all words and differ in meaning, and pairs of one meaning in other words.

Seven kinds, of which half of the pairs mean the same:

- digits: a number, and the same digits in another order.
- names: who did what to whom, and the two names exchanged.
- word: a sentence, and the same with one content word changed.
- voice: active and passive, and the passive with the names exchanged.
- order: parts of a sentence change places and say the same, until one of them is another.
- form: a person by surname and by whole name, and one of another first name; a place keeps its
  first word ("South Sudan" is not "Sudan").
- unit: a quantity with its unit as a sign and as a word, and with another unit.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cocoa_lab.embedded.corpus import all_topics
from cocoa_lab.embedded.near_misses import Part, hybrid, part_of, values_in
from cocoa_lab.embedded.pairs import Pair, cosmetic

_FIRST_NAMES = """
    Anna Bert Carla Dirk Emma Felix Greta Hugo Ines Jonas Kira Leo Maria Nils Olga Paul Quentin Rosa
    Sven Tina Uwe Vera Walter Xenia Yusuf Zoe Ada Boris Clara David Elif Farid Gloria Hassan Ivan
    Jane Karim Lena Mateo Nadia Oscar Priya Rafael Sofia Tomas Ursula Victor Wanda Yuki Zara Aisha
    Bruno Chen Dora Erik Fatima Goran Helen Igor Julia Kofi Laura Marco Nina Omar Petra Rita Samir
    Tara Viktor Wei Alan Beth Colin Diana Edward Fiona George Hannah Isaac Joan Kevin Linda Martin
    Nora Oliver Pamela Ralph Susan Thomas Violet William Alexei Bella Cyrus Daria Emil Frida Gavin
"""
_SURNAMES = """
    Tolstoy Austen Curie Newton Lovelace Darwin Einstein Dickinson Kafka Bach Kahlo Mandela Parks
    Turing Woolf Wilde Twain Bohr Planck Smith Jones Miller Brown Taylor Wilson Evans Walker Hughes
    Green Baker Carter Turner Fischer Weber Wagner Becker Hoffmann Richter Klein Schwarz Krause
    Vogel Berger Lorenz Garcia Lopez Martinez Torres Ramos Castro Silva Santos Pereira Costa Rossi
    Ferrari Bianchi Romano Ricci Marino Dubois Moreau Laurent Lefevre Girard Petrov Ivanov Volkov
    Sokolov Novak Horvat Kowalski Nowak Jensen Hansen Larsen Berg Lund Virtanen Yilmaz Demir Kaya
    Khan Singh Patel Sharma Gupta Tanaka Suzuki Sato Yamada Kim Park Wang Zhang Nguyen Tran Okafor
    Mensah Abebe Diallo Haddad Nasser Cohen Levy Katz Murphy Kelly Campbell Stewart Fraser Doyle
"""
# Past tense and participle are one form; nobody does it mutually, as in "married".
_VERBS = """
    hired paid called followed taught sued helped replaced praised warned visited trained promoted
    invited accused defended admired ignored thanked blamed attacked rescued chased pushed kissed
    criticized interviewed succeeded trusted betrayed copied hated loved envied mentored nominated
    appointed arrested punished robbed saved served supported tested watched wounded guided fired
    fooled insulted painted photographed questioned rewarded scolded supervised tricked welcomed
"""
_NOUNS = """
    house bridge museum lake train film drug plant road river tower castle school garden station
    hotel market church theatre library harbour airport factory prison temple ship boat truck
    horse dog cat bird apple pear orange bread cheese wine coffee table chair window door roof wall
    book letter song painting play poem hammer knife coat shirt ring clock lamp bottle basket rope
"""
_ADJECTIVES = """
    red blue green yellow black white old new large small tall short long narrow wide deep shallow
    cheap expensive safe dangerous open closed empty full hot cold warm wet dry clean dirty heavy
    light strong weak fast slow quiet loud bright dark rich poor round square soft hard sweet sour
    rare common famous modern ancient public private wooden golden broken frozen hollow steep
"""
_UNITS = {
    "length": "km kilometres kilometers|m metres meters|cm centimetres centimeters|mi miles|ft feet"
    "|mm millimetres millimeters|in inches|yd yards",
    "mass": "kg kilograms kilogrammes|g grams grammes|mg milligrams|lb pounds|oz ounces|t tonnes",
    "volume": "l litres liters|ml millilitres milliliters|gal gallons|cl centilitres centiliters",
    "time": "h hours|min minutes|s seconds|ms milliseconds|d days|yr years",
    "speed": "km/h kilometres_per_hour|m/s metres_per_second|mph miles_per_hour|kn knots",
    "area": "km² square_kilometres|m² square_metres|ha hectares|ac acres",
    "heat": "°C degrees_Celsius|°F degrees_Fahrenheit|K kelvins",
    "money": "€ euros EUR|$ dollars USD|£ pounds GBP|¥ yen JPY",
    "data": "KB kilobytes|MB megabytes|GB gigabytes|TB terabytes",
    "power": "W watts|kW kilowatts|V volts|A amperes",
    "share": "% percent per_cent|‰ per_mille",
}
# Texts of one tuple mean the same.
_NUMBER_FRAMES = (
    ("{}", "It is {}.", "The answer is {}."),
    ("{}", "It has {} seats.", "There are {} seats.", "{} seats"),
    ("{}", "It was built in {}.", "In {}.", "Built in {}."),
    ("Take {} mg.", "{} mg", "The dose is {} mg."),
    ("{}", "About {} people live there.", "It has about {} inhabitants."),
    ("Room {}", "It is in room {}.", "The room is {}."),
)
_QUANTITY_FRAMES = ("{}", "It is {}.", "The answer is {}.", "It comes to {}.", "About {}.")
_PERSON_FRAMES = (
    ("{}", "It is {}.", "It was {}.", "The answer is {}."),
    ("{}", "The author is {}.", "It was written by {}.", "{} wrote it.", "The author was {}."),
    ("{}", "{} won.", "The winner is {}.", "The winner was {}."),
    ("{}", "{} discovered it.", "It was discovered by {}."),
)
_PLACE_FRAMES = ("{}", "It is {}.", "The answer is {}.", "It is in {}.")
_RELATIONS = (
    "{} is older than {}.",
    "{} is taller than {}.",
    "{} has more money than {}.",
    "{} is the father of {}.",
    "{} is the teacher of {}.",
    "{} lives north of {}.",
    "{} came before {}.",
    "{} gave {} a book.",
    "{} sold the house to {}.",
    "{} wrote a letter to {}.",
)
_SENTENCES = (
    "The {noun} is {adjective}.",
    "It is a {adjective} {noun}.",
    "The {adjective} {noun} is in {place}.",
    "There is a {noun} in {place}.",
    "{name} bought a {adjective} {noun}.",
    "{name} lost the {noun} in {place}.",
    "The {noun} belongs to {name}.",
)
# Texts of one tuple mean the same.
_ORDERS = (
    ("The {role} of {place} is {name}.", "{name} is the {role} of {place}."),
    ("The {role} of {place} is {town}.", "{town} is the {role} of {place}.", "{town}"),
    ("In {year}, {name} was {verb}.", "{name} was {verb} in {year}."),
    ("In {year} the {noun} was sold to {name}.", "The {noun} was sold to {name} in {year}."),
    ("In {year} the {noun} was {adjective}.", "The {noun} was {adjective} in {year}."),
    (
        "It was founded in {place} in {year} by {name}.",
        "It was founded by {name} in {year} in {place}.",
        "In {year}, {name} founded it in {place}.",
    ),
    ("{place} has {number} people.", "In {place} there are {number} people."),
    ("At {number} degrees, the {noun} melts.", "The {noun} melts at {number} degrees."),
    (
        "The {event} is on {day}.",
        "The {event} takes place on {day}.",
        "On {day} there is the {event}.",
        "It is on {day}.",
        "{day}",
    ),
    ("{place} and {town}", "{town} and {place}", "They are {town} and {place}."),
    ("The {noun} and the {thing} are {adjective}.", "The {thing} and the {noun} are {adjective}."),
    ("The {noun} in {place} is {adjective}.", "In {place}, the {noun} is {adjective}."),
)
_ROLES = """
    capital mayor president king queen founder owner director currency language symbol centre
    river lake poet hero leader ruler
"""
_EVENTS = "meeting exam concert wedding match lecture party race fair election hearing"
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
_TAILS = ("", "", "", " in {place}", " in {year}", " for years")
_LEAD_INS = ("Yes, {}", "In fact, {}", "As far as I know, {}", "I think that {}", "The answer: {}")
_TRIES = 100


@dataclass(frozen=True, slots=True)
class HardSource:
    """What the pairs of one part of the split are made from; no name or word is in both parts.

    Units, days, events and the frames of the sentences are too few to split: both parts use all.
    """

    part: Part
    first_names: Sequence[str]
    surnames: Sequence[str]
    verbs: Sequence[str]
    nouns: Sequence[str]
    adjectives: Sequence[str]
    places: Sequence[str]


def hard_source(part: Part) -> HardSource:
    values = values_in(part, [topic for topics in all_topics().values() for topic in topics])

    def pool(words: str) -> list[str]:
        return [word for word in words.split() if part_of(word) == part]

    return HardSource(
        part=part,
        first_names=pool(_FIRST_NAMES),
        surnames=pool(_SURNAMES),
        verbs=pool(_VERBS),
        nouns=pool(_NOUNS),
        adjectives=pool(_ADJECTIVES),
        places=sorted({*values.cities, *values.countries}),
    )


def _invented(pool: Sequence[str], source: HardSource, rng: random.Random) -> str:
    """A name of the pool, or at times the head of one with the tail of another."""
    if rng.random() < 0.7:
        return rng.choice(pool)
    for _ in range(_TRIES):
        name = hybrid(rng.choice(pool), rng.choice(pool), rng)
        if len(name) > 2 and part_of(name) == source.part:
            return name.capitalize()
    return rng.choice(pool)


def _two(draw: Callable[[], str]) -> tuple[str, str]:
    """Two draws that differ in more than case."""
    first = second = draw()
    while second.lower() == first.lower():
        second = draw()
    return first, second


def _number(source: HardSource, rng: random.Random) -> tuple[str, str]:
    """A number of two to six digits, and the same digits in another order."""
    while True:
        number = str(rng.randrange(10 ** rng.choice((1, 1, 2, 3, 3, 4, 5)), 10**6))
        digits = list(number[: rng.choice((2, 2, 3, 4, 4, 5, 6))])
        number = "".join(digits)
        place = rng.randrange(len(digits) - 1)
        if rng.random() < 0.5:
            digits[place : place + 2] = digits[place : place + 2][::-1]
        else:
            rng.shuffle(digits)
        other = "".join(digits)
        if other != number and other[0] != "0" and _are_in(source.part, number, other):
            return number, other


def _are_in(part: Part, *texts: str) -> bool:
    return all(part_of(text) == part for text in texts)


def _digits(source: HardSource, rng: random.Random) -> tuple[str, str, bool]:
    number, other = _number(source, rng)
    frames, same = rng.choice(_NUMBER_FRAMES), rng.random() < 0.5
    second = number if same else other
    if len(number) > 2 and rng.random() < 0.15:
        place = rng.randrange(1, len(number))
        number, second = (f"{text[:place]}.{text[place:]}" for text in (number, second))
    elif len(number) > 3 and rng.random() < 0.3:
        second = f"{int(second):,}"
    return rng.choice(frames).format(number), rng.choice(frames).format(second), same


def _person(source: HardSource, rng: random.Random) -> str:
    return _invented(rng.choice((source.first_names, source.surnames)), source, rng)


def _tail(source: HardSource, rng: random.Random) -> str:
    year = rng.randrange(1500, 2030)
    return rng.choice(_TAILS).format(place=rng.choice(source.places), year=year)


def _led_in(text: str, rng: random.Random) -> str:
    """The text, or the same after words that change nothing."""
    if rng.random() < 0.4:
        return text
    return rng.choice(_LEAD_INS).format(text)


def _names(source: HardSource, rng: random.Random) -> tuple[str, str, bool]:
    frame = rng.choice(_RELATIONS)
    if rng.random() < 0.6:
        frame = f"{{}} {rng.choice(source.verbs)} {{}}{_tail(source, rng)}."
    names, same = _two(lambda: _person(source, rng)), rng.random() < 0.5
    second = names if same else names[::-1]
    return frame.format(*names), _led_in(frame.format(*second), rng), same


def _voice(source: HardSource, rng: random.Random) -> tuple[str, str, bool]:
    verb, tail = rng.choice(source.verbs), _tail(source, rng)
    active, passive = f"{{0}} {verb} {{1}}{tail}.", f"{{1}} was {verb} by {{0}}{tail}."
    names, same = _two(lambda: _person(source, rng)), rng.random() < 0.5
    second = names if same else names[::-1]
    first = rng.choice((active, active, active, passive))
    return first.format(*names), _led_in(passive.format(*second), rng), same


def _word(source: HardSource, rng: random.Random) -> tuple[str, str, bool]:
    frame = rng.choice(_SENTENCES)
    first, second, same = _filled(frame, frame, source, rng)
    return first, _led_in(second, rng), same


def _order(source: HardSource, rng: random.Random) -> tuple[str, str, bool]:
    frame, other_frame = rng.sample(rng.choice(_ORDERS), 2)
    return _filled(frame, other_frame, source, rng)


def _filled(
    frame: str, other_frame: str, source: HardSource, rng: random.Random
) -> tuple[str, str, bool]:
    """Both frames with the same words, or with another one in a place that both have."""
    same = rng.random() < 0.5
    pools: dict[str, Sequence[str]] = {
        "noun": source.nouns,
        "thing": source.nouns,
        "adjective": source.adjectives,
        "place": source.places,
        "town": source.places,
        "name": source.surnames,
        "verb": source.verbs,
        "role": _ROLES.split(),
        "event": _EVENTS.split(),
        "day": _DAYS.split(),
        "year": [str(year) for year in range(1500, 2030)],
        "number": _number(source, rng),
    }
    told = {slot: _two(lambda pool=pool: rng.choice(pool)) for slot, pool in pools.items()}  # type: ignore[misc]
    first = {slot: words[0] for slot, words in told.items()}
    second = dict(first)
    if not same:
        slots = [slot for slot in pools if f"{{{slot}}}" in frame and f"{{{slot}}}" in other_frame]
        changed = rng.choice(slots)
        second[changed] = told[changed][1]
    return frame.format(**first), other_frame.format(**second), same


def _form(source: HardSource, rng: random.Random) -> tuple[str, str, bool]:
    if rng.random() < 0.2:
        return _shortened_place(source, rng)
    first_names = _two(lambda: _invented(source.first_names, source, rng))
    surname, other = _two(lambda: _invented(source.surnames, source, rng))
    frames, same = rng.choice(_PERSON_FRAMES), rng.random() < 0.625
    whole = f"{first_names[0]} {surname}"
    if same:
        second = rng.choice((surname, surname, f"{first_names[0][0]}. {surname}", whole))
    else:
        stranger = f"{first_names[1]} {surname}"
        strangers = [stranger, stranger, other, f"{first_names[0]} {other}"]
        if first_names[0][0] != first_names[1][0]:
            strangers.append(f"{first_names[1][0]}. {surname}")
        second = rng.choice(strangers)
    return rng.choice(frames).format(whole), rng.choice(frames).format(second), same


def _shortened_place(source: HardSource, rng: random.Random) -> tuple[str, str, bool]:
    """A place of two words and its second word alone: another place, but without an article."""
    of_two_words = [place for place in source.places if place.count(" ") == 1]
    same = rng.random() < 0.3
    place = rng.choice([place for place in of_two_words if place.startswith("The ") == same])
    frames = rng.choice(_PLACE_FRAMES), rng.choice(_PLACE_FRAMES)
    whole = place.replace("The ", "the ")
    return frames[0].format(whole), frames[1].format(place.split()[1]), same


def _unit(source: HardSource, rng: random.Random) -> tuple[str, str, bool]:
    number, _ = _number(source, rng)
    units = [unit.split() for unit in rng.choice(list(_UNITS.values())).split("|")]
    same = rng.random() < 0.5
    one, other = rng.sample(units, 2)
    texts = [_quantity(number, rng.choice(one), rng)]
    texts.append(_quantity(number, rng.choice(one if same else other), rng))
    first, second = (rng.choice(_QUANTITY_FRAMES).format(text) for text in texts)
    return first, second, same


def _quantity(number: str, unit: str, rng: random.Random) -> str:
    if unit in "€$£¥":
        return f"{unit}{number}"
    if not unit[0].isalpha() and rng.random() < 0.6:
        return f"{number}{unit}"
    return f"{number} {unit.replace('_', ' ')}"


KINDS: dict[str, Callable[[HardSource, random.Random], tuple[str, str, bool]]] = {
    "digits": _digits,
    "names": _names,
    "word": _word,
    "voice": _voice,
    "order": _order,
    "form": _form,
    "unit": _unit,
}


def hard_pairs(source: HardSource, count: int, rng: random.Random) -> list[Pair]:
    """`count` pairs, as many of each kind up to one, either text first."""
    pairs: list[Pair] = []
    kinds = list(KINDS)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        first, second, same = KINDS[kind](source, rng)
        texts = [cosmetic(first, rng), cosmetic(second, rng)]
        rng.shuffle(texts)
        pairs.append(Pair(texts[0], texts[1], same, kind))
    return pairs
