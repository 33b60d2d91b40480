"""How good the NLI model is, on held-out pairs and on pairs of the language model's samples."""

import random
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from transformers import BertForSequenceClassification, PreTrainedTokenizerFast

from cocoa_lab.embedded.answers import Answered, meaning
from cocoa_lab.embedded.cross_encoder import auc_by_family, both_orders
from cocoa_lab.embedded.hard_evaluation import hard_quality, held_out_hard_pairs
from cocoa_lab.embedded.nli import probabilities
from cocoa_lab.embedded.nli_pairs import (
    LABELS,
    NliPair,
    contradicting_statements,
    make_nli_pairs,
    nli_sources,
)
from cocoa_lab.embedded.pairs import Pair
from cocoa_lab.embedded.testbed import HeldOut
from cocoa_lab.embedded.world.building import world_of
from cocoa_lab.embedded.world.pairs import make_pairs, pool_of

NUM_HELD_OUT_PAIRS = 6000
NUM_STATEMENTS = 3000

_ENTAILMENT = LABELS.index("entailment")


def held_out_nli_pairs(count: int = NUM_HELD_OUT_PAIRS, seed: int = 0) -> list[NliPair]:
    """Pairs over entities, numbers and prose that no training pair holds."""
    return make_nli_pairs(nli_sources("test"), count, random.Random(f"nli:test:{seed}"))  # noqa: S311, a corpus is no secret


def statement_quality(
    model: BertForSequenceClassification, tokenizer: PreTrainedTokenizerFast
) -> dict[str, Any]:
    """Quality on contradicting statements about one subject, rare among the mixed pairs."""
    pairs = contradicting_statements(nli_sources("test"), NUM_STATEMENTS, random.Random(0))  # noqa: S311
    return classification_quality(model, tokenizer, pairs)


def held_out_texts(count: int = NUM_HELD_OUT_PAIRS, seed: int = 0) -> list[NliPair]:
    """Texts about places with sentences, over names that no training pair holds."""
    return make_pairs(pool_of([world_of(0)], "testbed"), count, f"test:{seed}")


def text_quality(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    pairs: Sequence[NliPair],
) -> dict[str, Any]:
    """As `classification_quality`, in this order alone: a text and a sentence."""
    texts = [(pair.first, pair.second) for pair in pairs]
    return _quality(pairs, probabilities(model, tokenizer, texts))


def _quality(pairs: Sequence[NliPair], found: NDArray[np.float32]) -> dict[str, Any]:
    """Of probabilities (N, 3) of the labels of pairs."""
    labels = np.array([LABELS.index(pair.label) for pair in pairs])
    predicted = found.argmax(1)
    right = predicted == labels
    return {
        "pairs": len(pairs),
        "accuracy": round(float(right.mean()), 4),
        "accuracy_by_family": _accuracy_by_family(pairs, right),
        "confusion": _confusion(labels, predicted),
    }


def sampled_pairs(lines: Sequence[HeldOut], answers: Sequence[Answered]) -> list[Pair]:
    """Every two different texts among the samples of a prompt, labelled by what they mean."""
    pairs: list[Pair] = []
    for line, answer in zip(lines, answers, strict=True):
        texts = sorted(set(map(str.strip, answer.samples)))
        for first, second in combinations(texts, 2):
            same = meaning(first, line) == meaning(second, line)
            pairs.append(Pair(first, second, same, line.task))
    return pairs


def _both_orders(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    pairs: Sequence[Pair | NliPair],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Probabilities (N, 3) of the labels for (first, second) and for (second, first)."""
    in_order, swapped = both_orders(pairs)
    return probabilities(model, tokenizer, in_order), probabilities(model, tokenizer, swapped)


def _entailment_gap(there: NDArray[np.float32], back: NDArray[np.float32]) -> float:
    """Mean of |p(a entails b) - p(b entails a)|."""
    return round(float(np.abs(there - back)[:, _ENTAILMENT].mean()), 4)


def _accuracy_by_family(pairs: Sequence[NliPair], right: NDArray[np.bool_]) -> dict[str, float]:
    families = np.array([pair.family for pair in pairs])
    accuracies: dict[str, float] = {}
    for family in np.unique(families).tolist():
        accuracies[family] = round(float(right[families == family].mean()), 4)
    return accuracies


def _confusion(labels: NDArray[np.intp], predicted: NDArray[np.intp]) -> dict[str, dict[str, int]]:
    """Number of pairs by label and by the label predicted for them."""
    confusion: dict[str, dict[str, int]] = {}
    for i, label in enumerate(LABELS):
        counts = np.bincount(predicted[labels == i], minlength=len(LABELS)).tolist()
        confusion[label] = dict(zip(LABELS, counts, strict=True))
    return confusion


def classification_quality(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    pairs: Sequence[NliPair],
) -> dict[str, Any]:
    """Accuracy of the likeliest label, in all and by family, and confusions of labels.

    `confusion[label][predicted]` counts pairs; `entailment_gap_mean` is the mean of |p(a entails b)
    - p(b entails a)|.
    """
    there, back = _both_orders(model, tokenizer, pairs)
    return _quality(pairs, there) | {"entailment_gap_mean": _entailment_gap(there, back)}


def same_meaning_quality(
    model: BertForSequenceClassification, tokenizer: PreTrainedTokenizerFast, pairs: Sequence[Pair]
) -> dict[str, Any]:
    """ROC-AUC of p(entailment) for pairs of one meaning, in all and by family, and accuracy.

    `accuracy_both_ways` counts a pair as the same where entailment is the likeliest label in both
    orders, which is how semantic entropy forms its classes.
    """
    there, back = _both_orders(model, tokenizer, pairs)
    same = np.array([pair.same for pair in pairs])
    entailment = there[:, _ENTAILMENT]
    both_ways = (there.argmax(1) == _ENTAILMENT) & (back.argmax(1) == _ENTAILMENT)
    return {
        "pairs": len(pairs),
        "auc": round(float(roc_auc_score(same, entailment)), 4),
        "auc_by_family": auc_by_family(pairs, entailment),
        "accuracy_both_ways": round(float((both_ways == same).mean()), 4),
        "entailment_gap_mean": _entailment_gap(there, back),
    }


def nli_quality(
    model: BertForSequenceClassification,
    tokenizer: PreTrainedTokenizerFast,
    answered: Mapping[str, tuple[Sequence[HeldOut], Sequence[Answered]]],
) -> dict[str, Any]:
    """Quality on held-out pairs of answers, easy and hard, of texts, and on the model's samples.

    answered: lines of the testbed and the language model's answers to them, by task.
    """

    def entailment(texts: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        return probabilities(model, tokenizer, texts)[:, _ENTAILMENT]

    own_pairs: list[Pair] = []
    for lines, answers in answered.values():
        own_pairs += sampled_pairs(lines, answers)
    return {
        "held_out_pairs": classification_quality(model, tokenizer, held_out_nli_pairs()),
        "hard_pairs": hard_quality(entailment, held_out_hard_pairs()),
        "held_out_texts": text_quality(model, tokenizer, held_out_texts()),
        "contradicting_statements": statement_quality(model, tokenizer),
        "language_model_samples": same_meaning_quality(model, tokenizer, own_pairs),
    }
