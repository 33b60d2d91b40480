"""Pure: scores of pairs as vectors and matrices over samples, and the pairs that these read."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property, partial
from itertools import chain, product, repeat
from operator import attrgetter
from typing import Self

import numpy as np

from models.records import Array, Pair
from models.similarity import LEARNED
from models.similarity.added import (
    QuestionWords,
    Words,
    added,
    containment,
    question_words,
    share_contained,
    words_of,
)
from models.similarity.protocol import SimilarityConfig
from models.similarity.reading import Item, read
from models.similarity.rules import (
    VERSION,
    Question,
    Reading,
    Relation,
    covers,
    question_of,
    reading,
    relation,
    relation_of_words,
    units_by_value,
)
from models.similarity.vocabulary import VERDICTS
from models.units.steps import WorkBudget

# Scores of a pair known without a model, on each label; where one text is empty, 0 on all.
_KNOWN = {
    "same": {"similarity": 1.0, "entailment": 1.0, "neutral": 0.0, "contradiction": 0.0},
    "different": {"similarity": 0.0, "entailment": 0.0, "neutral": 0.0, "contradiction": 1.0},
    "empty": dict.fromkeys(("similarity", "entailment", "neutral", "contradiction"), 0.0),
}
# Of a pair whose texts are read; see `models.units.steps`.
STEPS_A_PAIR = 4
_NUMERAL = re.compile(r"[-+]?\d[\d.,]*")


@dataclass(frozen=True, slots=True)
class PairRules:
    """How texts are compared before a model, or in its place."""

    # As of `SimilarityConfig`; without `exact_match` no pair is known.
    strip: bool = True
    exact_match: bool = True
    cuts: bool = False  # whether only what texts add to their question is compared
    # Whether the words of what they add decide where no rule does, in place of a model.
    by_words: bool = False

    @classmethod
    def of(cls, name: str, config: SimilarityConfig) -> Self:
        """Those of the similarity function of this name; models with weights heed `compare`."""
        cuts = name == "added"
        if name in LEARNED and config.compare != "whole":
            cuts = config.compare == "added" or name == "embedding"
        return cls(config.strip, config.exact_match, cuts, by_words=name == "added")

    @property
    def identity(self) -> tuple[bool | int | str, ...]:
        """The part of the rules that decides scores of answers, of whatever question."""
        return VERSION, self.strip, self.exact_match, *(["added"] if self.cuts else [])

    def for_texts(self, questions: Sequence[str], steps: WorkBudget) -> "TextRules":
        """The rules for the texts of an ask with these questions."""
        return TextRules(self, questions, steps=steps)

    def normalise(self, text: str) -> str:
        """The text without blanks around it, where they are not compared."""
        if self.strip:
            return text.strip()
        return text

    def matches(self, answer: str, samples: Sequence[str]) -> Array:
        """1.0 where a sample equals the answer as it is compared, else 0.0: (M,)."""
        is_match = self.normalise(answer).__eq__
        return np.array(list(map(is_match, map(self.normalise, samples))), dtype=float)


@dataclass(frozen=True, slots=True)
class _Text:
    """What was read of a text: what the rules compare, and the items that count.

    Where texts are cut, these are what it adds to its question, and `added` their words in order.
    """

    reading: Reading
    items: Sequence[Item]
    added: str


@dataclass(eq=False)
class TextRules:
    """The rules for the texts of one ask, each of which is read once, when it is first compared."""

    rules: PairRules = PairRules()  # of the similarity scorer
    questions: Sequence[str] = ("",)  # of a chat, whose last one the texts answer
    reads: bool = True  # whether texts are read at all, beyond what is equal or empty
    # The texts are values of fields: numerals among them are equal letter by letter.
    are_values: bool = False
    steps: WorkBudget = field(default_factory=WorkBudget)  # that comparing them may take
    _texts: dict[str, _Text] = field(default_factory=dict)
    _words: dict[str, Words] = field(default_factory=dict)

    def of_values(self) -> "TextRules":
        """The same for the values of fields, which are compared whole."""
        return TextRules(replace(self.rules, cuts=False), are_values=True, steps=self.steps)

    @cached_property
    def of_statements(self) -> "TextRules":
        """The same for sentences of answers, whose words count by what they add."""
        rules = replace(self.rules, cuts=True, by_words=True)
        return TextRules(rules, self.questions, steps=self.steps)

    def of_texts_alone(self) -> "TextRules":
        """The same for texts that are no answers: only equal and empty ones are known."""
        return TextRules(replace(self.rules, cuts=False), reads=False, steps=self.steps)

    def compared(self, text: str) -> str:
        """The text as a model compares it."""
        text = self.rules.normalise(text)
        if not self.rules.cuts or self.rules.by_words:
            return text
        return self._read(text).added

    def value(self, a: str, b: str, label: str) -> float | None:
        """Score of two texts where it is known: they are compared as equal, or a rule gives it."""
        a, b = self.rules.normalise(a), self.rules.normalise(b)
        if self.rules.exact_match and a == b:
            return _KNOWN["same"][label]
        if self.rules.exact_match and not (a and b):
            return _KNOWN["empty"][label]
        self.steps.take(STEPS_A_PAIR)
        if self.rules.exact_match and self.reads and (related := self._relation(a, b)):
            return _KNOWN[related][label]
        if self.rules.by_words:
            return containment(self.words(a), self.words(b))
        if self.rules.exact_match and self.compared(a) == self.compared(b):
            return _KNOWN["same"][label]
        return None

    @cached_property
    def question(self) -> Question:
        """What the question says of its answers."""
        return question_of(self.questions[-1])

    @cached_property
    def _repeated(self) -> QuestionWords:
        return question_words(*self.questions)

    def reading(self, text: str) -> Reading:
        """The features of a text that rules compare."""
        return self._read(text).reading

    def words(self, text: str) -> Words:
        """The words that a text adds to the question."""
        if text not in self._words:
            told = self._read(text)
            words = words_of(told.items)
            if told.added == "yes" and VERDICTS.isdisjoint(told.reading.frame):
                words = replace(words, repeated=frozenset(told.reading.content))
            self._words[text] = words
        return self._words[text]

    def share_said(self, statement: str, text: str) -> float:
        """Share of the words of a statement that a text has, in [0, 1]."""
        return share_contained(self.words(statement), self.words(text))

    def of_chunks(
        self,
        statements: Iterable[str],
        chunks: Mapping[str, Sequence[str]],
        sentences: Mapping[str, Sequence[str]],
    ) -> dict[Pair, dict[str, float]]:
        """Labels of chunk and statement that rules decide, whatever a model would say.

        A sample supports what it says word for word, and denies it with other numbers or a negation
        in the same words. A chunk that lacks a number of the statement does not entail it. Chunks
        are by sample, and sentences by chunk.
        """
        labels = dict[Pair, dict[str, float]]()
        for of_sample in chunks.values():
            units = dict[str, Mapping[Fraction, Set[str]]]()
            for chunk in of_sample:
                numbers = map(attrgetter("numbers"), map(self.reading, sentences[chunk]))
                units[chunk] = units_by_value(chain(self.question.known, *numbers))
            for statement in dict.fromkeys(statements):
                read, is_said = self.reading(statement), False
                denying = set[str]()
                for chunk in of_sample:
                    self.steps.take(STEPS_A_PAIR * len(sentences[chunk]))
                    said = map(self.reading, sentences[chunk])
                    related = set(map(relation_of_words, said, repeat(read), repeat(self.question)))
                    is_said |= "same" in related
                    if "different" in related:
                        denying.add(chunk)
                for chunk in of_sample:
                    if is_said:
                        labels[chunk, statement] = {"entailment": 1.0, "contradiction": 0.0}
                    elif chunk in denying:
                        labels[chunk, statement] = {"entailment": 0.0, "contradiction": 1.0}
                    elif not covers(units[chunk], read.numbers):
                        labels[chunk, statement] = {"entailment": 0.0}
        return labels

    def _relation(self, a: str, b: str) -> Relation | None:
        if self.are_values and (_NUMERAL.fullmatch(a) or _NUMERAL.fullmatch(b)):
            return "different"
        return relation(self.reading(a), self.reading(b), self.question)

    def _read(self, text: str) -> _Text:
        if text not in self._texts:
            items = read(text, self.question.asked)
            told: Sequence[Item] = items
            written = text
            if self.rules.cuts:
                told = added(items, self._repeated)
                written = " ".join(item.text for item in told) or text
            self._texts[text] = _Text(reading(items, len(text)), told, written)
        return self._texts[text]


@dataclass(frozen=True, slots=True)
class PairTable:
    """Scores of the pairs that a model compared; the rules fill in the rest."""

    labels: tuple[str, ...]  # names of the K values of a pair
    scores: Mapping[Pair, tuple[float, ...]]  # pair to its K values
    rules: TextRules
    truncated: bool = False  # whether any of these pairs was cut to the model's length

    @classmethod
    def noting(cls, labels: tuple[str, ...], rules: TextRules | None = None) -> Self:
        """A table without scores: `scores` gets each pair that is looked up, 0 on all labels.

        So it tells which pairs a reader needs, if no score decides whether others are read. Without
        rules no text is read, and it gets all pairs of texts that differ and are not empty.
        """
        rules = rules or TextRules(reads=False)
        return cls(labels, defaultdict(lambda: (0.0,) * len(labels)), rules)

    def value(self, a: str, b: str, label: str) -> float:
        """Score of the ordered pair of texts on one label."""
        known = self.rules.value(a, b, label)
        if known is not None:
            return known
        pair = self.rules.compared(a), self.rules.compared(b)
        return self.scores[pair][self.labels.index(label)]

    def similarity_of_values(self) -> Callable[[str, str], float]:
        """The similarity of two values of fields, which are compared whole; in both orders."""
        table = replace(self, rules=self.rules.of_values())
        return partial(table.both_directions, label="similarity")

    def both_directions(self, a: str, b: str, label: str) -> float:
        """Mean over the two orders of the pair."""
        return (self.value(a, b, label) + self.value(b, a, label)) / 2

    def answer_relation(self, answer: str, samples: Sequence[str], label: str) -> Array:
        """Values (M,) of the answer against each sample, both directions averaged."""
        return np.array([*map(cache(partial(self.both_directions, answer, label=label)), samples)])

    def similarity_matrix(self, texts: Sequence[str]) -> Array:
        """S (M, M), both directions averaged, diagonal 1."""
        directed = self.directed_matrix(texts, "similarity")
        matrix: Array = (directed + directed.T) / 2
        np.fill_diagonal(matrix, 1.0)
        return matrix

    def token_relevance(self, context: str, token_texts: Sequence[str]) -> Array:
        """R (T,): clip(1 - s(x + " " + y, x + " " + y without t), 0, 1). Duan et al. 2024.

        Both directions averaged; 0 for tokens without text of their own, as EOS and special tokens
        are, and for blanks around the text.

        Args:
            context: x, the prompt, cut from the left so that the pair fits the model.
            token_texts: (T,) the text that each token adds.
        """
        table = replace(self, rules=self.rules.of_texts_alone())
        whole = _joined(context, token_texts)
        similarity = np.ones(len(token_texts))
        for t in range(len(token_texts)):
            without = _joined(context, [*token_texts[:t], *token_texts[t + 1 :]])
            if without != whole:
                similarity[t] = table.both_directions(whole, without, "similarity")
        return np.clip(1.0 - similarity, 0.0, 1.0)

    def directed_matrix(self, texts: Sequence[str], label: str) -> Array:
        """Values (M, M) of text i against text j, not symmetrised."""
        normalise = self.rules.rules.normalise
        distinct = list(dict.fromkeys(map(normalise, texts)))
        index = [distinct.index(normalise(text)) for text in texts]
        values: Array = np.array([self.value(a, b, label) for a, b in product(distinct, distinct)])
        return values.reshape(len(distinct), len(distinct))[np.ix_(index, index)]


def _joined(context: str, token_texts: Sequence[str]) -> str:
    return f"{context} {''.join(token_texts).strip()}".strip()
