"""Every statistic that an estimator can read: who supplies it, what it is made of, what it costs.

The names are the estimators' parameter names. A new statistic is one row here and the code of its
source; whatever plans, derives, stores or documents statistics reads this table.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from models.ranges import ENTROPIES, LOGPROBS, PROBABILITIES, Range

# answer, samples: the generator, token by token. probe: the generator's probes. question: the
# generator, asked about its own answer. texts: nobody, equal texts tell it. similarity, nli: the
# comparers.
Source = Literal["answer", "samples", "probe", "question", "texts", "similarity", "nli"]


@dataclass(frozen=True, slots=True)
class Statistic:
    """One row of the table.

    Attributes:
        source: who supplies it.
        shape: with T tokens in the answer, M samples, T_m tokens in a sample.
        derived_from: statistics that it is computed from; empty for what a generator supplies.
        cost: what it adds to the answer's own cost, with D distinct sample texts.
        within: where its numbers lie, if it is made of any.
    """

    source: Source
    shape: str
    derived_from: frozenset[str] = frozenset()
    cost: str = ""
    within: Range = PROBABILITIES


_TEXTS = frozenset({"sample_texts"})
_MATRIX = "M samples, ≤ D(D - 1) NLI pairs"
_ROW = "M samples, ≤ 2D NLI pairs"

STATISTICS: Mapping[str, Statistic] = MappingProxyType(
    {
        "answer_token_logprobs": Statistic("answer", "(T,)", within=LOGPROBS),
        "answer_token_entropies": Statistic("answer", "(T,)", within=ENTROPIES),
        "answer_token_texts": Statistic("answer", "T strings"),
        "sample_texts": Statistic("samples", "M strings", cost="M samples"),
        "sample_token_logprobs": Statistic(
            "samples", "M arrays (T_m,)", cost="M samples", within=LOGPROBS
        ),
        "sample_token_entropies": Statistic(
            "samples", "M arrays (T_m,)", cost="M samples", within=ENTROPIES
        ),
        "sample_token_texts": Statistic("samples", "M times T_m strings", cost="M samples"),
        "predicted_dissimilarity": Statistic("probe", "float", cost="a probe"),
        "predicted_high_semantic_entropy": Statistic("probe", "float", cost="a probe"),
        "p_true_logprob": Statistic("question", "float", cost="one more prefill", within=LOGPROBS),
        "exact_match": Statistic("texts", "(M,)", _TEXTS, "M samples"),
        "similarity": Statistic("similarity", "(M,)", _TEXTS, "M samples, ≤ 2D pairs"),
        "similarity_matrix": Statistic(
            "similarity", "(M, M)", _TEXTS, "M samples, ≤ D(D - 1) pairs"
        ),
        "token_relevance": Statistic(
            "similarity", "(T,)", frozenset({"answer_token_texts"}), "≤ 2T pairs"
        ),
        "sample_token_relevance": Statistic(
            "similarity",
            "M arrays (T_m,)",
            frozenset({"sample_token_texts"}),
            "M samples, ≤ 2 ΣT_m pairs",
        ),
        "entailment": Statistic("nli", "(M, M)", _TEXTS, _MATRIX),
        "contradiction": Statistic("nli", "(M, M)", _TEXTS, _MATRIX),
        "answer_entailment": Statistic("nli", "(M,)", _TEXTS, _ROW),
        "answer_contradiction": Statistic("nli", "(M,)", _TEXTS, _ROW),
    }
)


@functools.cache
def supplied_by(*sources: Source) -> frozenset[str]:
    """Names of all statistics of these sources.

    >>> sorted(supplied_by("question", "texts"))
    ['exact_match', 'p_true_logprob']
    """
    return frozenset(name for name, one in STATISTICS.items() if one.source in sources)


ANSWER_STATISTICS = supplied_by("answer")
SAMPLE_STATISTICS = supplied_by("samples")
PROBE_STATISTICS = supplied_by("probe")


def sources_of(names: frozenset[str]) -> frozenset[str]:
    """What these statistics are made of: each itself, or what it is derived from.

    >>> sorted(sources_of(frozenset({"similarity", "p_true_logprob"})))
    ['p_true_logprob', 'sample_texts']
    """
    return frozenset().union(*(STATISTICS[name].derived_from or {name} for name in names))


def derivable(supplied: frozenset[str], *, has_nli: bool) -> frozenset[str]:
    """The statistics that a generator supplies, and all that can be derived from them."""
    known = set(supplied)
    for name, one in STATISTICS.items():
        is_derivable = one.derived_from and one.derived_from <= supplied
        if is_derivable and (has_nli or one.source != "nli"):
            known.add(name)
    return frozenset(known)


def reads_samples(names: frozenset[str]) -> bool:
    """Whether any of these statistics is made of samples."""
    return bool(sources_of(names) & SAMPLE_STATISTICS)
