"""ROUGE-L of word stems, defined on every script.

Equal to the rouge-score package's on ASCII words, which drops all signs: here "C++" is not "C".
Combining marks belong to their letters, and of scripts without blanks each character is a word.
Lin 2004.
"""

import functools
import re
import sys
import threading
import unicodedata
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

_MONEY = "$\u00a2-\u00a5\u20a0-\u20cf"
_COMPARED = "+<>\u2264\u2265\u2248\u00b1\u221a\u00ac~"
# Characters of scripts without blanks.
NO_BLANKS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff"
NO_BLANKS += r"\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Combining marks, many of them vowels: no letters to Python's `re`.
MARKS = "".join(
    one for one in map(chr, range(0x300, 0x12000)) if unicodedata.category(one)[0] == "M"
)
# Pictures, of which each is a word, and what nobody sees: hints where to break or join letters.
PICTURES = "\u2600-\u266c\u266e\u2670-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
_UNSEEN = re.compile(
    "[\u00ad\u0640\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufe0e\ufe0f\ufeff]"
)
_CHARACTER = re.compile(rf"[{NO_BLANKS}{PICTURES}][{MARKS}]*")
_WORD = re.compile(
    rf"""
    # signs before a number or a letter; never from the midst of them: a run of signs is read once
    (?:(?<![^\W_])(?<![-.#{_COMPARED}{_MONEY}])[-#{_COMPARED}{_MONEY}]*\.?(?=\d|[^\W\d_](?![^\W_])))?
    # a word, with a charge or a mark of one or two letters, or with what only a sign can be
    (?:(?<![^\W_])[^\W\d_]{{1,2}}-(?![\w-]) | [^\W_]+(?:[{MARKS}]+[^\W_]*)*
        (?:(?:[+#\u266d\u266f]+|\s?[%\u2030\u00b0{_MONEY}])(?![^\W_]))?)
    # between numbers, and alone
    | (?<=\d)[-*/^](?=\d)
    | [=\u00d7\u00f7%\u2030\u00b0\u2190-\u21ff\u2200-\u22ff{_COMPARED}{_MONEY}{PICTURES}]
    """,
    re.VERBOSE,
)
_DASHES = str.maketrans("\u2212\u2013", "--")
_SHORTEST_STEMMED = 4  # as in rouge-score: shorter words keep their ending
_IMPORTING = threading.Lock()


def word_stems(text: str) -> list[str]:
    """Lower-case words with the signs that belong to them, longer words by their Porter stem.

    >>> word_stems("The Capitals, é! -5% of well-known C++")
    ['the', 'capit', 'é', '-5%', 'of', 'well', 'known', 'c++']
    """
    stem = _stemmer().stem
    stems: list[str] = []
    for word in _WORD.findall(spaced(text).translate(_DASHES)):
        if len(word) >= _SHORTEST_STEMMED and word.isalnum():
            stems.append(stem(word))
        else:
            stems.append("".join(word.split()))  # "10 %" is "10%"
    return stems or text.split()  # "✓" is not "✗"


def spaced(text: str) -> str:
    """The text in lower case and composed, with blanks around what is a word of one character.

    >>> spaced("Rome は首都").split()
    ['rome', 'は', '首', '都']
    """
    return _CHARACTER.sub(r" \g<0> ", unicodedata.normalize("NFC", shown(text).lower()))


def shown(text: str) -> str:
    """The text without characters that nobody sees, as a soft hyphen or a mark of direction."""
    return _UNSEEN.sub("", text)


def rouge_l_f(a: Sequence[str], b: Sequence[str]) -> float:
    """F1 of the longest common subsequence of two lists of words; 1 for two empty ones, 0 for one.

    >>> rouge_l_f(["it", "is", "rome"], ["rome"])
    0.5
    """
    if not a or not b:
        return float(not a and not b)
    return 2 * _lcs_length(a, b) / (len(a) + len(b))


def _lcs_length(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the longest common subsequence, bit-parallel (Hyyrö 2004).

    One big-integer step a word of b, where the usual table takes len(a).
    """
    positions: dict[str, int] = {}
    for i, word in enumerate(a):
        positions[word] = positions.get(word, 0) | 1 << i
    everything = (1 << len(a)) - 1
    free = everything
    for word in b:
        matched = free & positions.get(word, 0)
        free = ((free + matched) | (free - matched)) & everything
    return len(a) - free.bit_count()


@functools.cache
def _stemmer() -> Any:
    """The Porter stemmer of nltk, by the few files that it needs.

    The whole of nltk imports scikit-learn, too, where that is: seconds, and megabytes by the
    hundred. So packages that import nothing stand in its place for the moment.
    """
    with _IMPORTING:
        if "nltk" in sys.modules:
            return import_module("nltk.stem.porter").PorterStemmer()
        roots = getattr(find_spec("nltk"), "submodule_search_locations", ())
        for name, folder in (("nltk", ""), ("nltk.stem", "stem")):
            package = ModuleType(name)
            package.__path__ = [str(Path(root, folder)) for root in roots]
            sys.modules[name] = package
        try:
            return import_module("nltk.stem.porter").PorterStemmer()
        finally:  # whoever imports nltk has the whole of it
            for name in list(sys.modules):
                if name.split(".")[0] == "nltk":
                    del sys.modules[name]
