"""Pairs of answers of which it is known whether they mean the same, and what each similarity says.

    python -m cocoa_lab.pairs OUT --similarity added,jaccard,embedding

640 pairs by rule, each with its question, in eight kinds of which half mean the same. They are
compared as a request's samples are: with their question, and by the rules before every model.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Many
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from app.cli.environment import settings_or_exit
from app.scoring.ask import Ask
from app.scoring.scorer import Scorer
from app.settings import Settings
from cocoa_lab.loading import lab_scorer
from cocoa_lab.metrics import auroc, ece
from cocoa_lab.rendering import markdown_table
from cocoa_lab.replaying import RecordedGenerator, replaying
from models.records import Generation, SamplingParams, Sequence
from workers.protocol import GeneratorInfo

_HALF = 40  # pairs of a kind that mean the same, and as many that do not
_AT_ONCE = 32
_ASKED = ("inconsistency",)
_RECORDED = frozenset({"sample_texts"})


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two answers to one question."""

    kind: str
    question: str
    first: str
    second: str
    is_same: bool


_CAPITALS = (
    "Peru Lima|Kenya Nairobi|Norway Oslo|Japan Tokyo|Egypt Cairo|Cuba Havana|Chile Santiago|"
    "Ghana Accra|Nepal Kathmandu|Oman Muscat|Iraq Baghdad|Laos Vientiane|Malta Valletta|Qatar Doha|"
    "Spain Madrid|Syria Damascus|Tonga Nukualofa|Yemen Sanaa|Iran Tehran|Mali Bamako"
)
_TELLING = (
    "The capital of {country} is {city}.",
    "{city} is the capital of {country}.",
    "{country}'s capital is called {city}.",
    "It is {city}.",
    "{city}",
)
_IN_OTHER_LANGUAGES = (
    "Die Hauptstadt von {country} ist {city}.",
    "La capital es {city}.",
    "La capitale est {city}.",
    "A capital é {city}.",
)
_STATEMENTS = (
    "The plant is {}poisonous.|The plant isn't poisonous.",
    "The road is {}open.|The road isn't open.",
    "The film was {}successful.|The film wasn't successful.",
    "The drug is {}safe for children.|The drug isn't safe for children.",
    "The museum is {}free.|The museum isn't free.",
    "The file can {}be restored.|The file can't be restored.",
    "The bridge was {}damaged.|The bridge wasn't damaged.",
    "The lake is {}salty.|The lake isn't salty.",
    "The train does {}stop here.|The train doesn't stop here.",
    "The results are {}final.|The results aren't final.",
)
_VERBS = "hired|paid|called|followed|married|beat|taught|sued|helped|replaced"
_NAMES = (("Anna", "Bert"), ("Carla", "Dirk"), ("Emma", "Felix"), ("Greta", "Hugo"))
_PEOPLE = (
    "Leo Tolstoy|Jane Austen|Marie Curie|Isaac Newton|Ada Lovelace|Charles Darwin|Albert Einstein|"
    "Victor Hugo|Emily Dickinson|Franz Kafka|Johann Bach|Frida Kahlo|Nelson Mandela|Rosa Parks|"
    "Alan Turing|Virginia Woolf|Oscar Wilde|Mark Twain|Niels Bohr|Max Planck"
)
_UNITS = (
    "km|kilometres|miles",
    "kg|kilograms|pounds",
    "cm|centimetres|inches",
    "°C|degrees Celsius|degrees Fahrenheit",
    "l|litres|gallons",
    "h|hours|minutes",
    "m|metres|feet",
    "g|grams|ounces",
)
_SPELLED = (
    "4 four|7 seven|9 nine|11 eleven|12 twelve|15 fifteen|18 eighteen|20 twenty|30 thirty|40 forty"
)


def paraphrases() -> Iterator[LabelledPair]:
    """One capital in two sentences, and two capitals in two sentences."""
    for number, (country, city, other) in enumerate(_capitals()):
        question = f"What is the capital of {country}?"
        first, second = _TELLING[number % 5], _TELLING[(number + 1 + number // 20) % 5]
        told = first.format(country=country, city=city)
        for is_same, named in ((True, city), (False, other)):
            again = second.format(country=country, city=named)
            yield LabelledPair("paraphrase", question, told, again, is_same)


def numbers() -> Iterator[LabelledPair]:
    """One number written in two ways, and its digits in another order."""
    question = "How many seats does the hall have?"
    for number in range(_HALF // 2):
        spelled = _SPELLED.split("|")
        value, word = spelled[number % 10].split()
        _, other = spelled[(number + 3) % 10].split()
        frame = ("It has {} seats.", "There are {} seats in the hall.")[number // 10]
        yield _pair("number", question, frame, value, word, is_same=True)
        yield _pair("number", question, frame, value, other, is_same=False)
        many = 1027 + 311 * number
        digits = str(many)
        swapped = digits[:2] + digits[:1:-1]
        if swapped == digits:
            swapped = digits[1] + digits[0] + digits[2:]
        yield _pair("number", question, frame, digits, f"{many:,}", is_same=True)
        yield _pair("number", question, frame, digits, swapped, is_same=False)


def negations() -> Iterator[LabelledPair]:
    """A statement, the same in other words for "not", and its negation."""
    for number, statement in enumerate(islice(cycle(_STATEMENTS), _HALF)):
        frame, _, short = statement.partition("|")
        said, denied = frame.format(""), frame.format("not ")
        before = ("", "Yes. ", "In fact, ", "As far as I know, ")[number // len(_STATEMENTS)]
        question = "What is known of it?"
        yield LabelledPair("negation", question, before + denied, short, is_same=True)
        yield LabelledPair("negation", question, before + said, short, is_same=False)


def entities() -> Iterator[LabelledPair]:
    """One city with and without words around it, and two cities in the same words."""
    for number, (country, city, other) in enumerate(_capitals()):
        question, frame = (
            f"What is the capital of {country}?",
            _TELLING[(number + number // 20) % 4],
        )
        told = frame.format(country=country, city=city)
        yield LabelledPair("entity", question, told, city, is_same=True)
        again = frame.format(country=country, city=other)
        yield LabelledPair("entity", question, told, again, is_same=False)


def orders() -> Iterator[LabelledPair]:
    """Who did what to whom, in the passive, and the other way round."""
    for verb in _VERBS.split("|"):
        done = {"taught": "taught", "beat": "beaten"}.get(verb, verb)
        for first, second in _NAMES:
            told, question = f"{first} {verb} {second}.", "What happened?"
            passive = f"{second} was {done} by {first}."
            yield LabelledPair("order", question, told, passive, is_same=True)
            yield LabelledPair("order", question, told, f"{second} {verb} {first}.", is_same=False)


def parts() -> Iterator[LabelledPair]:
    """A person by the whole name and by the last, and another of the same first name."""
    question = "Who was it?"
    people = _PEOPLE.split("|")
    for number, name in enumerate(islice(cycle(people), _HALF)):
        first, last = name.split()
        frame = ("{}", "It was {}.")[number // len(people)]
        other = people[(number + 7) % len(people)].split()[1]
        yield _pair("part and whole", question, frame, name, last, is_same=True)
        yield _pair("part and whole", question, frame, name, f"{first} {other}", is_same=False)


def units() -> Iterator[LabelledPair]:
    """A measure with its unit in short and in full, and with another unit."""
    question = "How much is it?"
    for number, units_of in enumerate(islice(cycle(_UNITS), _HALF)):
        short, full, other = units_of.split("|")
        amount = 3 + 7 * number
        yield _pair(
            "unit", question, "It is {}.", f"{amount} {short}", f"{amount} {full}", is_same=True
        )
        yield _pair(
            "unit", question, "It is {}.", f"{amount} {full}", f"{amount} {other}", is_same=False
        )


def languages() -> Iterator[LabelledPair]:
    """One capital in two languages, and two capitals."""
    for number, (country, city, other) in enumerate(_capitals()):
        question = f"What is the capital of {country}?"
        told, frame = f"The capital is {city}.", _IN_OTHER_LANGUAGES[(number + number // 20) % 4]
        for is_same, named in ((True, city), (False, other)):
            again = frame.format(country=country, city=named)
            yield LabelledPair("other language", question, told, again, is_same)


_KINDS: Many[Callable[[], Iterator[LabelledPair]]] = (
    *(paraphrases, numbers, negations, entities),
    *(orders, parts, units, languages),
)


def labelled_pairs() -> list[LabelledPair]:
    """All, kind by kind."""
    return [pair for pairs_of in _KINDS for pair in pairs_of()]


async def similarities(
    pairs: Many[LabelledPair], names: Many[str], scorer: Scorer
) -> dict[str, list[float]]:
    """What each similarity function says of each pair, in [0, 1]."""

    async def of(pair: LabelledPair, name: str) -> float:
        sampling = SamplingParams(num_samples=1)
        ask = Ask(prompt=pair.question, sampling=sampling, estimators=_ASKED, similarity=name)
        drawn = Generation(_said(pair.first), (_said(pair.second),), 0, 0, "", "")
        result = await replaying(scorer, _RECORDED, drawn).run(ask)
        unlike = result.scores["inconsistency"]
        if unlike is None:
            raise ValueError(f"{name} compares no {pair.kind}: {result.reasons}")
        return 1.0 - unlike

    found: dict[str, list[float]] = {}
    for name in names:
        found[name] = []
        for start in range(0, len(pairs), _AT_ONCE):
            some = pairs[start : start + _AT_ONCE]
            found[name] += await asyncio.gather(*(of(pair, name) for pair in some))
    return found


def table(pairs: Many[LabelledPair], said: Mapping[str, Many[float]]) -> str:
    """AUROC by kind, of all, and the calibration error of the similarity as a probability."""
    kinds = np.array([pair.kind for pair in pairs])
    same = np.array([float(pair.is_same) for pair in pairs])
    rows = []
    for name, values in said.items():
        s = np.array(values)
        row = [f"`{name}`"]
        for kind in dict.fromkeys(kinds.tolist()):
            own = kinds == kind
            row.append(f"{auroc(-s[own], same[own]):.3f}")
        rows.append([*row, f"{auroc(-s, same):.3f}", f"{ece(s, same):.3f}"])
    return markdown_table(["", *dict.fromkeys(kinds.tolist()), "all", "ECE"], rows)


def main(
    out: Annotated[Path, typer.Argument(help="File of the pairs with what was said, .jsonl.")],
    similarity: Annotated[str, typer.Option(help="Functions with commas between.")] = "added",
) -> None:
    """Compare all pairs by each function of this deployment, and print how well it tells them."""
    pairs, names = labelled_pairs(), similarity.split(",")
    settings = settings_or_exit()

    async def compared() -> dict[str, list[float]]:
        async with lab_scorer(settings, _no_model(settings)) as scorer:
            return await similarities(pairs, names, scorer)

    said = asyncio.run(compared())
    with out.open("w", encoding="utf-8") as file:
        for number, pair in enumerate(pairs):
            values = {name: said[name][number] for name in names}
            line = [pair.kind, pair.question, pair.first, pair.second, pair.is_same, values]
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
    typer.echo(table(pairs, said))


def _no_model(settings: Settings) -> RecordedGenerator:
    """The language model of the settings, which is asked for nothing."""
    name = settings.generation.model
    return RecordedGenerator(GeneratorInfo("", name, "", "", frozenset(), 0))


def _said(text: str) -> Sequence:
    """An answer of one token, of which nothing but its text is read."""
    return Sequence(text, text, 1, "stop")


def _capitals() -> Iterator[tuple[str, str, str]]:
    """Each country twice, with its capital and that of another."""
    known = [one.split() for one in _CAPITALS.split("|")]
    for number, (country, city) in enumerate(islice(cycle(known), _HALF)):
        _, other = known[(number + 3 + number // len(known)) % len(known)]
        yield country, city, other


def _pair(
    kind: str, question: str, frame: str, first: str, second: str, *, is_same: bool
) -> LabelledPair:
    return LabelledPair(kind, question, frame.format(first), frame.format(second), is_same)


if __name__ == "__main__":
    typer.run(main)
