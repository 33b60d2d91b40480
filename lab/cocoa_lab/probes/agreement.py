"""How well predictions agree with what samples showed."""

from collections.abc import Callable, Mapping

import numpy as np

from cocoa_lab.metrics import auroc
from models.probes.card import Target
from models.records import Array


def as_targets(values: Array, split: float | None) -> Array:
    """What a probe is to predict: the values themselves, or 1 above the split and 0 below."""
    if split is None:
        return values
    return (values > split).astype(np.float64)


def regression_metrics(predicted: Array, true: Array) -> dict[str, float | None]:
    """Mean squared error, R² and Spearman's rank correlation of predictions (N,)."""
    error = float(((predicted - true) ** 2).mean())
    r2 = None
    if variance := float(true.var()):
        r2 = 1 - error / variance
    return {"mse": error, "r2": r2, "spearman": spearman(predicted, true)}


def classification_metrics(predicted: Array, true: Array) -> dict[str, float | None]:
    """Binary cross-entropy, ROC-AUC, accuracy and share of the positive class, of (N,).

    The cross-entropy is in nats, and the accuracy is at 1/2.
    """
    likelihood = np.clip(np.where(true > 0, predicted, 1 - predicted), 1e-12, 1)
    return {
        "bce": float(-np.log(likelihood).mean()),
        "auroc": auroc(predicted, 1 - true),
        "accuracy": float(((predicted > 0.5) == (true > 0)).mean()),
        "positive_share": float(true.mean()),
    }


# By what a probe predicts.
AGREEMENT: Mapping[Target, Callable[[Array, Array], dict[str, float | None]]] = {
    "inconsistency": regression_metrics,
    "semantic_entropy": classification_metrics,
    "sentence_inconsistency": regression_metrics,
}


def spearman(a: Array, b: Array) -> float | None:
    """Spearman's rank correlation, ties at their mean rank; None where one side is constant."""
    ranks = _mean_ranks(a), _mean_ranks(b)
    if min(map(np.ptp, ranks)) == 0:
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _mean_ranks(values: Array) -> Array:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Array = (ends - (counts - 1) / 2)[inverse]
    return ranks
