"""Whether an answer says what a reference says, in however many words. Pure."""

import re
import unicodedata

from cocoa_lab.examples import Example

# A number is one word, with sign, decimals and grouping commas: "3.5" does not contain "5".
_WORD = re.compile(r"(?:(?<!\w)-)?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\w)|\w+")
_ARTICLES = frozenset({"a", "an", "the"})


def contains(output: str, example: Example) -> float:
    """1 where a reference occurs in the output as whole words.

    Case, punctuation and the articles a, an, the do not count.
    """
    return float(any(_occurs(reference, output) for reference in example.references))


def words(text: str) -> tuple[str, ...]:
    """The words of a text as they are compared.

    >>> words("The capital is Rome, not -3.5!")
    ('capital', 'is', 'rome', 'not', '-3.5')
    """
    found = []
    for word in _WORD.findall(
        unicodedata.normalize("NFKC", text).replace("\u2212", "-").casefold()
    ):
        if word not in _ARTICLES:
            found.append(word.replace(",", ""))
    return tuple(found)


def _occurs(reference: str, output: str) -> bool:
    wanted, said = words(reference), words(output)
    if not wanted:  # "A" or "?": nothing is left that could be looked for
        return output.strip().casefold() == reference.strip().casefold()
    starts = range(len(said) - len(wanted) + 1)
    return any(said[start : start + len(wanted)] == wanted for start in starts)
