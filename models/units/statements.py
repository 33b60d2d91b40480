"""Sentences or claims of an answer beside chunks of its samples. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from models.records import Array, Span
from models.units.chunks import beginning, chunk_spans, num_tokens
from models.units.prose import Tools, spans_in, supported
from models.units.unit import Unit
from models.warnings import Warned

# The character behind each of a text's tokens, by the text.
TokenEnds = Mapping[str, Sequence[int]]
# Of a statement, what samples say instead: each may be as long as a chunk.
_MAX_ALTERNATIVES = 3


class Statements:
    """Sentences or claims, and what is compared of them and of the samples.

    Args:
        units: of the answer.
        samples: that are not the answer; equal ones are read once.
        token_ends: of the NLI model, of each distinct statement and sample; where there are none,
            each sentence of a sample is a chunk of its own.
        tools: that the model may call. A sample that calls some has no sentences.
    """

    def __init__(
        self,
        units: Sequence[Unit],
        samples: Sequence[str],
        token_ends: TokenEnds | None,
        tools: Tools,
    ) -> None:
        self._units = units
        self._samples = samples
        self.hypotheses: list[str] = []  # of each unit what the model reads
        self.chunks: dict[str, list[str]] = {}  # of each distinct sample, which are the premises
        self.sentences: dict[str, list[str]] = {}  # of each chunk, or what it has of them
        self.num_tokens: dict[str, int] = {}  # that the NLI model reads of each of their texts
        self.warnings: tuple[Warned, ...] = ()
        spans = {sample: spans_in(sample, tools) for sample in dict.fromkeys(samples)}
        if token_ends is not None:
            self._read_chunks(spans, token_ends)
            return
        self.hypotheses = [unit.text for unit in units]
        for sample, of_sample in spans.items():
            self.chunks[sample] = _within(sample, (0, len(sample)), of_sample)
            self.sentences |= {chunk: [chunk] for chunk in self.chunks[sample]}

    def _read_chunks(self, spans: Mapping[str, Sequence[Span]], token_ends: TokenEnds) -> None:
        for unit in self._units:
            read = beginning((0, len(unit.text)), token_ends[unit.text])
            self.hypotheses.append(self._read(unit.text, read, token_ends))
            _, end = read
            if end < len(unit.text):
                self.warnings = (Warned(f"{unit.kind}s_shortened"),)
        for sample, of_sample in spans.items():
            self.chunks[sample] = []
            for chunk in chunk_spans(of_sample, token_ends[sample]):
                premise = self._read(sample, chunk, token_ends)
                self.chunks[sample].append(premise)
                self.sentences[premise] = _within(sample, chunk, of_sample)

    def _read(self, text: str, span: Span, token_ends: TokenEnds) -> str:
        """The text of a span; its tokens are counted."""
        start, end = span
        read = text[start:end].strip()
        self.num_tokens[read] = num_tokens(span, token_ends[text])
        return read

    def told(
        self, entailment: Mapping[str, Array], contradiction: Mapping[str, Array] | None = None
    ) -> list[Unit]:
        """The units with their support, and what samples that deny them say instead.

        The scores are (C_m, U), of the chunks of each distinct sample for each hypothesis.
        """
        if not self._samples:
            return list(self._units)
        entails = [entailment[sample] for sample in self._samples]
        if contradiction is None:
            return supported(self._units, entails, None)
        denies = [contradiction[sample] for sample in self._samples]
        told = []
        for index, unit in enumerate(supported(self._units, entails, denies)):
            counts: Counter[str | None] = Counter()
            for sample in unit.denied_by():
                # The sentence nearest to the statement, of the chunk that contradicts it most.
                chunk = self.chunks[self._samples[sample]][int(denies[sample][:, index].argmax())]
                instead = _nearest(unit.text, self.sentences[chunk])
                if instead != unit.text:
                    counts[instead] += 1
            shares = {text: n / len(denies) for text, n in counts.most_common(_MAX_ALTERNATIVES)}
            told.append(replace(unit, alternatives=shares))
        return told


def _within(text: str, chunk: Span, sentences: Iterable[Span]) -> list[str]:
    """The sentences of a chunk, or what it has of them."""
    start, end = chunk
    cut = [(max(first, start), min(behind, end)) for first, behind in sentences]
    return [text[first:behind].strip() for first, behind in cut if first < behind]


def _nearest(statement: str, sentences: Iterable[str]) -> str:
    """The sentence that has most in common with a statement.

    Common are pairs of characters, as scripts without blanks have no words.
    """
    pairs = _pairs_of(statement)
    return max(sentences, key=lambda sentence: _overlap(pairs, _pairs_of(sentence)))


def _pairs_of(text: str) -> set[str]:
    """Characters with the one behind; a single one is a pair of its own."""
    return {text[i : i + 2] for i in range(max(1, len(text) - 1))}


def _overlap(first: set[str], second: set[str]) -> float:
    """Share of what two sets have in common. Dice 1945."""
    return 2 * len(first & second) / (len(first) + len(second))
