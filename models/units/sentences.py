"""Where the sentences of a text stand, and the text without some of them."""

import re
from collections.abc import Collection

from sentencex import get_sentence_boundaries

from models.records import Span
from models.units.markdown import Block, blocks

# Frequent words that tell languages apart whose abbreviations differ; the first is the default.
_WORDS = {
    "en": "the of and is was to that it are for with on",
    "de": "der die das und ist nicht ein eine wurde mit von dem den auf im am er kam war",
    "es": "el la los las y es una que por con del fue",
    "fr": "le la les et est une des que dans du pour au",
    "it": "il lo gli e è una che di della per con nel",
    "nl": "de het een en is van niet dat op zijn met",
    "pt": "o os as e é uma que do da em não com",
}
_LANGUAGE_OF = {language: frozenset(words.split()) for language, words in _WORDS.items()}
_CYRILLIC = re.compile("[\u0430-\u0451]", re.IGNORECASE)
_MAX_WORDS_READ = 1000
_WORD = re.compile(r"[^\W\d_]+")
# A number of a list that is written inline, which the splitter takes for a sentence.
_NUMBER = re.compile(r"\s*\(?\d{1,3}[.)]\s*$")
_SAYS_SOMETHING = re.compile(r"[^\W_]")


def sentence_spans(text: str) -> list[Span]:
    r"""Where each sentence stands, white space around it left out; in order, without overlap.

    Code, headings and what has neither letter nor digit are in none; a row of a table is one.

    >>> sentence_spans("# Peru\nDr. Ash has 3.5 cats. 1. Yes. ")
    [(7, 28), (29, 36)]
    """
    language = language_of(text)
    spans = []
    for block in blocks(text):
        spans += _spans_in(text, block, language)
    return spans


def without_sentences(text: str, removed: Collection[Span]) -> str:
    r"""The text without some of its sentences; an item of a list that loses all goes as a whole.

    >>> without_sentences("Sums:\n- One. Two.\n- Three.\n", [(13, 17), (20, 26)])
    'Sums:\n- One.\n'
    """
    language, gone = language_of(text), frozenset(removed)
    kept, position = [], 0
    for block in blocks(text):
        spans = _spans_in(text, block, language)
        if spans and gone.issuperset(spans):
            cuts = [(block.line, block.end)]
        else:
            cuts = [_with_blanks(text, span, block) for span in spans if span in gone]
        for start, end in cuts:
            kept.append(text[position:start])
            position = max(position, end)
    return "".join([*kept, text[position:]])


def language_of(text: str) -> str:
    """Whose abbreviations are heeded, by its frequent words; "en" where nothing tells.

    >>> language_of("Er kam am 3. Mai."), language_of("2 + 2")
    ('de', 'en')
    """
    if _CYRILLIC.search(text):
        return "ru"
    words = _WORD.findall(text[: _MAX_WORDS_READ * 8].lower())[:_MAX_WORDS_READ]
    counts = {}
    for language, frequent in _LANGUAGE_OF.items():
        counts[language] = sum(word in frequent for word in words)
    return max(counts, key=counts.__getitem__)


def _spans_in(text: str, block: Block, language: str) -> list[Span]:
    """The sentences of one block."""
    if block.is_row:
        return _trimmed(text, block.start, block.end)
    spans: list[Span] = []
    said = text[block.start : block.end]
    begins_at = block.start
    # What is no printable character counts as a blank: the splitter fails on some of them.
    plain = "".join(one if one.isprintable() else " " for one in said)
    for found in get_sentence_boundaries(language, plain):
        end = block.start + found["end_index"]
        if _NUMBER.match(text, begins_at, end) and end < block.end:
            continue
        spans += _trimmed(text, begins_at, end)
        begins_at = end
    return spans


def _trimmed(text: str, start: int, end: int) -> list[Span]:
    """The span without white space around it, if it says anything."""
    said = text[start:end]
    if not _SAYS_SOMETHING.search(said):
        return []
    start += len(said) - len(said.lstrip())
    return [(start, start + len(said.strip()))]


def _with_blanks(text: str, span: Span, block: Block) -> Span:
    """A sentence with the white space behind it, or at a block's end that before it."""
    start, end = span
    behind = end + len(text[end : block.end]) - len(text[end : block.end].lstrip())
    if behind < block.end:
        return start, behind
    return block.start + len(text[block.start : start].rstrip()), end
