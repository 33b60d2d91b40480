"""Pure: texts with the numbers in digits that people spell in words or in signs of their own."""

import re
from collections.abc import Callable
from fractions import Fraction

# Chinese characters of numbers: two or more, or one that counts something; 一 alone is an article.
_HAN_DIGITS = dict(zip("零〇一二两三四五六七八九", (0, 0, 1, 2, 2, *range(3, 10)), strict=True))
_HAN_FACTORS = {"亿": 10**8, "億": 10**8, "万": 10**4, "千": 1000, "百": 100, "十": 10}
_HAN = re.compile(
    "[一二两三四五六七八九十百千][零〇一二两三四五六七八九十百千万亿億]{1,20}"
    "|(?<=[第午前後])[一二三四五六七八九十]|(?<=分之)[一二三四五六七八九十]|[二三四五六七八九十](?=分之)"
    "|[二两三四五六七八九十](?=[个個年月日人岁歳歲次度座名本])|一(?=[月日])"
)
_SCALED_BY_HAN = re.compile(r"(?<![\d.,])(\d{1,12}(?:\.\d{1,6})?)([百千万亿億]{1,2})(?!\d)")
_TEENS = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth
thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"""
_ORDINALS = {word: number for number, word in enumerate(_TEENS.split(), 1)} | {"thirtieth": 30}
_TENS = {"twenty": 20, "thirty": 30}
_ORDINAL = rf"(?:({'|'.join(_TENS)})[- ])?({'|'.join(_ORDINALS)})"
# A whole answer, behind a name ("Louis the Fourteenth"), or before what is counted so.
_COUNTED = "century|centuries|amendment|edition|floor|anniversary|avenue"
_WHERE_ORDINALS = [
    re.compile(rf"(?i)(?<!\w)(?:(?<=the )|(?<!. )){_ORDINAL}(?=\W*$)"),
    re.compile(rf"(?<=[a-z] )the (?=[A-Z])(?i:{_ORDINAL})(?=\W*$)"),
    re.compile(rf"(?i)\b{_ORDINAL}(?=\s+(?:{_COUNTED})\b)"),
]
_HOURS = "one two three four five six seven eight nine ten eleven twelve"
_HOUR = {word: number for number, word in enumerate(_HOURS.split(), 1)}
_NUMBER = rf"(?P<hour>{'|'.join(_HOUR)}|\d{{1,2}})"
_MINUTES = {"half": 30, "quarter": 15, "ten": 10, "twenty": 20, "five": 5, "twenty-five": 25}
_TIMES = {"once": 1, "einmal": 1, "twice": 2, "zweimal": 2, "thrice": 3, "dreimal": 3}
_EVERY = r"(?=\s+(?:a|an|per|every|each|daily|weekly|am|pro|im|täglich)\b)"
_DECADES = "twenties thirties forties fifties sixties seventies eighties nineties"
_DECADE = {word: f"19{tens}0s" for tens, word in enumerate(_DECADES.split(), 2)}
_UNITS = "second|minute|hour|day|week|month|year|decade|century|mile|kilometre|kilometer"
_TITLES = {"Dr": "Doctor", "Prof": "Professor", "St": "Saint", "Mt": "Mount"}
_GERMAN = r"(?:\b|(?<=tausend))(ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn)"
_NAMES = """times cdot pm % log alpha beta gamma delta epsilon theta lambda mu pi rho sigma tau phi
omega Gamma Delta Theta Lambda Pi Sigma Phi Omega"""
_SIGNS = "* * ± % log α β γ δ ε θ λ μ π ρ σ τ φ ω Γ Δ Θ Λ Π Σ Φ Ω"
_LATEX = dict(zip(_NAMES.split(), _SIGNS.split(), strict=True))


def _clock(match: re.Match[str]) -> str:
    said = {name: part.lower() for name, part in match.groupdict().items()}
    minutes = 60 * int(_HOUR.get(said["hour"], said["hour"]))
    minutes += _MINUTES.get(said.get("past", ""), 0) - _MINUTES.get(said.get("to", ""), 0)
    return f"{minutes // 60 or 12}:{minutes % 60:02}"


# A part that a text in lower case must have, another spelling, and that with which it is compared.
_ROWS: tuple[tuple[str, str, str | Callable[[re.Match[str]], str]], ...] = (
    ("frac", r"(?<=\d)(?=\\[dt]?frac)", " "),
    ("frac", r"\\[dt]?frac\{(\w+)\}\{(\w+)\}", r"\1/\2"),
    ("sqrt", r"\\sqrt(?:\{(\w+)\})?|\bsqrt\((\w+)\)", r"√\1\2"),
    ("\\", rf"\\({'|'.join(_LATEX)})(?![a-z])", lambda name: _LATEX[name[1]]),
    ("$", r"\$(?=\S)([^$]*[^\s$])\$(?!\d)", r" \1 "),
    ("\\", r"\\(?:boxed|text|mathrm|mathbf)\{([^{}]*)\}|\\[()\[\],;! ]", r" \1 "),
    ("pi", r"(?<![^\W_])pi(?![^\W_])", "π"),
    ("π", r"(?<=[^\W_])(?=π)|(?<=π)(?=\w)", " "),
    ("-", r"(?<=[a-z])-(?=(?:half|third|quarter|fifth|tenth)s?\b)", " "),
    ("x", r"(?<=\d)(?<!\b0)\s?x\s?(?=\d)", " * "),
    ("^{", r"\^\{(-?\w+)\}", r"^\1"),
    ("^", r"\^\{?(\d?[-+])\}?(?![\w(])", r"\1"),  # a charge
    ("and", rf"(?i)\b{_NUMBER} and (?:a|one) half\b", r"\1 1/2"),
    ("half", r"(?i)(?<![\w-])one 1/2", "1 1/2"),
    ("null", r"(?:(?<=[\[:,]\s)|(?<=[\[:,])|^)null(?=\s*(?:[,\]}]|$))", "nil"),  # of JSON
    ("per cent", r"(?i)\bper cent\b", "percent"),
    ("no,", r"\bNo,(?= ?\d)", "Not,"),  # "No 7" is a number
    ("up to", r"(?i)\bup to(?=\s*[\d$€£])", "at most"),
    ("noon", r"(?i)\b(?:12 )?noon\b", "12:00"),
    ("midnight", r"(?i)\bmidnight\b", "0:00"),
    (" uhr", r"\b(\d{1,2}) Uhr(?: ([0-5]\d))?\b", lambda time: f"{time[1]}:{time[2] or '00'}"),
    ("h", r"\b([6-9]|[12]\d)h([0-5]\d)\b", r"\1:\2"),
    ("h", r"\b([1-5])h([0-5]\d)\b", r"\1 h \2 min"),
    ("t", r"(?<=\d)T(?=\d\d:\d\d)", " "),
    ("past", rf"(?i)\b(?P<past>{'|'.join(_MINUTES)}) past {_NUMBER}\b", _clock),
    (" to ", rf"(?i)\b(?P<to>half|quarter) to {_NUMBER}\b", _clock),
    ("clock", rf"(?i)\b{_NUMBER} o['\u2019]clock\b", _clock),
    (" in the ", r"\b(\d{1,2}(?::[0-5]\d)?) in the morning\b", r"\1 am"),
    (" in the ", r"\b(\d{1,2}(?::[0-5]\d)?) in the (?:afternoon|evening)\b", r"\1 pm"),
    ("", r"(?:午前|上午|오전)\s?(\d{1,2})\s?[時时点點시]", r"\1 am"),
    ("", r"(?:午後|下午|오후)\s?(\d{1,2})\s?[時时点點시]", r"\1 pm"),
    ("ties", rf"(?:(?<=the )|(?<=mid-))({'|'.join(_DECADE)})\b", lambda ten: _DECADE[ten[1]]),
    ("", rf"(?i)\b({'|'.join(_TIMES)}){_EVERY}", lambda how: f"{_TIMES[how[1].lower()]} times"),
    (" in", r"\b(ft|foot|feet) (\d{1,2}) ?in\b", r"\1 \2 inches"),
    ("'", r"\b([3-8])' ?(\d{1,2})(?:\"|'')", r"\1 ft \2 inches"),
    ("%", r"(?<=[\w)]) % (?=\d)", " mod "),
    ("v", r"\b[vV]\.? ?(?=\d)", "version "),
    ("-", r"(?<![\w-])([A-Z])-(?=\d{1,4}\b)", r"\1"),  # F-16, B-12
    ("°", r"(?<=[\d.])\s?°\s?([NSEW])\b", r", \1"),
    (".", r"(?<=\d\s)(Mio|Mrd|Tsd|млн|млрд|тыс)\.", r"\1"),
    ("", r"([$€£]\s?\d+(?:[.,]\d+)?)\s?([mMbB])\b", lambda to: f"{to[1]} {to[2].lower()}illion"),
    ("", r"\b(1\d|20)(\d\d[-\u2013])(1[3-9]|[2-9]\d)\b(?![-\d])", r"\1\2\1\3"),  # 1914-18
    (" ", r"(?<=\d) (?:to|bis) (?=\d)", " - "),
    ("ww", r"\bWW\s?(?=I{1,2}\b|[12]\b)", "World War "),
    (". ", rf"\b({'|'.join(_TITLES)})\. (?=[A-Z])", lambda title: f"{_TITLES[title[1]]} "),
    (" ", r"\b(\d{1,2}) (?:in|out of) (\d{1,3})(?=\W*$)", "\\1\u2044\\2"),
    ("one", r"(?i)^(\W*(?:(?:only|just|exactly|is|has|there|it) )*)one(?=\W*$)", r"\g<1>1"),
    ("half", r"(?i)^(\W*)(?:a |one )?half(?= of\b|\W*$)", r"\g<1>1/2"),
    ("a ", r"(?i)^(\W*)a (?=(?:third|quarter|fifth|tenth)(?: of\b|\W*$))", r"\1one "),
    ("", rf"(?i)^(\W*(?:it takes |about )?)(?:an?|one) (?=(?:{_UNITS})\b(?! later))", r"\g<1>1 "),
    ("half a", rf"(?i)^(\W*(?:it takes |about )?)half an? (?={_UNITS})", r"\g<1>0.5 "),
    ("nd", rf"{_GERMAN}(hundert|tausend)", r" \1 \2 "),
    ("cent", r"\b(deux|trois|quatre|cinq|sept|huit|neuf) cents?\b", r"\1 cento"),  # in French
    ("watt", r"(?i)watt[ -]hours?\b", "watthours"),
    ("分之", r"百分之(\d+(?:\.\d+)?)", r"\1%"),
    ("分之", r"(\d{1,3})分之(\d{1,3})", "\\2\u2044\\1"),
)
_OTHERWISE = [(part, re.compile(pattern), written) for part, pattern, written in _ROWS]


def in_digits(text: str) -> str:
    """The text with numbers of Chinese characters, ordinals and times of day in digits.

    >>> in_digits("In the nineteenth century, twice a day, at half past four")
    'In the 19th century, 2 times a day, at 4:30'
    >>> in_digits("一九四五年, 三万二千人, 第十二, 一万二, 一个, 1.4亿")
    '1945年, 32000人, 第12, 12000, 一个, 140000000'
    """
    if not text.isascii():
        text = _SCALED_BY_HAN.sub(_scaled, text)
        text = _HAN.sub(lambda number: str(_of_han(number[0])), text)
    lower = text.lower()
    for part, pattern, written in _OTHERWISE:
        if part in lower:
            text = pattern.sub(written, text)
    if any(map(lower.__contains__, _ORDINALS)):  # the patterns take ten times as long
        for pattern in _WHERE_ORDINALS:
            text = pattern.sub(_ordinal, text)
    return text


def _scaled(match: re.Match[str]) -> str:
    value = Fraction(match[1])
    for sign in match[2]:
        value *= _HAN_FACTORS[sign]
    return str(value) if value.denominator == 1 else match[0]


def _of_han(written: str) -> int:
    for sign, factor in _HAN_FACTORS.items():
        before, mark, behind = written.rpartition(sign)
        if not mark:
            continue
        times = _of_han(before) if before else 1
        if len(behind) == 1 and factor > 10:  # 1,200 is "a thousand two"
            return times * factor + _of_han(behind) * factor // 10
        return times * factor + (_of_han(behind) if behind else 0)
    return int("".join(str(_HAN_DIGITS[digit]) for digit in written))


def _ordinal(match: re.Match[str]) -> str:
    return f"{_TENS.get((match[1] or '').lower(), 0) + _ORDINALS[match[2].lower()]}th"
