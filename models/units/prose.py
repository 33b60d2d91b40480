"""The sentences and claims of an answer, and what samples say of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from models.records import Array, Span
from models.units.characters import TokenSpans, overlapping
from models.units.sentences import sentence_spans
from models.units.tool_calls import as_value
from models.units.unit import Unit

Tools = Sequence[Mapping[str, Any]]


def sentences(text: str, spans: Iterable[Span], tokens: TokenSpans) -> list[Unit]:
    """The sentences of an answer as its units, with `text` and `tokens` of that answer."""
    units = []
    for start, end in spans:
        indices = overlapping(tokens, [(start, end)])
        units.append(Unit("sentence", text[start:end], indices, ((start, end),)))
    return units


def spans_in(text: str, tools: Tools = ()) -> list[Span]:
    """The spans of the sentences of a text; one that calls any of the tools has none."""
    if tools and as_value(text, tools) is not None:
        return []
    return sentence_spans(text)


def claim(statement: str, quotes: Iterable[str], text: str, tokens: TokenSpans) -> Unit:
    """A claim of an answer as its unit: the tokens are those of the quotes that it rests on.

    Each quote stands for its first occurrence behind the one before. Where one does not occur, the
    claim has no tokens.

    >>> from models.units.characters import spans_of_texts
    >>> claim("A twice.", ["and", "A"], "A and A", spans_of_texts(["A", " and", " A"])).spans
    ((2, 5), (6, 7))
    """
    spans: list[Span] = []
    behind = 0
    for quote in quotes:
        start = text.find(quote, behind)
        if start < 0:
            spans = []
            break
        behind = start + len(quote)
        spans.append((start, behind))
    return Unit("claim", statement, overlapping(tokens, spans), tuple(spans))


def supported(
    units: Sequence[Unit], entailment: Sequence[Array], contradiction: Sequence[Array] | None
) -> list[Unit]:
    """Sentences or claims with their support by each of M samples, by its strongest chunk.

    Args:
        units: U of them.
        entailment: of each sample (C_m, U), P(entail) with a chunk of it as the premise and a unit
            as the hypothesis. A sample without text has no chunk and supports nothing.
        contradiction: likewise, P(contradict); None where none is requested.
    """
    changed = []
    for unit, supports in zip(units, _strongest(entailment, len(units)).T, strict=True):
        changed.append(replace(unit, supports=supports))
    if contradiction is not None:
        for row, contradictions in enumerate(_strongest(contradiction, len(units)).T):
            changed[row] = replace(changed[row], contradictions=contradictions)
    return changed


def _strongest(chunks: Sequence[Array], num_units: int) -> Array:
    """The greatest over each sample's chunks: (M, U)."""
    strongest = np.zeros((len(chunks), num_units))
    for row, probabilities in zip(strongest, chunks, strict=True):
        if len(probabilities):
            row[:] = np.max(probabilities, axis=0)
    return strongest
