"""Pure: the sentences of an answer, what an NLI model is asked about them, and their support."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.scoring.questions import Subject
from app.scoring.units import Parts, token_spans
from models.records import Array, Pair
from models.similarity.pairs import PairTable
from models.units.chunks import beginning, chunk_spans
from models.units.prose import sentences, supported
from models.units.sentences import sentence_spans
from models.units.tool_calls import as_value, names_of
from models.units.unit import Span

# The character behind each of a text's tokens, by the text.
TokenEnds = Mapping[str, Sequence[int]]


class Sentences:
    """The sentences of an answer, and what its samples say of them.

    Args:
        subject: with its y* chosen. Equal samples are read once.
        max_units: sentences that are told.
        token_ends: of the NLI model, of the answer and each distinct sample that is compared; None
            compares none.
        spans: of the sentences of a text.

    Attributes:
        num_pairs: of a chunk of a distinct sample and a sentence, without looking whether they are
            known.
    """

    def __init__(
        self,
        subject: Subject,
        max_units: int,
        token_ends: TokenEnds | None,
        spans: Mapping[str, Sequence[Span]],
    ) -> None:
        text = subject.answer.text
        self._is_empty = not spans[text]
        self._is_cut = len(spans[text]) > max_units
        told = spans[text][:max_units]
        self._units = sentences(text, told, token_spans(subject.answer))
        self._samples: list[str] = []
        self._hypotheses: list[str] = []
        self._chunks: dict[str, list[str]] = {}
        if token_ends is not None:
            self._samples = subject.other_texts
            read = [beginning(span, token_ends[text]) for span in told]
            self._hypotheses = [text[start:end] for start, end in read]
            self._is_shortened = read != list(told)
            for sample in dict.fromkeys(self._samples):
                chunks = chunk_spans(spans[sample], token_ends[sample])
                self._chunks[sample] = [sample[start:end] for start, end in chunks]
        else:
            self._is_shortened = False
        self.num_pairs = len(self._hypotheses) * sum(map(len, self._chunks.values()))

    @property
    def pairs(self) -> list[Pair]:
        """Premise and hypothesis, of each chunk of each distinct sample and each sentence."""
        pairs: list[Pair] = []
        for chunks in self._chunks.values():
            for chunk in chunks:
                pairs += [(chunk, hypothesis) for hypothesis in self._hypotheses]
        return pairs

    def parts(self, table: PairTable) -> Parts:
        """The sentences with their support.

        Args:
            table: scores of all `pairs`.
        """
        units = self._units
        if self._samples:
            says = {}
            for label in ("entailment", "contradiction"):
                of_sample = {}
                for sample, chunks in self._chunks.items():
                    of_sample[sample] = self._values(chunks, table, label)
                says[label] = [of_sample[sample] for sample in self._samples]
            units = supported(units, says["entailment"], says["contradiction"])
        warnings = {
            "no_sentences": self._is_empty,
            "units_cut": self._is_cut,
            "sentences_shortened": self._is_shortened,
        }
        codes = tuple(code for code, holds in warnings.items() if holds)
        return Parts(
            tuple(units), warnings=codes, is_whole=not self._is_cut, num_pairs=self.num_pairs
        )

    def _values(self, chunks: Sequence[str], table: PairTable, label: str) -> Array:
        """What each chunk of a sample scores for each sentence: (C, U)."""
        values = np.empty((len(chunks), len(self._hypotheses)))
        for row, chunk in zip(values, chunks, strict=True):
            row[:] = [table.value(chunk, one, label) for one in self._hypotheses]
        return values


def spans_of(subject: Subject, tools: Sequence[Mapping[str, Any]] = ()) -> dict[str, list[Span]]:
    """The sentences of the answer and of each distinct sample; of long ones it takes a while.

    Args:
        subject: with its y* chosen.
        tools: that the model may call; a text that calls some has no sentences.
    """
    names = names_of(tools)
    spans: dict[str, list[Span]] = {}
    for text in dict.fromkeys([subject.answer.text, *subject.other_texts]):
        spans[text] = []
        if not tools or as_value(text, names) is None:
            spans[text] = sentence_spans(text)
    return spans
