"""Questions that take several steps, with the steps: sums, products, and facts of the world."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cocoa_lab.embedded.topics import Split, definite, split
from cocoa_lab.embedded.world.document import Document, user, with_thoughts
from cocoa_lab.embedded.world.grammar import listed, written
from cocoa_lab.embedded.world.knowledge import Fact, Knowledge
from cocoa_lab.embedded.world.pen import Pen
from cocoa_lab.embedded.world.places import Place, texts

SHARE_WITHOUT_THINKING = 0.12
ANSWERS = ("{}", "{}", "The answer is {}.")


@dataclass(frozen=True, slots=True)
class Problem:
    """A question with its steps.

    Attributes:
        key: what decides whether it is held out; the same for the same problem in other words.
        facts: of the world, that the steps state; `answer` follows from them.
    """

    kind: str
    key: str
    question: str
    steps: tuple[str, ...]
    answer: str
    facts: tuple[Fact, ...] = ()


def _sum(knowledge: Knowledge, pen: Pen) -> Problem:
    """Three or four numbers, added one after another."""
    numbers = [pen.rng.randint(2, 99) for _ in range(pen.rng.choice((3, 3, 4)))]
    total, steps = numbers[0], []
    for number in numbers[1:]:
        steps.append(f"{total} + {number} = {total + number}.")
        total += number
    terms = " + ".join(map(str, numbers))
    question = pen.choose(("What is {}?", "Calculate {}.", "Add up: {}")).format(terms)
    return Problem("sum", f"sum:{sorted(numbers)}", question, tuple(steps), str(total))


def _parts(a: int, b: int) -> tuple[list[str], int]:
    """The steps of a product of a two-digit and a one-digit number, and the product."""
    tens, ones = a // 10 * 10, a % 10
    if not tens or not ones:
        return [f"{a} * {b} = {a * b}."], a * b
    steps = [f"{tens} * {b} = {tens * b}.", f"{ones} * {b} = {ones * b}."]
    return [*steps, f"{tens * b} + {ones * b} = {a * b}."], a * b


def _product(knowledge: Knowledge, pen: Pen) -> Problem:
    a, b = pen.rng.randint(11, 99), pen.rng.randint(3, 9)
    steps, product = _parts(a, b)
    question = pen.choose(("What is {a} * {b}?", "Multiply {a} by {b}.", "Calculate {a} * {b}."))
    return Problem(
        "product", f"product:{a}:{b}", question.format(a=a, b=b), tuple(steps), str(product)
    )


def _mixed(knowledge: Knowledge, pen: Pen) -> Problem:
    """A product, and a number added to it or taken from it."""
    a, b, c = pen.rng.randint(11, 60), pen.rng.randint(2, 9), pen.rng.randint(2, 99)
    steps, product = _parts(a, b)
    sign = "-" if c < product and pen.chance(0.5) else "+"
    result = product + c if sign == "+" else product - c
    steps.append(f"{product} {sign} {c} = {result}.")
    question = pen.choose(("What is {}?", "Calculate {}.")).format(f"{a} * {b} {sign} {c}")
    return Problem("mixed", f"mixed:{a}:{b}:{c}{sign}", question, tuple(steps), str(result))


_COUNTED = {
    "language": "How many neighbours of {place} have {value} as their language?",
    "currency": "How many neighbours of {place} have the {value} as their currency?",
}


def _neighbours(knowledge: Knowledge, pen: Pen) -> Problem | None:
    """How many neighbours of a country have something in common."""
    country = knowledge.draw(pen, "country")
    neighbours = knowledge.tell(country, "neighbours", pen)
    if neighbours is None:
        return None
    attribute = pen.choose(("language", "currency"))
    names = texts(neighbours.value)
    facts: list[Fact] = []
    for name in names:
        fact = knowledge.tell(knowledge.world.places[name], attribute, pen)
        if fact is None:
            return None
        facts.append(fact)
    wanted = str(pen.rng.choice(facts).value)
    if pen.chance(0.1):
        wanted = str(country.facts[attribute])
    steps = [f"The neighbours are {listed(tuple(map(definite, names)))}."]
    count = 0
    for fact in facts:
        count += fact.value == wanted
        steps.append(f"{fact.place}: {fact.value}, {count}.")
    return Problem(
        kind="neighbours",
        key=f"neighbours:{country.name}:{attribute}:{wanted}",
        question=_COUNTED[attribute].format(place=definite(country.name), value=wanted),
        steps=tuple(steps),
        answer=str(count),
        facts=(neighbours, *facts),
    )


def _larger(knowledge: Knowledge, pen: Pen) -> Problem | None:
    """Which of two places has more people."""
    kind = pen.rng.choice(("country", "city"))
    first, second = (knowledge.draw(pen, "country" if kind == "country" else "city") for _ in "ab")
    told = [knowledge.tell(place, "population", pen) for place in (first, second)]
    facts = [fact for fact in told if fact is not None]
    if len(facts) < 2 or facts[0].value == facts[1].value:
        return None
    steps = []
    for fact in facts:
        steps.append(f"{definite(fact.place)} has about {written('population', fact.value)}.")
    most = max(facts, key=lambda fact: int(str(fact.value)))
    question = pen.choose(("Which has more people, {} or {}?", "Which is larger, {} or {}?"))
    names = [definite(place.name) for place in (first, second)]
    return Problem(
        kind="larger",
        key=f"larger:{sorted(names)}",
        question=question.format(*names),
        steps=tuple(step[0].upper() + step[1:] for step in steps),
        answer=most.place,
        facts=tuple(facts),
    )


# What is asked of the country of a city, or of the country whose capital it is.
_HOPS = {
    "neighbours": "How many neighbours does the country of {city} have?",
    "capital": "What is the capital of the country of {city}?",
    "area": "How large is the country of {city}, in square kilometres?",
}


def _hop(knowledge: Knowledge, pen: Pen) -> Problem | None:
    """A fact of the country of a city."""
    city = knowledge.draw(pen, "city")
    attribute = pen.choose(tuple(_HOPS))
    where = knowledge.tell(city, "country", pen)
    if where is None:
        return None
    country = knowledge.world.places[str(where.value)]
    fact = knowledge.tell(country, attribute, pen)
    if fact is None:
        return None
    steps = [f"{city.name} is in {definite(country.name)}."]
    answer = written(attribute, fact.value)
    steps.append(f"Its {attribute}: {answer}.")
    if isinstance(fact.value, tuple):
        answer = str(len(fact.value))
    return Problem(
        kind="hop",
        key=f"hop:{city.name}:{attribute}",
        question=_HOPS[attribute].format(city=city.name),
        steps=tuple(steps),
        answer=answer,
        facts=(where, fact),
    )


def _founded(knowledge: Knowledge, pen: Pen) -> Place:
    while True:
        place = knowledge.draw(pen)
        if "founded" in place.facts:
            return place


def _years(knowledge: Knowledge, pen: Pen) -> Problem | None:
    """How many years lie between two foundings."""
    places = [_founded(knowledge, pen) for _ in "ab"]
    told = [knowledge.tell(place, "founded", pen) for place in places]
    facts = [fact for fact in told if fact is not None]
    if len(facts) < 2 or facts[0].value == facts[1].value:
        return None
    early, late = sorted(int(str(fact.value)) for fact in facts)
    steps = [f"{fact.place} was founded in {fact.value}." for fact in facts]
    steps.append(f"{late} - {early} = {late - early}.")
    question = "How many years lie between the founding of {} and that of {}?"
    names = [place.name for place in places]
    return Problem(
        kind="years",
        key=f"years:{sorted(names)}",
        question=question.format(*names),
        steps=tuple(steps),
        answer=str(late - early),
        facts=tuple(facts),
    )


# With their shares.
KINDS: Mapping[Callable[[Knowledge, Pen], Problem | None], float] = {
    _sum: 0.2,
    _product: 0.17,
    _mixed: 0.15,
    _neighbours: 0.2,
    _larger: 0.12,
    _hop: 0.13,
    _years: 0.03,
}


def problem(knowledge: Knowledge, pen: Pen, part: Split = "train") -> Problem:
    """A problem of one part of the split."""
    while True:
        draw = pen.rng.choices(list(KINDS), list(KINDS.values()))[0]
        drawn = draw(knowledge, pen)
        if drawn is not None and split(drawn.key) == part:
            return drawn


def reasoning(knowledge: Knowledge, pen: Pen) -> Document:
    """A problem, most often with its steps between the tags."""
    drawn = problem(knowledge, pen)
    answer = pen.choose(ANSWERS).format(drawn.answer)
    thinks = not pen.chance(SHARE_WITHOUT_THINKING)
    return Document(
        kind="reasoning",
        messages=[user(drawn.question)],
        reply=with_thoughts(" ".join(drawn.steps), answer) if thinks else answer,
        thinking=thinks,
        facts=drawn.facts if thinks else (),
    )
