"""Pure: texts with the numbers in digits that people spell in words or in signs of their own."""

import re
from fractions import Fraction

# Chinese characters of numbers: two or more, or one that counts something; 一 alone is an article.
_HAN_DIGITS = dict(zip("零〇一二两三四五六七八九", (0, 0, 1, 2, 2, *range(3, 10)), strict=True))
_HAN_FACTORS = {"亿": 10**8, "億": 10**8, "万": 10**4, "千": 1000, "百": 100, "十": 10}
_HAN = re.compile(
    "[一二两三四五六七八九十百千][零〇一二两三四五六七八九十百千万亿億]{1,20}"
    "|(?<=第)[一二三四五六七八九十]"
    "|[二两三四五六七八九十](?=[个個年月日人岁歳歲次度座名本])|一(?=[月日])"
)
_SCALED_BY_HAN = re.compile(r"(?<![\d.,])(\d{1,12}(?:\.\d{1,6})?)([百千万亿億]{1,2})(?!\d)")
_TEENS = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth
thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"""
_ORDINALS = {word: number for number, word in enumerate(_TEENS.split(), 1)} | {"thirtieth": 30}
_TENS = {"twenty": 20, "thirty": 30}
_HOUR_WORDS = "one two three four five six seven eight nine ten eleven twelve"
_HOURS = _HOUR_WORDS.split()
_ANY_ORDINAL = rf"(?:({'|'.join(_TENS)})[- ])?({'|'.join(_ORDINALS)})"
# A whole answer, behind a name ("Louis the Fourteenth"), or before what is counted so.
_ORDINAL = re.compile(
    rf"(?:^\W*(?:the\s+)?|(?-i:(?<=[a-z]))\s+the\s+(?-i:(?=[A-Z]))){_ANY_ORDINAL}(?=\W*$)"
    rf"|\b{_ANY_ORDINAL}(?=\s+(?:century|centuries|amendment|edition|floor|anniversary)\b)",
    re.IGNORECASE,
)
_PAST = re.compile(
    rf"\b(half|quarter)\s+(past|to)\s+({'|'.join(_HOURS)}|1[0-2]|[1-9])\b", re.IGNORECASE
)
_TIMES = {"once": 1, "einmal": 1, "twice": 2, "zweimal": 2, "thrice": 3, "dreimal": 3}
_HOW_OFTEN = re.compile(
    rf"\b({'|'.join(_TIMES)})(?=\s+(?:a|an|per|every|each|daily|weekly|am|pro|im|täglich)\b)",
    re.IGNORECASE,
)
# Other spellings, and those with which they are compared.
_OTHERWISE = (
    (re.compile(r"\bper cent\b", re.IGNORECASE), "percent"),
    (re.compile(r"\bNo,(?= ?\d)"), "Not,"),  # "No 7" is a number
    (re.compile(r"\bup to(?=\s*[\d$€£])", re.IGNORECASE), "at most"),
    (re.compile(r"\bnoon\b", re.IGNORECASE), "12:00"),
    (re.compile(r"\bmidnight\b", re.IGNORECASE), "0:00"),
    (re.compile(r"\b(\d{1,2}) Uhr ([0-5]\d)\b"), r"\1:\2"),
    (re.compile(r"\b(\d{1,2}) Uhr\b"), r"\1:00"),
    (re.compile(r"\b([6-9]|[12]\d)h([0-5]\d)\b"), r"\1:\2"),  # 2h30 is mostly how long
    (re.compile(r"\b(?:USD|US\$) ?(?=\d)"), "$"),
    (re.compile(r"\bEUR ?(?=\d)"), "€"),
    (re.compile(r"\bGBP ?(?=\d)"), "£"),
    (re.compile(r"\b(ft|foot|feet) (\d{1,2}) ?in\b"), r"\1 \2 inches"),
    (re.compile(r"\b([3-8])['\u2032] ?(\d{1,2})(?:\"|''|\u2033)"), r"\1 ft \2 inches"),
    (re.compile(r"(?<=[\w)]) % (?=\d)"), " mod "),
    (re.compile(r"\b[vV]\.? ?(?=\d)"), "version "),
    (re.compile(r"(?<![\w-])([A-Z])-(?=\d{1,4}\b)"), r"\1"),  # F-16, B-12
)


def in_digits(text: str) -> str:
    """The text with numbers of Chinese characters, ordinals and times of day in digits.

    >>> in_digits("In the nineteenth century, twice a day, at half past four")
    'In the 19th century, 2 times a day, at 4:30'
    >>> in_digits("一九四五年, 三万二千人, 第十二, 一万二, 一个, 1.4亿")
    '1945年, 32000人, 第12, 12000, 一个, 140000000'
    """
    text = _SCALED_BY_HAN.sub(_scaled, text)
    text = _HAN.sub(lambda number: str(_of_han(number[0])), text)
    for pattern, written in _OTHERWISE:
        text = pattern.sub(written, text)
    text = _HOW_OFTEN.sub(lambda often: f"{_TIMES[often[1].lower()]} times", text)
    text, lower = _PAST.sub(_clock, text), text.lower()
    if any(map(lower.__contains__, _ORDINALS)):  # the pattern takes ten times as long
        text = _ORDINAL.sub(_ordinal, text)
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
    tens, ones = match[1] or match[3] or "", match[2] or match[4]
    start = match.start(1 if match[1] else 2 if match[2] else 3 if match[3] else 4)
    blank = " " if match[0][0].isspace() and start > match.start() else ""
    return f"{blank}{_TENS.get(tens.lower(), 0) + _ORDINALS[ones.lower()]}th"


def _clock(match: re.Match[str]) -> str:
    part, side, hour = map(str.lower, match.groups())
    minutes = 60 * (_HOURS.index(hour) + 1 if hour in _HOURS else int(hour))
    minutes += {"half": 30, "quarter": 15}[part] * (1 if side == "past" else -1)
    return f"{minutes // 60 or 12}:{minutes % 60:02}"
