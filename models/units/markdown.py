"""The blocks of a Markdown text that say something, by lines; not a parser of all Markdown.

Code in fences, headings, rules, and a table's head say nothing that can be right or wrong by
itself; nor do labels, bold or not, where something stands below them. A list item, a row of a table
and a quotation are blocks of their own.
"""

import re
from dataclasses import dataclass, replace

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")
_FENCE = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)?(`{3,}(?=[^`]*$)|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_LABEL = re.compile(
    r" {0,3}(?:(?P<bold>\*\*|__)(?!\s)[^*_\r\n]+(?<![.!])(?P=bold):?|[^\W\d_]+(?:[ \t]+\w+){0,2}:)"
    r"\s*$"
)
_UNDERLINE = re.compile(r" {0,3}=+\s*$")
# A line between others, or around a formula.
_RULE = re.compile(r" {0,3}(?:([-*_])(?:\s*\1){2,}|\$\$|\\[\[\]])\s*$")
# Quotations and items may stand within each other. Some marks begin a line of words, too.
_MARKER = re.compile(
    r"""\s*(?:
    (?:[-*+]|(?P<bold>[*_]{,2})[#(]?\d{1,9}(?:\.\d{1,3})*\\?[.)](?P=bold))(?:\s+\[[ xX]\])?(?=\s)
    |(?:\[\d{1,3}\]|(?:\d{1,3}\ )?[-\u2013\u2014])(?=\s+[*_]*[^\W\d_a-z])
    |\d{1,9}(?:[.)](?=[^\W\d_a-z])|[\uff0e\uff09\u3001])|[•\u30fb]|<li>|(?P<quotes>>))\s*""",
    re.VERBOSE,
)
# An item that begins with a letter or a Roman numeral, which alone may be an initial, or a symbol.
_LETTER = re.compile(
    r"\s*[*_]*(?:(?:[A-Za-z]|[ivx]{2,4}|[IVX]{2,4})[.)][*_]*(?:\s|(?<=[a-z].)(?=[A-Z]))"
    r"|[\u2190-\u2bff\U0001f000-\U0001faff])"
)
_TABLE_RULE = re.compile(r"\s*(?:\|\s*:?-+:?\s*)+\|?\s*$")


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a text."""

    line: int  # the start of its first line, with the marker of an item or a quotation
    start: int  # behind that marker
    end: int  # behind its last line, whose end belongs to it
    is_row: bool = False  # of a table


def blocks(text: str) -> list[Block]:
    r"""The blocks that say something, in their order.

    >>> blocks("# Sums\n\n- One.\n- Two.\n")
    [Block(line=8, start=10, end=15, is_row=False), Block(line=15, start=17, end=22, is_row=False)]
    """
    kept: list[Block] = []
    fence, is_open, announced = "", False, False
    text_end = len(text.rstrip())
    for found in _LINE.finditer(text):
        (start, end), line = found.span(), found[0]
        opened = _FENCE.match(line)
        if fence:
            if opened and opened[1].startswith(fence) and not line[opened.end() :].strip():
                fence = ""
            continue
        if opened:
            fence = opened[1]
        is_row = line.lstrip().startswith("|")
        is_below_head = is_open and is_row and _TABLE_RULE.match(line) and kept[-1].is_row
        if is_below_head or (is_open and _UNDERLINE.match(line)):
            kept.pop()  # a table's head, or a heading
            is_open = False
            continue
        is_label = not is_open and end < text_end and _LABEL.match(line)
        if is_label or opened or not line.strip() or _HEADING.match(line) or _RULE.match(line):
            is_open = False
            continue
        behind, is_item = _behind_markers(line)
        is_item |= behind > 0 and text[max(0, start - 3) : start].rstrip().endswith((*".!?\u3002",))
        goes_on = is_open and not is_row and not kept[-1].is_row
        if goes_on and _LETTER.match(line):
            goes_on = not (announced or _LETTER.match(text, kept[-1].start))
        if goes_on and not is_item:
            kept[-1] = replace(kept[-1], end=end)
        else:
            kept.append(Block(start, start + behind, end, is_row))
        is_open, announced = True, line.rstrip().endswith(":")
    return kept


def _behind_markers(line: str) -> tuple[int, bool]:
    """The index behind the markers of items and quotations, and whether one is an item's."""
    behind, is_item = 0, False
    while match := _MARKER.match(line, behind):
        behind, is_item = match.end(), is_item or not match["quotes"]
    return behind, is_item
