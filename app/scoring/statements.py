"""Pure: the statements of an answer, the pairs of an NLI model about them, and their support.

Sentences of an answer and claims are both statements; they differ in their origin only.
Without an NLI model they are compared by their words, as `added` compares answers.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from app.scoring.ask import GivenClaim
from app.scoring.questions import Subject
from app.scoring.units import Parts
from models.records import Array, Pair, Span
from models.similarity.added import share_contained
from models.similarity.pairs import STEPS_A_PAIR, PairTable, TextRules
from models.similarity.rules import covers, relation_of_words
from models.units.characters import token_spans
from models.units.chunks import beginning, chunk_spans, num_tokens
from models.units.prose import Tools, claim, sentences, spans_in, supported
from models.units.unit import Unit, denied_by

# The character behind each of a text's tokens, by the text.
TokenEnds = Mapping[str, Sequence[int]]
# The sentences of texts, by the text.
SentenceSpans = Mapping[str, Sequence[Span]]
# Of a statement, what samples say instead: each may be as long as a chunk.
_MAX_ALTERNATIVES = 3


@dataclass(eq=False)
class Statements:
    """Sentences or claims of an answer, and their support by its samples.

    Attributes:
        stated: by the answer; they are not compared yet.
        samples: those that are not the answer; equal ones are read once.
        token_ends: of the NLI model, of each distinct statement and sample; None compares words.
        rules: of answers to the question. A statement may repeat its numbers, and its words say
            nothing.
        num_pairs: of a chunk of a distinct sample and a statement, without looking whether they are
            known.
        num_tokens: that the NLI model reads of each of their texts.
    """

    stated: Parts
    samples: Sequence[str]
    spans: SentenceSpans
    token_ends: TokenEnds | None
    rules: TextRules = field(default_factory=TextRules)

    def __post_init__(self) -> None:
        self._shortened: tuple[str, ...] = ()
        self._hypotheses: list[str] = []
        self._chunks: dict[str, list[str]] = {}
        self._sentences: dict[str, list[str]] = {}  # by the chunk that has them
        self.num_tokens: dict[str, int] = {}
        self.rules = self.rules.of_statements()
        self._is_by_words = self.token_ends is None
        if self.token_ends is None:
            self._read_words()
        else:
            self._read_chunks(self.token_ends)
        self._by_rule = _by_rule(self._hypotheses, self._chunks, self._sentences, self.rules)
        self.num_pairs = len(self._hypotheses) * sum(map(len, self._chunks.values()))

    def parts(self, table: PairTable) -> Parts:
        """The statements with their support, by scores of chunks of samples beside each."""
        table = replace(table, rules=table.rules.of_texts_alone())
        units, warnings = self.stated.units, self.stated.warnings + self._shortened
        if self.samples and self._is_by_words:
            units = tuple(supported(units, self._scores(table, "entailment"), None))
        elif self.samples:
            denies = self._scores(table, "contradiction")
            compared = supported(units, self._scores(table, "entailment"), denies)
            units = tuple(self._with_alternatives(compared, denies))
        num_pairs = self.num_pairs
        if self._is_by_words:
            num_pairs = 0
        return replace(self.stated, units=units, warnings=warnings, num_pairs=num_pairs)

    def _read_chunks(self, token_ends: TokenEnds) -> None:
        """Chunks of samples are premises, statements hypotheses, as long as the model may read."""
        for unit in self.stated.units:
            read = beginning((0, len(unit.text)), token_ends[unit.text])
            self._hypotheses.append(self._read(unit.text, read, token_ends))
            _, end = read
            if end < len(unit.text):
                self._shortened = (f"{unit.kind}s_shortened",)
        for sample in dict.fromkeys(self.samples):
            self._chunks[sample] = []
            for chunk in chunk_spans(self.spans[sample], token_ends[sample]):
                premise = self._read(sample, chunk, token_ends)
                self._chunks[sample].append(premise)
                self._sentences[premise] = _within(sample, chunk, self.spans[sample])

    def _read_words(self) -> None:
        """Each sentence of a sample is a chunk of its own."""
        self._hypotheses = [unit.text for unit in self.stated.units]
        for sample in dict.fromkeys(self.samples):
            self._chunks[sample] = _within(sample, (0, len(sample)), self.spans[sample])
            self._sentences |= {chunk: [chunk] for chunk in self._chunks[sample]}

    def _scores(self, table: PairTable, label: str) -> list[Array]:
        """Scores (C_m, U) of the chunks of each sample for each statement."""
        of_sample = {}
        for sample, chunks in self._chunks.items():
            of_sample[sample] = self._values(chunks, table, label)
        return [of_sample[sample] for sample in self.samples]

    def _with_alternatives(self, units: Sequence[Unit], denies: Sequence[Array]) -> list[Unit]:
        """The statements with what samples that deny them, (C_m, U) each, say instead.

        That is the sentence nearest to the statement, of the chunk that contradicts it most.
        """
        changed = []
        for index, unit in enumerate(units):
            counts: Counter[str | None] = Counter()
            for sample in denied_by(unit):
                chunk = self._chunks[self.samples[sample]][int(denies[sample][:, index].argmax())]
                instead = _nearest(unit.text, self._sentences[chunk])
                if instead != unit.text:
                    counts[instead] += 1
            shares = {text: n / len(denies) for text, n in counts.most_common(_MAX_ALTERNATIVES)}
            changed.append(replace(unit, alternatives=shares))
        return changed

    def _read(self, text: str, span: Span, token_ends: TokenEnds) -> str:
        """The text of a span; its tokens are counted."""
        start, end = span
        read = text[start:end].strip()
        self.num_tokens[read] = num_tokens(span, token_ends[text])
        return read

    def _values(self, chunks: Sequence[str], table: PairTable, label: str) -> Array:
        """Scores (C, U) of each chunk of a sample for each statement."""
        values = np.empty((len(chunks), len(self._hypotheses)))
        for row, chunk in zip(values, chunks, strict=True):
            for column, hypothesis in enumerate(self._hypotheses):
                value = self._by_rule.get((chunk, hypothesis), {}).get(label)
                if value is None and self._is_by_words:
                    words = self.rules.words(hypothesis), self.rules.words(chunk)
                    value = share_contained(*words)
                elif value is None:
                    value = table.value(chunk, hypothesis, label)
                row[column] = value
        return values


def _by_rule(
    statements: Iterable[str],
    chunks: Mapping[str, Sequence[str]],
    sentences: Mapping[str, Sequence[str]],
    rules: TextRules,
) -> dict[Pair, dict[str, float]]:
    """Labels of chunk and statement that rules decide, whatever a model would say.

    A sample supports what it says word for word, and denies it with other numbers or a negation in
    the same words. A chunk that lacks a number of the statement does not entail it.
    """
    question, labels = rules.question, dict[Pair, dict[str, float]]()
    of_statements = {text: rules.reading(text) for text in statements}
    of_sentences = {text: rules.reading(text) for chunk in sentences.values() for text in chunk}
    for of_sample in chunks.values():
        for statement, read in of_statements.items():
            related = {}
            for chunk in of_sample:
                rules.steps.take(STEPS_A_PAIR * len(sentences[chunk]))
                related[chunk] = {
                    relation_of_words(of_sentences[s], read, question) for s in sentences[chunk]
                }
            is_said = any("same" in one for one in related.values())
            for chunk, relations in related.items():
                numbers = [
                    *question.known,
                    *chain(*(of_sentences[s].numbers for s in sentences[chunk])),
                ]
                if is_said:
                    labels[chunk, statement] = {"entailment": 1.0, "contradiction": 0.0}
                elif "different" in relations:
                    labels[chunk, statement] = {"entailment": 0.0, "contradiction": 1.0}
                elif not covers(numbers, read.numbers):
                    labels[chunk, statement] = {"entailment": 0.0}
    return labels


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


def stated_sentences(subject: Subject, max_units: int, spans: SentenceSpans) -> Parts:
    text = subject.answer.text
    units = tuple(sentences(text, spans[text][:max_units], token_spans(subject.answer)))
    return _parts(units, {"no_sentences": not units}, is_whole=len(units) == len(spans[text]))


def stated_claims(subject: Subject, max_units: int, claims: Sequence[GivenClaim]) -> Parts:
    """The claims of the answer; one of which a quote does not occur in it has no tokens."""
    text, tokens = subject.answer.text, token_spans(subject.answer)
    units = []
    is_misquoted = False
    for given in claims[:max_units]:
        units.append(claim(given.text, given.quotes, text, tokens))
        is_misquoted |= bool(given.quotes) and not units[-1].spans
    warnings = {"quotes_not_found": is_misquoted}
    return _parts(tuple(units), warnings, is_whole=len(units) == len(claims))


def _parts(units: tuple[Unit, ...], warnings: Mapping[str, bool], *, is_whole: bool) -> Parts:
    warnings = {**warnings, "units_cut": not is_whole}
    codes = tuple(code for code, holds in warnings.items() if holds)
    return Parts(units, warnings=codes, is_whole=is_whole)


def spans_of(texts: Iterable[str], tools: Tools = ()) -> SentenceSpans:
    """The sentences of each distinct text; of long ones it takes a while."""
    return {text: spans_in(text, tools) for text in dict.fromkeys(texts)}
