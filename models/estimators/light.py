"""CoCoA Light: a probe on one layer's hidden states predicts what samples would show.

Vashurin et al. 2025.

Probes are trained on a model's own samples (docs/light.md). For a model without a probe these
estimators have no value.
"""


def inconsistency_light(predicted_dissimilarity: float) -> float:
    """Inconsistency predicted, of samples that are never drawn: g(e).

    Vashurin et al. 2025.

    predicted_dissimilarity: in [0, 1], from a probe trained on `inconsistency`.

    Use: as inconsistency, at the price of the answer alone; reliable only for prompts like those
    its probe was trained on.
    """
    return predicted_dissimilarity


def high_semantic_entropy_light(predicted_high_semantic_entropy: float) -> float:
    """High semantic entropy predicted: probability that it is above a split.

    Kossen et al. 2024.

    predicted_high_semantic_entropy: in [0, 1], from a probe trained on `semantic_entropy` above or
    below the split.

    Use: as semantic_entropy, at the price of the answer alone.
    """
    return predicted_high_semantic_entropy
