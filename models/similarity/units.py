"""Pure: units of measures and money, by their signs and by their names in six languages."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple


class Measure(NamedTuple):
    """The unit of measure of a number.

    Attributes:
        dimension: the quantity measured.
        factor: of the unit in the base unit of its dimension.
        zero: of the unit, in the base unit; not 0 for temperatures.
    """

    dimension: str
    factor: Fraction
    zero: Fraction = Fraction()


_PREFIXES = {
    "n": ("1e-9", "nano"),
    "μ": ("1e-6", "micro mikro"),
    "m": ("1e-3", "milli mili milí"),
    "c": ("1e-2", "centi centí zenti"),
    "d": ("1e-1", "deci dezi"),
    "h": ("1e2", "hecto hekto"),
    "k": ("1e3", "kilo kiló chilo quilo quiló quilô"),
    "M": ("1e6", "mega"),
    "G": ("1e9", "giga"),
    "T": ("1e12", "tera"),
}
_METERS = "meter meters metre metres metern mètre mètres metro metros metri"
_GRAMS = "gram grams gramm gramme grammes gramo gramos grammi grama gramas"
_LITERS = "liter liters litre litres litro litros litri"
_SECONDS = "sec second seconds sekunde sekunden seconde secondes segundo segundos secondo secondi"
_METRIC = (  # dimension, sign, prefixes, names; of prefixes with one letter the first is meant
    ("length", "m", "kcmμn", _METERS),
    ("mass", "g", "kmμ", _GRAMS),
    ("volume", "l", "mcdhμ", _LITERS),
    ("time", "s", "mμn", _SECONDS),
    ("power", "W", "kMGTmμ", "watt watts"),
    ("frequency", "Hz", "kMG", "hertz"),
    ("voltage", "V", "kmμ", "volt volts"),
    ("current", "A", "mkμ", "ampere amperes amp amps"),
    ("force", "N", "kM", "newton newtons"),
    ("energy", "J", "kMG", "joule joules"),
    ("pressure", "Pa", "hkMGm", "pascal pascals"),
    ("data", "B", "kMGT", "byte bytes"),
)
_OTHERS = (
    *(("length", f, w) for f, w in ((1e-3, "мм"), (1e-2, "см"), (1, "м"), (1e3, "км"))),
    ("length", 1609.344, "mile miles mi meile meilen"),
    ("length", 0.3048, "foot feet ft"),
    ("length", 0.0254, "inch inches"),
    ("length", 0.9144, "yard yards yd yds"),
    *(("mass", f, w) for f, w in ((1e-6, "mcg ug"), (1e-3, "мг"), (1e3, "кг kilo kilos"))),
    ("mass", 1e6, "t ton tons tonne tonnes tonnen т"),
    ("mass", 453.59237, "lb lbs pound pounds £ gbp"),  # both are called pounds
    ("mass", 453.59237 / 16, "oz ounce ounces"),
    ("time", 60, "min mins minute minutes minuten minutos minuti"),
    ("time", 3600, "h hr hrs hour hours stunde stunden heure heures hora horas ora ore"),
    ("time", 86400, "day days tag tage tagen jour jours día días dias giorni"),
    ("time", 604800, "week weeks wk wks woche wochen semaine semaines semana semanas settimane"),
    ("time", 2629800, "month months monat monate monaten mois mes meses mese mesi mês"),
    ("time", 31557600, "year years yr yrs jahr jahre jahren an ans année années año años"),
    ("time", 31557600, "anno anni anos"),
    ("volume", 3.785411784, "gallon gallons gal"),
    *(("speed", f, w) for f, w in ((3.6, "m/s"), (1, "km/h kmh kph stundenkilometer"))),
    *(
        ("speed", f, w)
        for f, w in ((3600, "km/s"), (1.609344, "mph mi/h"), (1.852, "kn knot knots"))
    ),
    *(("length^2", f, w) for f, w in ((1e4, "ha hectare hectares"), (4046.8564224, "acre acres"))),
    *(("energy", f, w) for f, w in ((3600, "wh watthours"), (3.6e6, "kwh kilowatthours"))),
    *(("energy", f, w) for f, w in ((3.6e9, "mwh megawatthours"), (3.6e12, "gwh gigawatthours"))),
    ("share", 0.01, "% percent prozent pct"),
    ("share", 0.001, "‰ promille permille"),
    *(("year after Christ", f, w) for f, w in ((-1, "bc bce"), (1, "ad ce"))),
    ("dollar", 1, "$ us$ usd dollar dollars"),
    ("euro", 1, "€ eur euro euros"),
    ("yen", 1, "¥ yen jpy"),
    ("rupee", 1, "₹ inr rupee rupees"),
    ("rouble", 1, "₽ rub ruble rubles rouble roubles рубль рубля рублей"),
    *((code, 1, code) for code in ("chf", "cad", "aud", "nzd", "sek", "nok", "dkk", "pln", "cny")),
)
DEGREES = frozenset(("degree", "degrees", "grad", "degrés", "grados", "gradi", "graus"))
_TEMPERATURES = (  # the unit in degrees Celsius, its zero, how people write it
    (Fraction(1), Fraction(0), "°c celsius"),
    (Fraction(5, 9), Fraction(-160, 9), "°f fahrenheit"),
    (Fraction(1), Fraction("-273.15"), "kelvin kelvins"),
)
# In front of a unit, or behind it.
POWERS = {"square": 2, "sq": 2, "cubic": 3, "cu": 3, "squared": 2}
POWERS |= {"carré": 2, "carrés": 2, "cuadrado": 2, "cuadrados": 2, "quadrati": 2, "quadrados": 2}
POWERS |= {"cube": 3, "cubes": 3, "cubed": 3, "cúbico": 3, "cúbicos": 3, "cubi": 3}
PER = frozenset(("per", "an", "a", "pro", "par", "por"))


def raised(unit: Measure, power: int) -> Measure:
    """A unit to a power: square metres."""
    return unit if power == 1 else Measure(f"{unit.dimension}^{power}", unit.factor**power)


def _metric() -> Iterator[tuple[str, Measure]]:
    for dimension, sign, prefixes, names in _METRIC:
        for name in names.split():
            yield name, Measure(dimension, Fraction(1))
        yield sign, Measure(dimension, Fraction(1))
        for prefix in prefixes:
            factor, words = _PREFIXES[prefix]
            unit = Measure(dimension, Fraction(factor))
            yield prefix + sign, unit
            for word in words.split():
                yield from ((word + name, unit) for name in names.split())


def _units() -> dict[str, Measure]:
    units: dict[str, Measure] = {}
    for dimension, number, words in _OTHERS:
        units |= dict.fromkeys(words.split(), Measure(dimension, Fraction(str(number))))
    for factor, zero, words in _TEMPERATURES:
        units |= dict.fromkeys(words.split(), Measure("temperature", factor, zero))
    units |= _metric()
    for word, unit in list(units.items()):
        if unit.dimension == "length":
            units |= {f"{word}2": raised(unit, 2), f"quadrat{word}": raised(unit, 2)}
            units |= {f"{word}3": raised(unit, 3), f"kubik{word}": raised(unit, 3)}
        if len(word) > 1:  # of one letter, N is a unit, and n none
            units.setdefault(word.casefold(), unit)
    return units


_UNITS: Mapping[str, Measure] = _units()


def unit_of(text: str) -> Measure | None:
    """The unit that a word or sign stands for; None for none.

    >>> unit_of("KG")
    Measure(dimension='mass', factor=Fraction(1000, 1), zero=Fraction(0, 1))
    """
    return _UNITS.get(text) or _UNITS.get(text.casefold())


def speed_of(unit: Measure, time: Measure) -> Measure | None:
    """A length in an hour or a second; None where that is no speed."""
    if unit.dimension != "length" or time.dimension != "time" or time.factor not in (1, 3600):
        return None
    return Measure("speed", unit.factor / time.factor * Fraction("3.6"))
