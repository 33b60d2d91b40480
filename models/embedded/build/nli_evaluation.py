"""How good the NLI model is.

It is measured on held-out pairs, and on what the language model's samples say about each other.
"""

import random
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from transformers import BertForSequenceClassification, PreTrainedTokenizerFast

from models.embedded.build.answers import Answered, meaning
from models.embedded.build.nli import probabilities
from models.embedded.build.nli_pairs import (
    LABELS,
    NliPair,
    contradicting_statements,
    make_nli_pairs,
    nli_sources,
)
from models.embedded.build.pairs import Pair
from models.embedded.build.testbed import HeldOut

NUM_HELD_OUT_PAIRS = 6000
NUM_STATEMENTS = 3000

_ENTAILMENT = LABELS.index("entailment")


def held_out_nli_pairs(count: int = NUM_HELD_OUT_PAIRS, seed: int = 0) -> list[NliPair]:
    """Pairs over entities, numbers and prose that no training pair holds."""
    return make_nli_pairs(nli_sources("test"), count, random.Random(f"nli:test:{seed}"))  # noqa: S311, a corpus is no secret


def statement_quality(
    model: BertForSequenceClassification, tokenizer: PreTrainedTokenizerFast
) -> dict[str, Any]:
    """Quality on contradicting statements about one subject.

    The mixed pairs hold too few of these to show that quality.
    """
    pairs = contradicting_statements(nli_sources("test"), NUM_STATEMENTS, random.Random(0))  # noqa: S311
    return classification_quality(model, tokenizer, pairs)


def sampled_pairs(lines: Sequence[HeldOut], answers: Sequence[Answered]) -> list[Pair]:
    """Every two different texts among the samples of a prompt, labelled by what they mean."""
    return [
        Pair(first, second, meaning(first, line) == meaning(second, line), line.task)
        for line, answered in zip(lines, answers, strict=True)
        for first, second in combinations(
            sorted({sample.strip() for sample in answered.samples}), 2
        )
    ]


def _both_orders(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    pairs: Sequence[Pair | NliPair],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    there = [(pair.first, pair.second) for pair in pairs]
    back = [(pair.second, pair.first) for pair in pairs]
    return probabilities(model, tokenizer, there), probabilities(model, tokenizer, back)


def _gap(there: NDArray[np.float32], back: NDArray[np.float32]) -> float:
    return round(float(np.abs(there - back)[:, _ENTAILMENT].mean()), 4)


def classification_quality(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    pairs: Sequence[NliPair],
) -> dict[str, Any]:
    """Accuracy of the likeliest label, in all and by family, and its confusions.

    A confusion is how often one label is taken for another.

    `confusion[label][found]` counts pairs; `entailment_gap_mean` is the mean of |p(a entails b) -
    p(b entails a)|.
    """
    there, back = _both_orders(model, tokenizer, pairs)
    label = np.array([LABELS.index(pair.label) for pair in pairs])
    family = np.array([pair.family for pair in pairs])
    found = there.argmax(1)
    right = found == label
    return {
        "pairs": len(pairs),
        "accuracy": round(float(right.mean()), 4),
        "accuracy_by_family": {
            f: round(float(right[family == f].mean()), 4) for f in sorted(set(family.tolist()))
        },
        "confusion": {
            name: {
                other: int(((label == i) & (found == j)).sum()) for j, other in enumerate(LABELS)
            }
            for i, name in enumerate(LABELS)
        },
        "entailment_gap_mean": _gap(there, back),
    }


def same_meaning_quality(
    model: BertForSequenceClassification, tokenizer: PreTrainedTokenizerFast, pairs: Sequence[Pair]
) -> dict[str, Any]:
    """ROC-AUC of p(entailment) for pairs of one meaning, in all and by family.

    Also how often entailment decides it.

    `accuracy_both_ways` counts a pair as the same where entailment is the likeliest label in both
    orders, as semantic entropy clusters do.
    """
    there, back = _both_orders(model, tokenizer, pairs)
    same = np.array([pair.same for pair in pairs])
    family = np.array([pair.family for pair in pairs])
    score = there[:, _ENTAILMENT]
    both = (there.argmax(1) == _ENTAILMENT) & (back.argmax(1) == _ENTAILMENT)
    return {
        "pairs": len(pairs),
        "auc": round(float(roc_auc_score(same, score)), 4),
        "auc_by_family": {
            f: round(float(roc_auc_score(same[family == f], score[family == f])), 4)
            for f in sorted(set(family.tolist()))
            if 0 < same[family == f].sum() < (family == f).sum()
        },
        "accuracy_both_ways": round(float((both == same).mean()), 4),
        "entailment_gap_mean": _gap(there, back),
    }


def nli_quality(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    answered: Mapping[str, tuple[Sequence[HeldOut], Sequence[Answered]]],
) -> dict[str, Any]:
    """Quality on held-out pairs, contradicting statements and the language model's samples.

    The samples are taken in pairs.
    """
    own = [pair for lines, answers in answered.values() for pair in sampled_pairs(lines, answers)]
    return {
        "held_out_pairs": classification_quality(model, tokenizer, held_out_nli_pairs()),
        "contradicting_statements": statement_quality(model, tokenizer),
        "language_model_samples": same_meaning_quality(model, tokenizer, own),
    }
