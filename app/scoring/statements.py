"""Pure: the statements of an answer, the pairs of an NLI model about them, and their support.

Sentences of an answer and claims are both statements; they differ in their origin only.
Without an NLI model they are compared by their words, as `added` compares answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.records import Array, Pair
from models.similarity.pairs import PairTable
from models.units.parts import Parts


@dataclass(eq=False)
class Statements:
    """Sentences or claims of an answer, and their support by its samples.

    Attributes:
        stated: by the answer; they are not compared yet.
        samples: those that are not the answer; equal ones are read once.
        token_ends: the character behind each token of the NLI model, of each distinct statement and
            sample; None compares words.
        tools: that the model may call.
        num_pairs: of a chunk of a distinct sample and a statement, without looking whether they are
            known.
        num_tokens: that the NLI model reads of each of their texts.
    """

    stated: Parts
    samples: Sequence[str]
    token_ends: Mapping[str, Sequence[int]] | None
    tools: Sequence[Mapping[str, object]] = ()
    _by_rule: Mapping[Pair, Mapping[str, float]] | None = None

    def __post_init__(self) -> None:
        read = self.stated.statements_beside(self.samples, self.token_ends, self.tools)
        self._read, self.num_tokens = read, read.num_tokens
        self.num_pairs = len(read.hypotheses) * sum(map(len, read.chunks.values()))

    def parts(self, table: PairTable) -> Parts:
        """The statements with their support, by scores of chunks of samples beside each.

        A statement may repeat numbers of the question, and words of it say nothing.
        """
        if self._by_rule is None:
            rules, read = table.rules.of_statements, self._read
            self._by_rule = rules.of_chunks(read.hypotheses, read.chunks, read.sentences)
        contradiction, num_pairs = None, 0
        if self.token_ends is not None:
            contradiction, num_pairs = self._scores(table, "contradiction"), self.num_pairs
        units = tuple(self._read.told(self._scores(table, "entailment"), contradiction))
        warnings = self.stated.warnings + self._read.warnings
        return replace(self.stated, units=units, warnings=warnings, num_pairs=num_pairs)

    def _scores(self, table: PairTable, label: str) -> dict[str, Array]:
        """Scores (C_m, U) of the chunks of each distinct sample for each statement."""
        scores: dict[str, Array] = {}
        by_words, by_rule = table.rules.of_statements, self._by_rule or {}
        table = replace(table, rules=table.rules.of_texts_alone())
        for sample, chunks in self._read.chunks.items():
            values = np.empty((len(chunks), len(self._read.hypotheses)))
            for row, chunk in zip(values, chunks, strict=True):
                for column, hypothesis in enumerate(self._read.hypotheses):
                    value = by_rule.get((chunk, hypothesis), {}).get(label)
                    if value is None and self.token_ends is None:
                        value = by_words.share_said(hypothesis, chunk)
                    elif value is None:
                        value = table.value(chunk, hypothesis, label)
                    row[column] = value
            scores[sample] = values
        return scores
