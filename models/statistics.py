"""Every statistic that an estimator can read: who supplies it, what it is made of, what it costs.

The names are the estimators' parameter names. A new statistic is one row here and the code of its
source; whatever plans, derives, stores or documents statistics reads this table.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from models.ranges import COUNTS, ENTROPIES, LOGPROBS, PROBABILITIES, Range

# answer, samples: the generator, token by token. reasoning: what the generator wrote before the
# answer, which comes unrequested. probe: the generator's probes. question: the generator, in a
# question about its own answer. texts: nobody, equal texts show it. similarity, nli: those models.
# parts: what documents say of each, which is looked up anew each time, and never stored.
Source = Literal[
    "answer", "samples", "reasoning", "probe", "question", "texts", "similarity", "nli", "parts"
]


# T: tokens of the answer. M: samples. T_m: tokens of each of them.
Dimension = Literal["T", "M", "T_m"]
# Names of the values that pair models give.
Label = Literal["similarity", "entailment", "contradiction"]


@dataclass(frozen=True, slots=True)
class Statistic:
    """One row of the table."""

    source: Source  # the supplier of it
    # Its dimensions; empty for one number, T_m second for one array or list a sample.
    shape: tuple[Dimension, ...]
    # Statistics that it is computed from; empty for what a generator supplies.
    derived_from: frozenset[str] = frozenset()
    cost: str = ""  # the addition to the answer's own cost, with D distinct sample texts
    within: Range | None = PROBABILITIES  # the range of its numbers; None for texts
    # Of `models.records.Sequence`, that holds it where a generator supplies it by token.
    field: str | None = None
    # Where it is the answer's, the statistic that says the same of the samples.
    of_samples: str | None = None
    label: Label | None = None  # the value of a pair that it is made of


def _answer(field: str, of_samples: str, within: Range | None) -> Statistic:
    return Statistic("answer", ("T",), within=within, field=field, of_samples=of_samples)


def _samples(shape: tuple[Dimension, ...], field: str, within: Range | None) -> Statistic:
    return Statistic("samples", shape, cost="M samples", within=within, field=field)


def _similarity(shape: tuple[Dimension, ...], made_of: str, cost: str) -> Statistic:
    return Statistic("similarity", shape, frozenset({made_of}), cost, label="similarity")


def _nli(shape: tuple[Dimension, ...], label: Label, cost: str) -> Statistic:
    return Statistic("nli", shape, frozenset({"sample_texts"}), f"M samples, {cost}", label=label)


# The statistic that a probe of sentences predicts.
SENTENCES_READ = "sentence_dissimilarity"
_MATRIX = "≤ D(D - 1) NLI pairs"
_ROW = "≤ 2D NLI pairs"

STATISTICS: Mapping[str, Statistic] = MappingProxyType(
    {
        "answer_token_logprobs": _answer("token_logprobs", "sample_token_logprobs", LOGPROBS),
        "answer_token_entropies": _answer("token_entropies", "sample_token_entropies", ENTROPIES),
        "answer_token_texts": _answer("token_texts", "sample_token_texts", None),
        "sample_texts": _samples(("M",), "compared_text", None),
        "sample_token_logprobs": _samples(("M", "T_m"), "token_logprobs", LOGPROBS),
        "sample_token_entropies": _samples(("M", "T_m"), "token_entropies", ENTROPIES),
        "sample_token_texts": _samples(("M", "T_m"), "token_texts", None),
        "reasoning_tokens": Statistic("reasoning", (), within=COUNTS),
        "predicted_dissimilarity": Statistic("probe", (), cost="a probe"),
        "predicted_high_semantic_entropy": Statistic("probe", (), cost="a probe"),
        # The mean over sentences, of which each has its own `predicted_dissimilarity`.
        SENTENCES_READ: Statistic("probe", (), cost="a probe"),
        "p_true_logprob": Statistic("question", (), cost="one more prefill", within=LOGPROBS),
        # The answer's, read behind its prompt without the documents.
        "closed_book_token_logprobs": Statistic(
            "question", ("T",), cost="one more prefill", within=LOGPROBS
        ),
        "grounded": Statistic("parts", ()),
        "exact_match": Statistic("texts", ("M",), frozenset({"sample_texts"}), "M samples"),
        "similarity": _similarity(("M",), "sample_texts", "M samples, ≤ 2D pairs"),
        "similarity_matrix": _similarity(("M", "M"), "sample_texts", "M samples, ≤ D(D - 1) pairs"),
        "token_relevance": _similarity(("T",), "answer_token_texts", "≤ 2T pairs"),
        "sample_token_relevance": _similarity(
            ("M", "T_m"), "sample_token_texts", "M samples, ≤ 2 ΣT_m pairs"
        ),
        "entailment": _nli(("M", "M"), "entailment", _MATRIX),
        "contradiction": _nli(("M", "M"), "contradiction", _MATRIX),
        "answer_entailment": _nli(("M",), "entailment", _ROW),
        "answer_contradiction": _nli(("M",), "contradiction", _ROW),
    }
)


@functools.cache
def supplied_by(*sources: Source) -> frozenset[str]:
    """Names of all statistics of these sources.

    >>> sorted(supplied_by("question", "texts"))
    ['closed_book_token_logprobs', 'exact_match', 'p_true_logprob']
    """
    return frozenset(name for name, statistic in STATISTICS.items() if statistic.source in sources)


@functools.lru_cache(256)
def fields_of(names: frozenset[str], source: Source) -> frozenset[str]:
    """Fields of a sequence that hold those of the statistics that this source supplies.

    >>> sorted(fields_of(frozenset({"sample_texts", "answer_token_logprobs"}), "samples"))
    ['compared_text']
    """
    fields = set()
    for name in names & supplied_by(source):
        fields.add(STATISTICS[name].field or name)
    return frozenset(fields)


def sources_of(names: frozenset[str]) -> frozenset[str]:
    """The statistics that these are made of: each itself, or those that it is derived from.

    >>> sorted(sources_of(frozenset({"similarity", "p_true_logprob"})))
    ['p_true_logprob', 'sample_texts']
    """
    sources: set[str] = set()
    for name in names:
        sources |= STATISTICS[name].derived_from or {name}
    return frozenset(sources)


def derivable(supplied: frozenset[str], *, has_nli: bool) -> frozenset[str]:
    """The statistics that a generator supplies, and all that can be derived from them."""
    known = set(supplied)
    for name, statistic in STATISTICS.items():
        is_derivable = statistic.derived_from and statistic.derived_from <= supplied
        if is_derivable and (has_nli or statistic.source != "nli"):
            known.add(name)
    return frozenset(known)


def reads_samples(names: frozenset[str]) -> bool:
    """True where any of these statistics is made of samples."""
    return bool(sources_of(names) & supplied_by("samples"))
