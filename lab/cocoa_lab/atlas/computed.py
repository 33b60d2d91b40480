"""Questions whose answers are computed: sums, dates, units, programs, and the table of elements."""

from collections.abc import Callable
from datetime import date, timedelta
from fractions import Fraction
from random import Random

from cocoa_lab.atlas import NUM_OF_KIND, Question

_SEED = 11
_ELEMENTS = (
    "Hydrogen Helium Lithium Beryllium Boron Carbon Nitrogen Oxygen Fluorine Neon Sodium "
    "Magnesium Aluminium Silicon Phosphorus Sulfur Chlorine Argon Potassium Calcium Scandium "
    "Titanium Vanadium Chromium Manganese Iron Cobalt Nickel Copper Zinc Gallium Germanium "
    "Arsenic Selenium Bromine Krypton Rubidium Strontium Yttrium Zirconium Niobium Molybdenum "
    "Technetium Ruthenium Rhodium Palladium Silver Cadmium Indium Tin Antimony Tellurium Iodine "
    "Xenon Caesium Barium Lanthanum Cerium Praseodymium Neodymium Promethium Samarium Europium "
    "Gadolinium Terbium Dysprosium Holmium Erbium Thulium Ytterbium Lutetium Hafnium Tantalum "
    "Tungsten Rhenium Osmium Iridium Platinum Gold Mercury Thallium Lead Bismuth Polonium "
    "Astatine Radon Francium Radium Actinium Thorium Protactinium Uranium Neptunium Plutonium "
    "Americium Curium Berkelium Californium Einsteinium Fermium Mendelevium Nobelium Lawrencium "
    "Rutherfordium Dubnium Seaborgium Bohrium Hassium Meitnerium Darmstadtium Roentgenium "
    "Copernicium Nihonium Flerovium Moscovium Livermorium Tennessine Oganesson"
)
# From, to, and how many of the second are one of the first, from common to rare.
_UNITS = (
    ("kilometres", "metres", Fraction(1000)),
    ("hours", "minutes", Fraction(60)),
    ("tonnes", "kilograms", Fraction(1000)),
    ("weeks", "hours", Fraction(168)),
    ("litres", "millilitres", Fraction(1000)),
    ("feet", "inches", Fraction(12)),
    ("inches", "centimetres", Fraction(254, 100)),
    ("yards", "feet", Fraction(3)),
    ("days", "minutes", Fraction(1440)),
    ("pounds", "ounces", Fraction(16)),
    ("square metres", "square centimetres", Fraction(10_000)),
    ("feet", "centimetres", Fraction(3048, 100)),
    ("stone", "pounds", Fraction(14)),
    ("miles", "yards", Fraction(1760)),
    ("nautical miles", "metres", Fraction(1852)),
    ("hectares", "square metres", Fraction(10_000)),
)
_WORDS = ("banana", "river", "window", "orange", "kitten", "market", "garden", "bottle", "planet")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def sums() -> list[Question]:
    """Additions, subtractions and products, of one digit to five."""
    random, found = _random(), []
    operations: tuple[tuple[str, Callable[[int, int], int]], ...] = (
        ("+", int.__add__),
        ("-", int.__sub__),
        ("*", int.__mul__),
    )
    for place in range(NUM_OF_KIND):
        digits = 1 + 5 * place // NUM_OF_KIND
        sign, operate = operations[place % 3]
        a = random.randrange(10 ** (digits - 1), 10**digits)
        other = min(digits, 3) if sign == "*" else digits
        b = random.randrange(10 ** (other - 1), 10**other)
        found.append(Question("arithmetic", f"What is {a} {sign} {b}?", _number(operate(a, b))))
    return found


def dates() -> list[Question]:
    """Days between two dates of one year, and days of the week."""
    random, found = _random(), []
    for place in range(NUM_OF_KIND):
        first = date(2001 + place % 20, 1, 1) + timedelta(days=random.randrange(200))
        later = first + timedelta(days=2 + random.randrange(1 + place))
        if place % 2:
            text = f"How many days after {_told(first)} is {_told(later)}?"
            found.append(Question("date", text, _number((later - first).days)))
        else:
            text = f"{_told(first)} was a {_DAYS[first.weekday()]}. Which day of the week was "
            found.append(Question("date", f"{text}{_told(later)}?", (_DAYS[later.weekday()],)))
    return found


def units() -> list[Question]:
    """From one unit to another, by whole numbers first."""
    random, found = _random(), []
    for place in range(NUM_OF_KIND):
        first, second, factor = _UNITS[len(_UNITS) * place // NUM_OF_KIND]
        amount = Fraction(random.randrange(2, 40))
        if place % 3 == 2:
            amount /= 2
        text = f"How many {second} are {_decimal(amount)} {first}?"
        found.append(Question("unit", text, _number(amount * factor)))
    return found


def programs() -> list[Question]:
    """What short programs in Python print, from one call to a loop with a condition."""
    random, found = _random(), dict[str, Question]()
    while len(found) < NUM_OF_KIND:
        word = random.choice(_WORDS)
        a, b = random.randrange(2, 9), random.randrange(10, 30)
        code, printed = _program(5 * len(found) // NUM_OF_KIND, word, a, b)
        text = f"What does this Python program print?\n\n{code}"
        found[text] = Question("program", text, _number(printed))
    return list(found.values())


def _program(level: int, word: str, a: int, b: int) -> tuple[str, int]:
    if level == 0:
        return f'print(len("{word}") + {a})', len(word) + a
    if level == 1:
        return f"print({b} // {a} + {b} % {a})", b // a + b % a
    if level == 2:
        return f"print(sum(range({a}, {b})))", sum(range(a, b))
    if level == 3:
        code = f"total = 0\nfor i in range({b}):\n    if i % {a} == 0:\n        total += i\n"
        return f"{code}print(total)", sum(i for i in range(b) if i % a == 0)
    code = f'print(sum({a} ** i for i, letter in enumerate("{word}") if letter in "aeiou"))'
    return code, sum(a**i for i, letter in enumerate(word) if letter in "aeiou")


def elements() -> list[Question]:
    """Numbers of elements, and elements of numbers."""
    also = {"Aluminium": "Aluminum", "Sulfur": "Sulphur", "Caesium": "Cesium"}
    found = []
    for number, name in enumerate(_ELEMENTS.split(), start=1):
        if number % 2:
            text = f"What is the atomic number of {name.lower()}?"
            found.append(Question("element", text, _number(number)))
        else:
            text = f"Which chemical element has the atomic number {number}?"
            names = [name, also[name]] if name in also else [name]
            found.append(Question("element", text, tuple(names)))
    return found


def _random() -> Random:
    return Random(_SEED)  # noqa: S311 - draws questions, and no secrets


def _told(day: date) -> str:
    return f"{day.day} {day:%B %Y}"


def _decimal(value: Fraction) -> str:
    """Without zeros at its end.

    >>> _decimal(Fraction(381, 2)), _decimal(Fraction(3))
    ('190.5', '3')
    """
    return f"{float(value):.4f}".rstrip("0").rstrip(".")


def _number(value: int | Fraction) -> tuple[str, ...]:
    return (_decimal(Fraction(value)),)
