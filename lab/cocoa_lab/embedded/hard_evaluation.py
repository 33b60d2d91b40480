"""How well a pair model tells `hard_pairs` apart, alone and behind the rules of the service."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from cocoa_lab.embedded.cross_encoder import Texts, both_orders
from cocoa_lab.embedded.hard_pairs import KINDS, hard_pairs, hard_source
from cocoa_lab.embedded.pairs import Pair
from models.similarity.pairs import TextRules

PAIRS_OF_A_KIND = 1000

# From pairs of texts to their scores (N,).
Scores = Callable[[Sequence[Texts]], NDArray[np.float32]]


def held_out_hard_pairs(count: int = PAIRS_OF_A_KIND * len(KINDS), seed: int = 0) -> list[Pair]:
    """Pairs of all kinds over names, words and numbers that no training pair holds."""
    return hard_pairs(hard_source("test"), count, random.Random(f"hard:test:{seed}"))  # noqa: S311, a corpus is no secret


def hard_quality(scores: Scores, pairs: Sequence[Pair]) -> dict[str, dict[str, float]]:
    """By kind: number of pairs, ROC-AUC and accuracy of the model alone, and with the rules.

    A score is the mean over both orders; a rule's verdict stands in place of it where there is one.
    `auc` and `accuracy` (at one half) are the model's, `auc_with_rules` the service's, and
    `known_by_rule` the share of pairs that the model is not asked in the service.
    """
    in_order, swapped = both_orders(pairs)
    alone = (scores(in_order) + scores(swapped)) / 2
    known = _known(in_order)
    with_rules = np.where(np.isnan(known), alone, known)
    same = np.array([pair.same for pair in pairs])
    kinds = np.array([pair.family for pair in pairs])
    quality: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        of_kind = kinds == kind
        figures: dict[str, Any] = {
            "auc": roc_auc_score(same[of_kind], alone[of_kind]),
            "accuracy": ((alone > 0.5) == same)[of_kind].mean(),
            "auc_with_rules": roc_auc_score(same[of_kind], with_rules[of_kind]),
            "known_by_rule": (~np.isnan(known))[of_kind].mean(),
        }
        rounded = {name: round(float(figure), 4) for name, figure in figures.items()}
        quality[kind] = {"pairs": int(of_kind.sum())} | rounded
    return quality


def _known(texts: Sequence[Texts]) -> NDArray[np.float64]:
    """Scores (N,) by rule, NaN where the model is asked."""
    known: list[float | None] = []
    for first, second in texts:
        rules = TextRules()
        known.append(rules.value(rules.compared(first), rules.compared(second), "similarity"))
    return np.array(known, dtype=float)
