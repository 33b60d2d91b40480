"""CoCoA Light: a probe on one layer's hidden states predicts what samples would show.

Vashurin et al. 2025.

Probes are trained on a model's own samples (docs/light.md). For a model without a probe these
estimators have no value.
"""

from models.estimators.information import mte, ppl, sp
from models.records import Array


def inconsistency_light(predicted_dissimilarity: float) -> float:
    """Inconsistency predicted, of samples that are never drawn: g(e).

    Vashurin et al. 2025.

    predicted_dissimilarity: in [0, 1], from a probe trained on `inconsistency`.

    Use: as inconsistency, at the price of the answer alone; reliable only for prompts like those
    its probe was trained on.
    """
    return predicted_dissimilarity


def cocoa_sp_light(answer_token_logprobs: Array, predicted_dissimilarity: float) -> float:
    """CoCoA Light (light mode's default): sp * g(e), in nats.

    Vashurin et al. 2025.

    Use: as cocoa_sp, where latency allows no samples.
    """
    return sp(answer_token_logprobs) * predicted_dissimilarity


def cocoa_ppl_light(answer_token_logprobs: Array, predicted_dissimilarity: float) -> float:
    """CoCoA Light over perplexity: ppl * g(e), in nats. Vashurin et al. 2025.

    Use: as cocoa_ppl, where latency allows no samples.
    """
    return ppl(answer_token_logprobs) * predicted_dissimilarity


def cocoa_mte_light(answer_token_entropies: Array, predicted_dissimilarity: float) -> float:
    """CoCoA Light over mean token entropy: mte * g(e), in nats. Vashurin et al. 2025.

    Use: as cocoa_mte, where latency allows no samples.
    """
    return mte(answer_token_entropies) * predicted_dissimilarity


def high_semantic_entropy_light(predicted_high_semantic_entropy: float) -> float:
    """High semantic entropy predicted: probability that it is above a split.

    Kossen et al. 2024.

    predicted_high_semantic_entropy: in [0, 1], from a probe trained on `semantic_entropy` above or
    below the split.

    Use: as semantic_entropy, at the price of the answer alone.
    """
    return predicted_high_semantic_entropy
